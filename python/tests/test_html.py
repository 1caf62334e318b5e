"""Feeders and figures in notebooks."""

from __future__ import annotations

import json
import pickle
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import COUNT, ids_of, png
from forebay import _html


class Page(HTMLParser):
    """Refuses what is not closed, and what comes from outside."""

    EMPTY = ("br", "hr", "img", "meta")

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.captions: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "style", "iframe", "object", "img"), tag
        for name, value in attrs:
            assert name not in ("src", "href", "onclick", "onload", "id"), (tag, name)
            assert "url(" not in (value or "") and "://" not in (value or "")
        if tag not in self.EMPTY:
            self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "caption":
            self.captions.append(data)
        self.text += data


def test_a_feeder_is_a_page_of_tables(make: Any) -> None:
    feeder = make(policy="interval", interval=2)
    ids_of(feeder)
    page = Page(feeder._repr_html_())
    assert page.tags.count("table") == page.tags.count("caption") == len(page.captions) >= 5
    assert page.tags.count("th") > 20 and "Summary of this rank" in page.captions
    for text in (f"{feeder.steps}: 10 fresh (", "dataset.batch_size", "samples per batch", "trainer"):
        assert text in page.text, text
    assert str(feeder.profile()["sentence"]).split(":")[0] in page.text


def test_only_what_differs_from_the_defaults_stands_out(make: Any) -> None:
    feeder = make(batch_size=4, dataset_shuffle=True)
    changed = _html.configuration(feeder._values()).split("<details")[0]
    assert "dataset.batch_size" in changed and "64</code>" in changed and "dataset.shuffle" not in changed


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a&b", '"><img src=x>', "# [x]"])
def test_names_are_escaped(make: Any, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name.replace("/", "\\") / "class"
    folder.mkdir(parents=True)
    for number in range(8):
        (folder / f"{number}.png").write_bytes(png(number))
    feeder = make(dataset=folder.parent)
    html = feeder._repr_html_()
    page = Page(html)
    assert name.replace("/", "\\\\") in page.text or name.replace('"', '\\"') in page.text


def test_figures_are_dictionaries_and_tables(make: Any) -> None:
    feeder = make()
    ids_of(feeder)
    both = ((feeder.summary(), "Summary of this rank"), (feeder.profile(), "How full the queues were"))
    for figures, caption in both:
        page = Page(figures._repr_html_())
        assert caption in page.captions and "Every figure of the" in page.text
        assert json.loads(json.dumps(figures)) == figures == pickle.loads(pickle.dumps(figures))
        assert isinstance(figures, dict) and repr(figures).startswith("{")
    assert feeder.summary()["steps"] == COUNT // 4


def test_figures_have_units() -> None:
    for key, value, text in (
        ("stall_s", 1.5, "1.500 s"),
        ("read_ms", 2.25, "2.250 ms"),
        ("bytes_read", 3 << 20, "3 MiB"),
        ("read_mb_s", 12.5, "12.5 MB/s"),
        ("images_per_s", 1234.5, "1,234 images/s"),
        ("fresh_fraction", 0.331, "33.1 %"),
        ("queues.bytes.mean", 2048.0, "2 KiB"),
        ("queues.bytes.full", 0.5, "50.0 %"),
        ("steps", 12345, "12,345"),
        ("sentence", "a < b", "a &lt; b"),
    ):
        assert _html._number(key, value) == text, key


def test_a_feeder_in_use_says_so(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    feeder = make()
    import forebay

    def refuse() -> None:
        raise forebay.Error("the feeder is in use: <one thread>")

    monkeypatch.setattr(feeder, "summary", refuse)
    monkeypatch.setattr(feeder, "describe", refuse)
    assert "in use" in repr(feeder)
    assert "in use: <one thread>" in Page(feeder._repr_html_()).text

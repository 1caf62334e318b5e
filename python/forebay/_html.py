"""Feeders and figures as HTML for notebooks: tables without scripts or external resources, whose colours are the page's
or show on light and dark backgrounds alike."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._options import Key, config_keys
from .errors import Error

if TYPE_CHECKING:
    from ._displays import Shown
    from .feeder import Feeder

_LINE = "1px solid rgba(128,128,128,.4)"
_BLUE = "#3d85c6"
_SHARES = ("au", "blocked_in", "blocked_out", "busy", "empty", "fresh_au", "full", "producer_blocked", "shrinkable")
_UNITS = {"images_per_s": "{:,.0f} images/s", "images_per_s_alone": "{:,.0f} images/s", "_mb_s": "{:.4g} MB/s"}
_UNITS.update(_ms="{:.3f} ms", _s="{:.3f} s")
_LEFT = "text-align:left;padding:.15em .8em .15em 0;vertical-align:top;white-space:normal"
_RIGHT = "text-align:right;padding:.15em .8em .15em 0;vertical-align:top;white-space:nowrap"


# Characters that change the writing direction could make one name look like another.
_DIRECTIONS = {
    code: f"\\u{code:04x}" for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


def escape(text: str) -> str:
    return html.escape(text).translate(_DIRECTIONS)


class Figures(dict[str, Any]):
    """Figures by name: an ordinary dictionary that notebooks show as tables."""

    def __init__(self, figures: Mapping[str, Any], text: str = "") -> None:
        super().__init__(figures)
        self.text = text  #: the most important ones, each a line of a label and text

    def _repr_html_(self) -> str:
        return profile_tables(self) if "stages" in self else summary_table(self)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = False) -> str:
    """`rows` are cells of HTML, the first of each being its heading. numbers: right-aligns the others."""
    cell = _RIGHT if numbers else _LEFT

    def row(cells: Sequence[str]) -> str:
        rest = "".join(f'<td style="{cell}">{text}</td>' for text in cells[1:])
        return f'<tr style="border-bottom:{_LINE}"><th scope="row" style="{_LEFT}">{cells[0]}</th>{rest}</tr>'

    titles = "".join(
        f'<th scope="col" style="{cell if number else _LEFT}">{escape(text)}</th>' for number, text in enumerate(head)
    )
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;table-layout:auto;margin:.6em 0">'
        f'<caption style="text-align:left;font-weight:bold;padding:.2em 0">{escape(caption)}</caption>'
        + (f'<thead><tr style="border-bottom:{_LINE}">{titles}</tr></thead>' if head else "")
        + f"<tbody>{''.join(map(row, rows))}</tbody></table></div>"
    )


def bar(share: float, label: str) -> str:
    """A share from 0 to 1 as a bar; the label is for screen readers."""
    percent = f"{max(0.0, min(100.0, 100 * share)):.0f}%"
    fill = f"no-repeat padding-box linear-gradient(to right,{_BLUE} {percent},transparent {percent})"
    return (
        f'<span role="img" aria-label="{escape(label)}" title="{escape(label)}" '
        f'style="display:inline-block;width:6em;height:.7em;border:{_LINE};background:{fill}"></span>'
    )


def fold(title: str, content: str) -> str:
    return f'<details style="margin:.4em 0"><summary>{escape(title)}</summary>{content}</details>'


def _bytes(value: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def _number(key: str, value: Any) -> str:
    """A figure with its unit, which follows from its key."""
    if not isinstance(value, (int, float)):
        return escape(str(value))
    name = key.rsplit(".", 1)[-1]
    for ending, text in _UNITS.items():
        if name.endswith(ending):
            return text.format(value)
    if name.endswith("fraction") or name in _SHARES:
        return _percent(value)
    if "bytes" in key:
        return _bytes(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _with_bar(share: float, label: str) -> str:
    text = f'{bar(share, label)}<span style="display:inline-block;min-width:4em">{_percent(share)}</span>'
    return f'<span style="white-space:nowrap">{text}</span>'


def _flat(figures: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _all(figures: Mapping[str, Any], of: str) -> str:
    rows = [(f"<code>{escape(key)}</code>", _number(key, value)) for key, value in _flat(figures)]
    return fold(f"Every figure of the {of}", table("Figures by name", ["name", "value"], rows))


def summary_table(summary: Figures) -> str:
    lines = (line.partition(" ") for line in summary.text.splitlines())
    rows = [(escape(label), escape(words.strip())) for label, _, words in lines]
    return table("Summary of this rank", [], rows) + _all(summary, "summary")


def profile_tables(profile: Mapping[str, Any]) -> str:
    stages = [
        (
            escape(name),
            f"{stage['threads']:.1f}",
            _with_bar(stage["busy"], f"{name} busy"),
            _percent(stage["blocked_in"]),
            _percent(stage["blocked_out"]),
            f"{stage['images_per_s']:,.0f}",
            f"{stage['images_per_s_alone']:,.0f}" if stage["images_per_s_alone"] else "-",
        )
        for name, stage in profile["stages"].items()
    ]
    units = {"encoded": "samples read, not yet decoded", "bytes": "bytes in flight", "ring": "batches ready"}
    queues = [
        (
            escape(units.get(name, name)),
            *(_bytes(queue[key]) if name == "bytes" else f"{queue[key]:.1f}" for key in ("mean", "most")),
            _with_bar(queue["empty"], f"{name} empty"),
            _with_bar(queue["full"], f"{name} full"),
        )
        for name, queue in profile["queues"].items()
    ]
    where = f"Where the time went in {profile['window_s']:.1f} s, {profile['batches']:,} batches"
    head = ["stage", "threads", "busy", "waits for input", "waits for room", "images/s", "images/s alone"]
    bound, colon, reason = str(profile["sentence"]).partition(":")
    return (
        f"<p><b>{escape(bound)}</b>{escape(colon + reason)}</p>"
        + table(where, head, stages, numbers=True)
        + table("How full the queues were", ["queue", "mean", "most", "empty", "full"], queues, numbers=True)
        + _all(profile, "profile")
    )


def configuration(values: Mapping[str, str]) -> str:
    keys = {key.full_name: key for key in config_keys()}
    unknown = Key("", "", "", "", "")  # for keys of [fields.NAME]
    rows = [
        (
            f"<code>{escape(name)}</code>",
            f'<code style="overflow-wrap:anywhere">{escape(value)}</code>',
            f"<code>{escape(keys.get(name, unknown).default)}</code>",
            f'<span style="display:inline-block;min-width:10em">{escape(keys.get(name, unknown).help)}</span>',
        )
        for name, value in values.items()
    ]
    changed = [row for row, (name, value) in zip(rows, values.items()) if value != keys.get(name, unknown).default]
    head = ["key", "value", "default", "meaning"]
    return table("Options other than the defaults", head, changed) + fold("Every option", table("Options", head, rows))


def feeder(of: Feeder) -> str:
    """The configuration and figures of a feeder."""
    try:
        tables = summary_table(of.summary()) + profile_tables(of.profile()) + configuration(of._values())
    except Error:  # another thread is inside a call, or this is a fork; the text says which
        tables = ""
    return f"<div><p><code>{escape(repr(of))}</code></p>{tables}</div>"


def live(shown: Shown) -> str:
    """What a running loop shows in a notebook; drawn again at every update."""
    rows = [
        (name, ("" if share is None else f"{bar(share, name)} ") + escape(text)) for name, share, text in shown.rows()
    ]
    return f"<div>{table(shown.title, [], rows)}</div>"

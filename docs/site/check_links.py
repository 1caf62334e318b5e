"""Checks the built site without a browser: links, anchors, pictures, that nothing is loaded from elsewhere, and that no
page shows markup.

    python3 docs/site/check_links.py build/docs
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {("link", "href"), ("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src")}
_CODE = ("pre", "code", "script", "style")
# Markdown that was taken for text.
_MARKUP = re.compile(r":::+|```+|\{[a-z]+:?[a-z]*\} |\]\([^)\s]+\)|^\s*\|[- |]+\|", re.M)
_LOADED_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "shortcut icon", "prefetch", "preconnect"}


class _Page(HTMLParser):
    def __init__(self, file):
        super().__init__()
        self.ids, self.links, self.loads, self.texts, self.code = set(), [], [], [], 0
        self.feed(file.read_text())

    def handle_data(self, text):
        if not self.code:
            self.texts.append(text)

    def handle_endtag(self, tag):
        self.code -= tag in _CODE

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.code += tag in _CODE
        self.ids.update(filter(None, (values.get("id"), values.get("name") if tag == "a" else None)))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        for name in ("href", "src"):
            is_loaded = tag != "link" or values.get("rel", "") in _LOADED_RELATIONS
            if (tag, name) in _LOADED and is_loaded and values.get(name):
                self.loads.append((tag, values[name]))


def problems(site):
    pages = {file: _Page(file) for file in sorted(site.rglob("*.html"))}
    if len(pages) < 20:
        yield f"{site}: only {len(pages)} pages; was it built?"
    for file, page in pages.items():
        name = file.relative_to(site)
        if found := _MARKUP.search("".join(page.texts)):
            yield f"{name}: shows the markup {found[0]!r}"
        for tag, url in page.loads:
            parts = urlsplit(url)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                yield f"{name}: <{tag}> loads {url} from elsewhere"
            elif not (file.parent / unquote(parts.path)).is_file():
                yield f"{name}: <{tag}> loads {url}, which does not exist"
        for url in page.links:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                yield f"{name}: the link {url} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{name}: the link {url} names no place of that page"
    for file in sorted(site.rglob("*.css")):
        for url in re.findall(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")]+)", file.read_text()):
            yield f"{file.relative_to(site)}: loads {url} from elsewhere"


def main():
    site = Path(sys.argv[1]).resolve()
    found = list(problems(site))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

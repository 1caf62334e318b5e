"""Opens every page of the built site in Chromium, which reaches nothing else: at a desktop's and at a phone's width,
light and dark. Fails with page and element: what widens the page, a picture that does not load, an error of a script,
text that can hardly be told from its background.

    python check_browser.py build/docs CHROMIUM [PICTURES]     PICTURES: a folder for a screenshot of each page and look
"""

import contextlib
import functools
import http.server
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

LOOKS = {
    "desktop": ({"width": 1280, "height": 900}, "light"),
    "phone": ({"width": 390, "height": 844}, "light"),
    "phone-dark": ({"width": 390, "height": 844}, "dark"),
    "desktop-dark": ({"width": 1280, "height": 900}, "dark"),
}

# What is wider than the window and is in no box that scrolls; the page itself must not scroll sideways.
_WIDE = """() => {
  const limit = document.documentElement.clientWidth + 1;
  if (document.documentElement.scrollWidth <= limit) return [];
  const scrolls = e => e && e !== document.body &&
    (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  return [...document.querySelectorAll('body *')]
    .filter(e => e.getBoundingClientRect().right > limit && !scrolls(e.parentElement))
    .slice(0, 3)
    .map(e => `<${e.tagName.toLowerCase()} class="${e.className}"> ` + (e.textContent || '').trim().slice(0, 60));
}"""

_PICTURES = """() => [...document.images].filter(i => !i.complete || i.naturalWidth === 0).map(i => i.src)"""

# Text against the nearest background, by WCAG's formula; 3 is its limit for large text, below which any is hard to read.
_FAINT = """() => {
  const rgb = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const found = new Map();
  const texts = document.createTreeWalker(document.querySelector('article') || document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    const style = getComputedStyle(e);
    if (!texts.currentNode.data.trim() || e.closest('svg, .headerlink, script, style') || !e.offsetWidth ||
        style.visibility === 'hidden' || style.opacity < 1) continue;
    const [a, b] = [light(rgb(style.color)), light(behind(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 3 && !found.has(e.className)) {
      const text = texts.currentNode.data.trim().slice(0, 40);
      found.set(e.className, `<${e.tagName.toLowerCase()} class="${e.className}"> ${contrast.toFixed(1)} ${text}`);
    }
  }
  return [...found.values()].slice(0, 3);
}"""


def _check(page, name, look):
    size, scheme = LOOKS[look]
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme)
    for element in page.evaluate(_WIDE):
        yield f"{name} ({look}): wider than the page: {element}"
    for element in page.evaluate(_FAINT):
        yield f"{name} ({look}): hard to read: {element}"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def _served(site):
    """The address of the site, served to this machine."""
    handler = functools.partial(_Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def _check_search(page, address):
    """A word that only code and tables use, and a function of the reference."""
    for words in ("watermark", "load_state_dict"):
        page.goto(f"{address}search.html?q={words}")
        try:
            page.wait_for_selector("#search-results li a")
            page.wait_for_load_state("networkidle")  # it reads what it shows of each page
        except Exception:  # noqa: BLE001 - whatever kind it is
            yield f"search.html: nothing is found for {words}"


def problems(site, chromium, pictures):
    with sync_playwright() as driver, _served(site) as address:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.set_default_timeout(300_000)  # of a machine that has other things to do
        heard = []

        def pass_on(route):
            if route.request.url.startswith((address, "data:")):
                return route.continue_()
            heard.append(f"asks for {route.request.url}")
            return route.abort()

        page.route("**/*", pass_on)
        page.on("console", lambda m: heard.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: heard.append(f"script: {e}"))
        page.on("requestfailed", lambda r: heard.append(f"not loaded: {r.url}"))
        for file in sorted(site.rglob("*.html")):
            name = str(file.relative_to(site))
            page.goto(address + name, wait_until="load")
            page.evaluate("for (const i of document.images) i.loading = 'eager'")
            for look in LOOKS:
                yield from _check(page, name, look)
                if pictures:
                    page.screenshot(path=pictures / f"{name.removesuffix('.html').replace('/', '_')}.{look}.png")
            for source in page.evaluate(_PICTURES):
                yield f"{name}: the picture {source} does not load"
            yield from (f"{name}: {what}" for what in heard)
            heard.clear()
        yield from _check_search(page, address)
        yield from (f"search.html: {what}" for what in heard)
        browser.close()


def main():
    site = Path(sys.argv[1]).resolve()
    pictures = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    count = 0
    for line in problems(site, sys.argv[2], pictures):
        print(line, file=sys.stderr, flush=True)
        count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

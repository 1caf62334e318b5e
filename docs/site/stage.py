"""Lays out the pages of the site: those of the repository at their places, with links that hold there, the reference,
and the sources that pages link to.

    python3 docs/site/stage.py OUT
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cpp_reference
import python_reference
import rooms_drawing

ROOT = Path(__file__).resolve().parents[2]
PICTURES = (".png", ".svg", ".jpg")
LANGUAGES = {
    ".cpp": "cpp", ".hpp": "cpp", ".cu": "cpp", ".h": "c", ".py": "python", ".sh": "bash", ".toml": "toml",
    ".json": "json", ".cmake": "cmake", ".txt": "none", "": "bash",
}  # fmt: skip
# What stands for a folder of sources.
REFERENCE = {"include/forebay": "reference/cpp/index.md", "python/forebay": "reference/python/index.md"}
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *(```+|~~~+)")


def tracked():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sorted({path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()})


def cells_of(notebook, fence):
    """The texts and the code of a notebook, one after the other."""
    shown = []
    for cell in json.loads(notebook)["cells"]:
        text = "".join(cell["source"])
        # Its headings are below that of the page.
        is_code = cell["cell_type"] == "code"
        shown.append(f"{fence}python\n{text}\n{fence}" if is_code else re.sub(r"^#", "##", text, flags=re.M))
    return "\n\n".join(shown) + "\n"


class Site:
    def __init__(self, out):
        self.out = out
        self.files = tracked()
        self.folders = {str(parent) for path in self.files for parent in Path(path).parents}
        self.pages = [path for path in self.files if path.endswith(".md")]
        self.broken = []
        self.written = set()
        self.sources = []  # to be shown, because a page links to them

    def write(self, path, text):
        file = self.out / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != text:  # Sphinx builds anew what has changed
            file.write_text(text)
        self.written.add(path)

    def place(self, path):
        """Where a file or folder of the repository is on the site, or None."""
        readme = "README.md" if path == "." else f"{path}/README.md"
        if path in REFERENCE:
            return REFERENCE[path]
        if path in self.pages:
            return re.sub(r"(^|/)README\.md$", r"\1index.md", path)
        if path in self.folders and readme in self.pages:
            return self.place(readme)
        if path == "docs/decisions":
            return "docs/decisions/index.md"
        if path.startswith("include/forebay/") and path in self.files:
            return f"reference/cpp/{cpp_reference.page_of(path.removeprefix('include/forebay/'))}.md"
        if path.endswith(PICTURES) and path in self.files:
            return path
        if path in self.files or path in self.folders:
            self.show(path)
            return f"source/{path}.md" if path in self.files else f"source/{path}/index.md"
        return None

    def show(self, path):
        if path not in self.sources:
            self.sources.append(path)

    def relinked(self, page, text):
        """The page with links to where things are on the site. Code stays as it is."""
        here = self.place(page)

        def link(found):
            target, _, anchor = found[1].partition("#")
            if not target or re.match(r"[a-z]+:", target):
                return found[0]
            wanted = os.path.normpath(os.path.join(os.path.dirname(page), target))
            place = self.place(wanted)
            if place is None:
                self.broken.append(f"{page}: {found[1]}: there is no {wanted}")
                return found[0]
            there = os.path.relpath(place, os.path.dirname(here) or ".")
            return f"]({there}{'#' + anchor if anchor else ''})"

        def line(text):
            spans = re.split(r"(`+[^`]+`+)", text)
            return "".join(span if i % 2 else _LINK.sub(link, span) for i, span in enumerate(spans))

        lines, fence = [], None
        for row in text.split("\n"):
            mark = _FENCE.match(row)
            if fence is None and mark:
                fence = mark[1]
            elif fence is not None and mark and row.strip() == fence:
                fence = None
            elif fence is None:
                row = line(row)
            lines.append(row)
        return "\n".join(lines)

    def drawn(self, text):
        def draw(found):
            return "```{raw} html\n" + rooms_drawing.svg(found[1]) + "```"

        return re.sub(r"^```mermaid\n(.*?)^```", draw, text, flags=re.M | re.S)

    def navigation(self):
        """Sections and the places of their pages, as docs/README.md lists them; what it leaves out comes last."""
        sections, listed = [], {"docs/index.md", "index.md"}
        for line in (ROOT / "docs/README.md").read_text().split("\n"):
            if line.startswith("## "):
                sections.append((line[3:], []))
            row = re.match(r"\| *\[[^\]]*\]\(([^)#\s]+)\)", line)
            if row and sections:
                place = self.place(os.path.normpath(os.path.join("docs", row[1])))
                if place and place not in listed and place.endswith(".md"):
                    sections[-1][1].append(place)
                    listed.add(place)
        rest = [self.place(p) for p in self.pages if re.match(r"docs/[^/]+\.md$", p)]
        rest = [place for place in rest if place not in listed]
        return [*sections, ("More", rest)] if rest else sections

    @staticmethod
    def toctree(here, places, options=("hidden",), caption=None):
        named = [os.path.relpath(place, os.path.dirname(here) or ".").removesuffix(".md") for place in places]
        head = [f":caption: {caption}"] if caption else []
        return "\n".join(["", "```{toctree}", *head, *(f":{option}:" for option in options), *named, "```", ""])

    def below(self, page):
        """The pages of the folders below a page that lists them."""
        folder = os.path.dirname(page)
        if os.path.basename(page) != "README.md" or folder in ("", "docs"):
            return []
        return [self.place(p) for p in self.pages if re.fullmatch(re.escape(folder) + r"/\w+/README\.md", p)]

    def write_pages(self):
        nav = self.navigation()
        in_trees = {place for _, places in nav for place in places}
        trees = {page: self.below(page) for page in self.pages}
        in_trees |= {place for places in trees.values() for place in places}
        in_trees |= {self.place(p) for p in self.pages if p.startswith("docs/decisions/")}
        for page in self.pages:
            place = self.place(page)
            text = self.relinked(page, self.drawn((ROOT / page).read_text()))
            if page == "README.md":
                text += "".join(self.toctree(place, places, caption=title) for title, places in nav)
            elif place not in in_trees:
                text = "---\norphan: true\n---\n" + text
            if trees[page]:
                text += self.toctree(place, trees[page])
            self.write(place, text)
        for picture in self.files:
            if picture.endswith(PICTURES) and picture.startswith(("docs/", "experiments/", "examples/")):
                (self.out / picture).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / picture, self.out / picture)
                self.written.add(picture)

    def write_decisions(self):
        pages = [p for p in self.pages if p.startswith("docs/decisions/")]
        text = "# Decisions\n\nChoices that could have gone otherwise, and why they were made.\n"
        text += self.toctree("docs/decisions/index.md", pages, options=())
        self.write("docs/decisions/index.md", text)

    def write_reference(self):
        for language, pages in (("cpp", cpp_reference.pages(ROOT)), ("python", python_reference.pages(ROOT))):
            for name, text in pages.items():
                self.write(f"reference/{language}/{name}.md", text)

    def write_sources(self):
        """The files and folders that are linked to, and all files of such folders. Search leaves them out."""
        head = "---\norphan: true\nnosearch: true\n---\n"
        for path in self.sources:  # grows meanwhile
            if path in self.files:
                text = (ROOT / path).read_text(errors="replace").rstrip("\n")
                language = LANGUAGES.get(os.path.splitext(path)[1], "none")
                fence = "`" * 7
                shown = cells_of(text, fence) if path.endswith(".ipynb") else f"{fence}{language}\n{text}\n{fence}\n"
                self.write(f"source/{path}.md", f"{head}# {os.path.basename(path)}\n\n`{path}`\n\n{shown}")
                continue
            inside = [file for file in self.files if file.startswith(path + "/")]
            here = f"source/{path}"
            rows = [f"- [{file[len(path) + 1 :]}]({os.path.relpath(self.place(file), here)})" for file in inside]
            self.write(f"{here}/index.md", f"{head}# {path}\n\n" + "\n".join(rows) + "\n")

    def lay_out(self):
        self.write_pages()
        self.write_decisions()
        self.write_reference()
        self.write_sources()
        for file in self.out.rglob("*"):
            if file.is_file() and str(file.relative_to(self.out)) not in self.written:
                file.unlink()


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    site = Site(out)
    site.lay_out()
    for line in site.broken:
        print(line, file=sys.stderr)
    return 1 if site.broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""Pages of the public headers: what stands in them, as prose with the declarations between, without private parts."""

import re
import textwrap
from dataclasses import dataclass, field

_TRAILING = re.compile(r"\s+//.*$")
# Friends, deleted members, destructors and moves.
_IMPLIED = re.compile(
    r"\s*(template <[^>]*>\s*)?friend |(?s:.*)= delete;|\s*(virtual )?~|\s*(\w+& operator=|\w+)\(\w+&&[ )]"
)


@dataclass
class _Item:
    comment: list = field(default_factory=list)
    code: list = field(default_factory=list)


def _bare(line):
    """A line without comments, strings and characters, for counting brackets."""
    return _TRAILING.sub("", re.sub(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])'", "0", line))


def _items(lines):
    """Comments with the declarations after them, up to an empty line or the next comment."""
    items, current, depth = [], _Item(), 0
    for line in lines:
        stripped = line.strip()
        is_comment = stripped.startswith("//") and depth == 0
        is_complete = not current.code or _bare(current.code[-1]).rstrip().endswith((";", "}", ":", ","))
        if depth == 0 and (not stripped or (is_comment and current.code and is_complete)):
            if current.comment or current.code:
                items.append(current)
            current = _Item()
        if is_comment:
            current.comment.append(stripped)
        elif stripped:
            current.code.append(line)
            bare = _bare(line)
            depth += sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
    return [*items, current] if current.comment or current.code else items


def _prose(comment):
    """Comment lines as Markdown: names and operators stay as they are, indented lines are code, `-` begins an item."""
    out, code = [], []

    def flush():
        if code:
            out.extend(["", "```cpp", *textwrap.dedent("\n".join(code)).split("\n"), "```", ""])
            code.clear()

    for line in comment:
        text = re.sub(r"^// ?", "", line)
        if text.startswith("  ") and not text.lstrip().startswith("- ") and (code or not (out and out[-1].strip())):
            code.append(text)
            continue
        flush()
        if named := re.match(r" {2,}(\w+) {2,}(\S.*)", text):  # a parameter
            text = f" - `{named[1]}`: {named[2]}"
        indent = "  " if text.startswith("   ") else ""
        parts = re.split(r"(`[^`]*`)", text.strip())
        safe = "".join(p if i % 2 else re.sub(r"([\\*_<>\[\]#])", r"\\\1", p) for i, p in enumerate(parts))
        safe = re.sub(r"(?<![\w/])docs/([\w-]+)\.md", r"[docs/\1.md](../../docs/\1.md)", safe)
        is_listed = [bool(re.match(r"- |  ", line)) for line in (out[-1] if out else "", indent + safe)]
        if out and out[-1].strip() and is_listed[0] != is_listed[1]:
            out.append("")  # a list begins or ends
        out.append(indent + safe)
    flush()
    return "\n".join(out).strip()


def _without_bodies(lines):
    """Declarations as a caller sees them: no bodies, no initialiser lists, and of the special members constructors only."""
    text = re.sub(r"[ \t]*// ?NOLINT.*$", "", "\n".join(lines), flags=re.M)
    out, i, depth = "", 0, 0
    while i < len(text):
        c = text[i]
        is_body = c == "{" and depth == 0 and re.search(r"\)[\s\w]*(?: : .*)?$|\}$", out.rsplit(";", 1)[-1], re.S)
        if is_body:
            nested = 1
            while nested:
                i += 1
                nested += (text[i] == "{") - (text[i] == "}")
            out = re.sub(r"\s+:\s[^:].*$", "", out[out.rfind("\n", 0, len(out.rstrip())) + 1 :], flags=re.S).join(
                [out[: out.rfind("\n", 0, len(out.rstrip())) + 1], ""]
            )
            out = out.rstrip() + ";"
        else:
            depth += (c == "(") - (c == ")")
            out += c
        i += 1
    kept = [d for d in re.split(r"(?<=;)\n", out) if not _IMPLIED.match(d)]
    return textwrap.dedent("\n".join(kept)).strip("\n")


def _public(lines):
    """The public part of a class, without its braces."""
    out, is_public, depth = [], False, 0
    for line in lines:
        label = re.match(r"\s*(public|protected|private):$", line)
        if label and depth == 0:
            is_public = label[1] == "public"
        elif is_public:
            out.append(line)
        bare = _bare(line)
        depth += bare.count("{") - bare.count("}")
    return out


def _code(text):
    return ["```cpp", text, "```", ""] if text else []


def _title(head):
    return re.sub(r" final\b|(?<=\w) : (?:public|std).*|\s*\{$", "", head).strip()


def _class(item):
    name = _title(_bare(item.code[0]))
    out = [f"## {name}", "", _prose(item.comment), ""]
    head = re.sub(r"\s*\{$", ";", item.code[0])
    out += _code(head) if " : " in head else []
    for member in _items(_public(item.code[1:-1])):
        code = _without_bodies(member.code)
        out += [*_code(code), _prose(member.comment), ""] if code else [_prose(member.comment), ""]
    return out


def _item(item):
    head = next((line for line in item.code if not line.startswith("template")), "")
    if re.match(r"class \w+.*\{$", head):
        return _class(item)
    if not item.code:
        return [_prose(item.comment), ""]
    if all(re.match(r"(class|struct) \w+;|static_assert\(|\s", line) for line in item.code):
        return []
    if head.startswith("#"):
        return [*_code("\n".join(item.code)), _prose(item.comment), ""]
    if kind := re.match(r"(?:typedef )?(struct|enum class|enum|union) (\w+)", head):
        title = [] if head.endswith("};") else [f"## {kind[1]} {kind[2]}", ""]
        return [*title, _prose(item.comment), "", *_code(_without_bodies(item.code))]
    if alias := re.match(r"using (\w+) =", head):
        return [f"## {alias[1]}", "", _prose(item.comment), "", *_code("\n".join(item.code))]
    called = re.search(r"(\w+)\(", " ".join(_bare(line) for line in item.code).replace("operator()(", "call("))
    title = [f"## {called[1]}()", ""] if called and "=" not in item.code[0].split("(")[0] else []
    return [*title, *_code(_without_bodies(item.code)), _prose(item.comment), ""]


def _first_sentence(text):
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"^#.*$", "", text, flags=re.M).strip().split("\n\n")[0].replace("\n", " ")
    return re.match(r".*?[.](?= |$)|.*", text)[0]


def _summary(stem, text):
    """A sentence: what stands before everything else, else the class named like the header, else the first prose."""
    sections = re.split(r"^## (.*)\n", text, flags=re.M)
    named = [body for name, body in zip(sections[1::2], sections[2::2]) if stem in re.split(r"\W", name.lower())[-1]]
    said = [_first_sentence(section) for section in (sections[0], *named, *sections[2::2])]
    return next(filter(None, said), "")


def _page(header, folder):
    """The page of a header, and what it is in a sentence."""
    dropped = r"#(?!define FOREBAY_[A-Z_]+ \S)|namespace .*\{|\}  // (namespace|extern)|extern \"C\"|// NOLINT"
    if header.suffix == ".h":
        dropped += r"|\}$"
    lines = [line for line in header.read_text().split("\n") if not re.match(dropped, line)]
    body, title = [], None
    for item in _items(lines):
        made = _item(item)
        if made and made[0] == title:  # overloads
            made = made[1:]
        elif made and made[0].startswith("## "):
            title = made[0]
        body += made
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(body)).strip()
    if header.suffix == ".h":
        text = re.sub(r"^```cpp$", "```c", text, flags=re.M)
    return f"# `<{header.relative_to(folder)}>`\n\n{text}\n", _summary(header.stem, text)


def page_of(path):
    """The name of the page of a header below include/forebay."""
    return path.removesuffix(".hpp") if path.endswith(".hpp") else "c-" + path.removesuffix(".h").replace("/", "-")


def _table(headers, folder, made):
    rows = []
    for header in headers:
        name = page_of(str(header.relative_to(folder / "forebay")))
        made[name], sentence = _page(header, folder)
        rows.append(f"| [`{header.relative_to(folder)}`]({name}.md) | {sentence} |")
    return ["", "| header | what it is about |", "|---|---|", *rows, ""]


def pages(root):
    """The text of each page by its name: index, and one for each header."""
    folder, made = root / "include", {}
    first = ("feeder", "forebay")
    cpp = sorted(folder.rglob("*.hpp"), key=lambda h: (h.stem not in first, h.name))
    plain_c = sorted(folder.rglob("*.h"), key=lambda h: (h.stem not in first, h.name))
    lines = [
        "# C++ and C: reference",
        "",
        "The public headers, in namespace `forebay`. A program includes `<forebay/feeder.hpp>`, and",
        "`<forebay/mpi.hpp>` if it has several ranks; [Integrating Forebay](../../docs/integration.md) shows how.",
        *_table(cpp, folder, made),
    ]
    if plain_c:
        lines += ["## C", *_table(plain_c, folder, made)]
    made["index"] = "\n".join([*lines, "```{toctree}", ":hidden:", "", *made, "```"])
    return made

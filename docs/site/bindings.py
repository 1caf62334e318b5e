"""What the extension module offers, read from its sources: classes and members as nanobind is told of them.

The reference needs no compiled package that way. Signatures are those of nb::sig(), or the names of the arguments.
"""

import re
from dataclasses import dataclass, field

_CLASS = re.compile(r"nb::class_<(?:\w+::)*(\w+)[^>]*>")
_MEMBER = re.compile(r"(module)?\.def(_prop_ro|_prop_rw|_ro|_rw|_static)?\(")
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass
class Member:
    name: str
    parameters: str  # "(name='image')", and what it returns if that is known; of a property "" or ": int"
    text: str
    is_property: bool


@dataclass
class Class:
    name: str
    text: str
    members: list = field(default_factory=list)


def _call(text, start):
    """The arguments of a call whose opening bracket ends at `start`."""
    arguments, depth, begin, i = [], 0, start, start
    while True:
        c = text[i]
        if c == '"':
            i = _LITERAL.match(text, i).end()
            continue
        if c == "'" and (character := re.compile(r"'(\\.|[^'\\])'").match(text, i)):
            i = character.end()
            continue
        if c in ")]}" and depth == 0:
            return [*arguments, text[begin:i].strip()]
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            arguments.append(text[begin:i].strip())
            begin = i + 1
        i += 1


def _string(argument):
    """The text of adjacent literals, or None for anything else."""
    if _LITERAL.sub("", argument).strip() or not argument.startswith('"'):
        return None
    return re.sub(r"\\(.)", r"\1", "".join(_LITERAL.findall(argument)))


def _of_names(arguments):
    names = []
    for argument in arguments:
        if argument == "nb::kw_only()":
            names.append("*")
        elif named := re.match(r'"(\w+)"_a(\.none\(\))?(?: = (.*))?$', argument, re.S):
            default = {"nb::none()": "None", "nb::tuple()": "()", "true": "True", "false": "False"}.get(named[3], named[3])
            names.append(f"{named[1]}={default}" if default else named[1])
    return f"({', '.join(names)})"


def _member(kind, arguments):
    name = _string(arguments[0])
    texts = [text for text in map(_string, arguments[1:]) if text is not None]
    signature = next((a for a in arguments if a.startswith("nb::sig(")), None)
    is_property = kind is not None and kind != "_static"
    if signature:
        given = _string(signature[len("nb::sig(") : -1]).replace("typing.", "")
        parameters = re.sub(r"^def \w+\((self(, )?)?", "(", given)
        if is_property:
            parameters = parameters.replace("() ->", ":")
    else:
        parameters = "" if is_property else _of_names(arguments[1:])
    return Member(name, parameters, texts[-1] if texts else "", is_property)


def classes(folder):
    """Every class by its name in Python."""
    named, members = {}, []
    for file in sorted(folder.glob("*.cpp")):
        text = re.sub(r"^ *//.*$", "", file.read_text(), flags=re.M)
        for found in _CLASS.finditer(text):
            made = re.compile(r"(?: \w+)?\(").match(text, found.end())
            arguments = _call(text, made.end()) if made else []
            if len(arguments) > 1 and _string(arguments[1]):
                doc = next((t for t in map(_string, arguments[2:]) if t), "")
                named[found[1]] = Class(_string(arguments[1]), doc)
        for found in _MEMBER.finditer(text):
            if found[1]:
                continue
            of = [c[1] for c in _CLASS.finditer(text, 0, found.start())]
            if of:
                members.append((of[-1], _member(found[2], _call(text, found.end()))))
    for of, member in members:
        if of in named and member.name:
            named[of].members.append(member)
    return {of.name: of for of in named.values()}

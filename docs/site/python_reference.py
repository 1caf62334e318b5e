"""Pages of the Python package, from its sources: nothing is imported, so nothing need be compiled or installed."""

import ast
import re
import textwrap

import bindings

_HEAD = "---\ntocdepth: 2\n---\n"


def _markdown(text, parameters=()):
    """A docstring as Markdown: literal blocks are Python, lines `name: ...` of parameters a list."""
    lines, in_list = [], False
    blocks = re.split(r"^::\n\n((?:(?: {4}.*)?\n)+)", textwrap.dedent(text).strip() + "\n", flags=re.M)
    for i, block in enumerate(blocks):
        if i % 2:
            lines += ["```python", *textwrap.dedent(block).strip("\n").split("\n"), "```", ""]
            continue
        for line in block.split("\n"):
            name = re.match(r"((\*{0,2}\w+)(, \w+)*): (.*)", line)
            if name and (in_list or set(re.findall(r"\w+", name[1])) <= set(parameters)):
                lines += [] if in_list else [""]
                lines.append(f"- `{name[1]}`: {name[4]}")
                in_list = True
            elif in_list and line:
                lines.append("  " + line)
            else:
                in_list = False
                lines.append(line)
    return re.sub(r"(?<![\w/])docs/([\w-]+)\.md", r"[docs/\1.md](../../docs/\1.md)", "\n".join(lines)).strip()


def _docstring(node):
    return ast.get_docstring(node, clean=True) or ""


def _decorators(node):
    return {ast.unparse(d).split(".")[-1] for d in node.decorator_list}


def _signature(function, drops_self):
    arguments = function.args
    if drops_self:
        first = arguments.posonlyargs or arguments.args
        if first:
            first.pop(0)
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"({ast.unparse(arguments)}){returns}".replace("_core.", "")


def _names(function):
    a = function.args
    return [p.arg for p in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg] if p]


class _Page:
    def __init__(self, modules, extension):
        self.modules = modules
        self.extension = extension
        self.lines = []

    def entry(self, kind, signature, text, options=(), body=None, colons=4):
        fence = ":" * colons
        self.lines += [f"{fence}{{py:{kind}}} {signature}", *(f":{o}" for o in options), "", text, ""]
        if body:
            body()
        self.lines += [fence, ""]

    def function(self, node, kind="function", name=None, options=()):
        text = _markdown(_docstring(node), _names(node))
        drops = kind == "method" and "staticmethod:" not in options
        self.entry(kind, (name or node.name) + _signature(node, drops), text, options, colons=3)

    def bound(self, member):
        if member.is_property:
            kind = [f"type{member.parameters}"] if member.parameters else []
            self.entry("property", member.name, _markdown(member.text), kind, colons=3)
        else:
            self.entry("method", member.name + member.parameters, _markdown(member.text), colons=3)

    def members_of(self, node):
        """Public members of a class written in Python, after those of the class of the extension beneath it."""
        own = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
        for base in node.bases:
            beneath = self.extension.get(ast.unparse(base).removeprefix("_core."))
            for member in beneath.members if beneath else []:
                if not member.name.startswith("_") and member.name not in own:
                    self.bound(member)
        comments = self.modules.comments(node)
        for child in node.body:
            if isinstance(child, ast.AnnAssign) and not child.target.id.startswith("_"):
                typed = [f"type: {ast.unparse(child.annotation)}"]
                self.entry("attribute", child.target.id, comments.get(child.lineno, ""), typed, colons=3)
            elif isinstance(child, ast.FunctionDef) and not child.name.startswith("_"):
                decorators = _decorators(child)
                if "overload" in decorators or "setter" in decorators:
                    continue
                if "property" in decorators:
                    kind = [f"type: {ast.unparse(child.returns)}"] if child.returns else []
                    self.entry("property", child.name, _markdown(_docstring(child)), kind, colons=3)
                else:
                    known = [f"{d}:" for d in ("classmethod", "staticmethod", "abstractmethod") if d in decorators]
                    self.function(child, "method", options=known)

    def python_class(self, node):
        made = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        bases = {ast.unparse(base).split(".")[-1] for base in node.bases}
        parameters = _names(made) if made else []
        signature = node.name + (_signature(made, True).removesuffix(" -> None") if made else "")
        kind = "exception" if any(base.endswith("Error") for base in bases) else "class"
        text = _markdown("\n\n".join(filter(None, [_docstring(node), made and _docstring(made)])), parameters)
        if kind == "exception":
            text += f"\n\nBases: {', '.join(f'`{base}`' for base in sorted(bases))}"
        self.entry(kind, signature, text, body=lambda: self.members_of(node))

    def bound_class(self, found):
        def body():
            for member in found.members:
                if not member.name.startswith("_") or member.name in ("__getitem__", "__dlpack__"):
                    self.bound(member)

        self.entry("class", found.name, _markdown(found.text), body=body)

    def name(self, name):
        node = self.modules.find(name)
        if node is None:
            found = self.extension.get(name)
            if found is None or not found.text or not found.members:
                raise LookupError(f"python/forebay: nothing says what {name} is")
            self.bound_class(found)
        elif isinstance(node, ast.ClassDef):
            self.python_class(node)
        elif isinstance(node, ast.FunctionDef):
            self.function(node)
        else:
            kind = ast.unparse(node.value)
            text = _docstring(self.modules.find(kind.removesuffix("()")) or ast.parse(""))
            self.entry("data", name, _markdown(text))


class _Modules:
    """The sources of the package, and what stands in them under which name."""

    def __init__(self, folder):
        self.texts = {file.stem: file.read_text() for file in sorted(folder.glob("*.py"))}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}
        self.top = {}
        for name, tree in self.trees.items():
            if name != "__init__":
                self.top |= {(name, n): node for node in tree.body for n in self._defined(node)}
        self.imported = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in self.trees["__init__"].body
            if isinstance(node, ast.ImportFrom) and node.level == 1
            for alias in node.names
        }

    @staticmethod
    def _defined(node):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            return [node.name]
        if isinstance(node, ast.Assign):
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        return []

    def find(self, name):
        if name in self.imported:
            return self.top.get(self.imported[name])
        return next((node for (_, n), node in self.top.items() if n == name), None)

    def comments(self, node):
        """What stands behind the fields of a class, by line."""
        for name, tree in self.trees.items():
            if node in tree.body:
                lines = self.texts[name].split("\n")
                return {
                    i: lines[i - 1].split("  # ", 1)[1]
                    for i in range(node.lineno, node.end_lineno + 1)
                    if "  # " in lines[i - 1] and "noqa" not in lines[i - 1]
                }
        return {}

    def public(self):
        """What the package imports under its own name: `from .feeder import Feeder as Feeder`."""
        imports = (node for node in self.trees["__init__"].body if isinstance(node, ast.ImportFrom))
        return [alias.name for node in imports for alias in node.names if alias.asname == alias.name]

    def lazy(self):
        """Modules that forebay.__getattr__ imports when they are asked for."""
        for node in self.trees["__init__"].body:
            if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
                strings = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                return [s for s in dict.fromkeys(strings) if s in self.trees]
        return []


_GROUPS = (("Feeding a trainer", ("Feeder", "Epoch", "Batch", "BatchCopy", "Tensor", "Field", "SampleView", "SOLO")),)


def pages(root):
    """The text of each page by its name: index, and one for each module that is imported by name."""
    modules = _Modules(root / "python/forebay")
    extension = bindings.classes(root / "python/src")
    public = modules.public()
    first = [name for _, names in _GROUPS for name in names if name in public]
    errors = [name for name in public if name.endswith("Error")]
    rest = [name for name in public if name not in first and name not in errors]
    page = _Page(modules, extension)
    lazy = modules.lazy()
    page.lines += [_HEAD, "# Python: reference", "", _markdown(_docstring(modules.trees["__init__"])), ""]
    page.lines += ["[Forebay in Python](../../docs/python.md) shows how these are used.", ""]
    page.lines += ["```{toctree}", ":titlesonly:", *lazy, "```", "", "```{py:module} forebay", "```", ""]
    for title, names in (*((t, first) for t, _ in _GROUPS), ("Data, policies, tables", rest), ("Errors", errors)):
        page.lines += [f"## {title}", ""]
        for name in names:
            page.name(name)
    made = {"index": "\n".join(page.lines)}
    for module in lazy:
        page = _Page(modules, extension)
        page.lines += [_HEAD, f"# `forebay.{module}`", "", _markdown(_docstring(modules.trees[module])), ""]
        page.lines += [f"```{{py:module}} forebay.{module}", "```", ""]
        for node in modules.trees[module].body:
            for name in modules._defined(node):
                if isinstance(node, ast.ClassDef) and not name.startswith("_"):
                    page.python_class(node)
                elif isinstance(node, ast.FunctionDef) and not name.startswith("_"):
                    page.function(node)
        made[module] = "\n".join(page.lines)
    return made

"""The page of the Python package, from its modules' docstrings and signatures and from the stubs of the native one.

Nothing is imported: sources are parsed, so that the page can be checked without PyTorch or a build.
"""

import ast
import functools
import inspect
import re
from pathlib import Path

from pages import ROOT

PACKAGE = ROOT / "agent/python/python"
MODULES = ("tetris", "tetris.torch", "tetris.numpy", "tetris.onnxruntime", "tetris.gpu", "tetris.warm", "tetris.errors")
HEAD = """# Python

<!-- Written from the package's sources by `python3 tests/book reference --write` -->

The public names of the package, from their docstrings. [The guide](../../agent/python/README.md) says what to use when.
"""
SECTIONS = ("Args", "Returns", "Raises", "Yields", "Attributes")
Item = ast.FunctionDef | ast.ClassDef | ast.Assign


def page() -> str:
    """The page, with a heading for each module and each name."""
    parts = [HEAD]
    for module in MODULES:
        parts.append(f"## {module}\n")
        tree = parsed(module)
        parts.append(prose(ast.get_docstring(tree) or ""))
        parts += [described(name, module) for name in public(module)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


@functools.cache
def parsed(module: str) -> ast.Module:
    """The syntax tree of a module; of the native one that of its stubs."""
    return ast.parse(source_of(module).read_text())


def source_of(module: str) -> Path:
    """The file of a module of the package."""
    base = PACKAGE / module.replace(".", "/")
    candidates = (base.with_suffix(".py"), base / "__init__.py", base.with_suffix(".pyi"))
    return next(path for path in candidates if path.exists())


def public(module: str) -> list[str]:
    """Names in `__all__`, or those that the module gives out lazily; of errors all classes."""
    tree = parsed(module)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            if all(isinstance(entry, ast.Constant) for entry in node.value.elts):
                return [entry.value for entry in node.value.elts]
            lazy = next(
                n for n in tree.body if isinstance(n, ast.AnnAssign | ast.Assign) and isinstance(n.value, ast.Dict)
            )
            return [key.value for key in lazy.value.keys]
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def found(name: str, module: str) -> tuple[Item | None, str]:
    """The definition of a name, and its module; none of what another package defines."""
    tree = parsed(module)
    overloads = None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name and node in tree.body:
            if not any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list):
                return node, module
            overloads = overloads or node
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and node in tree.body:
            return node, module
    if overloads:
        return overloads, module
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and any((alias.asname or alias.name) == name for alias in node.names)
        ):
            if not node.module.startswith("tetris"):
                return None, node.module
            original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
            return found(original, node.module)
    raise LookupError(f"{source_of(module)}: no definition of {name}")


def described(name: str, module: str) -> str:
    """The part of the page about one public name."""
    item, origin = found(name, module)
    title = f"### `{module}.{name}`\n"
    if item is None:
        return f"{title}\nThe function of `{origin}`, as it is.\n"
    if isinstance(item, ast.Assign):
        return f"{title}\n```python\n{ast.unparse(item)}\n```\n"
    if isinstance(item, ast.FunctionDef):
        return f"{title}\n{function(item)}"
    bases = ", ".join(ast.unparse(base) for base in item.bases if ast.unparse(base) not in ("Generic", "Protocol"))
    head = f"class {item.name}({bases})" if bases else f"class {item.name}"
    maker = next((n for n in item.body if isinstance(n, ast.FunctionDef) and n.name in ("__new__", "__init__")), None)
    parts = [
        title,
        f"```python\n{head}\n```\n" if maker is None else f"```python\n{signature(maker, item.name)}\n```\n",
    ]
    parts.append(prose(ast.get_docstring(item) or ""))
    if maker is not None and ast.get_docstring(maker):
        parts.append(prose(ast.get_docstring(maker)))
    fields = [field(node, origin) for node in item.body if is_field(node)]
    parts += ["\n".join(fields) + "\n"] if fields else []
    parts += [member(node) for node in item.body]
    return "\n".join(part for part in parts if part)


def is_field(node: ast.stmt) -> bool:
    """Returns true for a public field of a class."""
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_")


def field(node: ast.AnnAssign, module: str) -> str:
    """A line about a field, with the comment `#:` before it."""
    lines = source_of(module).read_text().splitlines()
    comment: list[str] = []
    at = node.lineno - 2
    while lines[at].strip().startswith("#:"):
        comment.insert(0, lines[at].strip()[2:].strip())
        at -= 1
    text = f": {inline(' '.join(comment))}" if comment else ""
    return f"- `{ast.unparse(node.target)}: {ast.unparse(node.annotation)}`{text}"


def member(node: ast.stmt) -> str:
    """A public method or property of a class."""
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
        return ""
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    if "overload" in decorators or any(name.endswith(".setter") for name in decorators):
        return ""
    text = prose(ast.get_docstring(node) or "")
    if "property" in decorators:
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"#### `{node.name}`{returns and f' `{returns.strip()}`'}\n\n{text}"
    return f"#### `{node.name}`\n\n{function(node)}"


def function(item: ast.FunctionDef) -> str:
    """Signature and docstring of a function."""
    return f"```python\n{signature(item, item.name)}\n```\n\n{prose(ast.get_docstring(item) or '')}"


def signature(item: ast.FunctionDef, name: str) -> str:
    """The signature, on several lines where it is long; without `self`."""
    arguments = item.args
    first = (arguments.posonlyargs + arguments.args)[:1]
    bound = bool(first) and first[0].arg in ("self", "cls")
    text = ast.unparse(arguments)
    if bound:
        text = re.sub(r"^(self|cls)(: [^,]+)?(, /)?(, )?", "", text)
    makes = item.name in ("__new__", "__init__")
    returns = f" -> {public_names(ast.unparse(item.returns))}" if item.returns and not makes else ""
    parts = [spaced(public_names(part)) for part in split_arguments(text)]
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= 96:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


def public_names(text: str) -> str:
    """Types of the native module under the names that users import."""
    return re.sub(r"\b_native\.", "tetris.", text)


def spaced(argument: str) -> str:
    """An argument with a type and a default, with spaces around `=`."""
    depth = 0
    for index, letter in enumerate(argument):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "=" and depth == 0:
            annotated = ": " in argument[:index]
            return f"{argument[:index]} = {argument[index + 1 :]}" if annotated else argument
    return argument


def split_arguments(text: str) -> list[str]:
    """Arguments one by one: commas within brackets do not separate."""
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [part for part in [*parts, current.strip()] if part]


def prose(text: str) -> str:
    """A docstring as Markdown: its sections as lists, its examples as code."""
    out: list[str] = []
    section = None
    lines = inspect.cleandoc(text).splitlines()
    index = 0
    while index < len(lines):
        line = lines[index]
        index += 1
        head = line.rstrip(":")
        if line.endswith(":") and head in SECTIONS:
            section = head
            out += ["", f"**{ {'Args': 'Arguments'}.get(head, head) }**", ""]
        elif section and line.startswith("    "):
            entry = line[4:]
            if entry.startswith("    "):
                out[-1] += " " + inline(entry.strip())
            elif section in ("Returns", "Yields"):
                out.append(inline(entry))
            else:
                label, colon, rest = entry.partition(": ")
                out.append(f"- `{label}`: {inline(rest)}" if colon else f"- {inline(entry)}")
        elif line.rstrip().endswith("::"):
            section = None
            intro = inline(line.rstrip()[:-1]) if line.strip() != "::" else ""
            code = []
            while index < len(lines) and (not lines[index].strip() or lines[index].startswith("    ")):
                code.append(lines[index][4:])
                index += 1
            out += [intro, "", "```python", *"\n".join(code).strip("\n").splitlines(), "```", ""]
        else:
            section = section if not line.strip() else None
            out.append(inline(line))
    return "\n".join(out).strip() + "\n" if out else ""


def inline(text: str) -> str:
    """Roles and double backticks as plain code."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return text.replace("``", "`")

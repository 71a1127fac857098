"""The package's public functions and classes as pages, a page for each room, read from the source.

Nothing is imported: signatures and docstrings are those of the files, so that no page waits for torch.
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xaihelpers.site.docstring_text import escaped, markdown, summary

NAME = "xaihelpers"
SHORTEST = 72  # characters of an annotated signature above which defaults that are texts are cut


@dataclass(frozen=True)
class Module:
    """A module of the package, parsed."""

    name: str  # dotted, with the package's
    tree: ast.Module
    source: str

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree, clean=False) or ""

    @property
    def public(self) -> list[ast.FunctionDef | ast.ClassDef]:
        """Functions and classes whose names do not begin with an underscore, in the order of the file."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return [node for node in self.tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


def rooms(package: Path) -> dict[str, list[Module]]:
    """Room -> its modules; modules that lie in no room are together under ""."""
    found: dict[str, list[Module]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if parts[0] == "__init__":
            continue
        name = ".".join([NAME, *(part for part in parts if part != "__init__")])
        source = path.read_text()
        module = Module(name, ast.parse(source), source)
        found.setdefault(parts[0] if path.parent != package else "", []).append(module)
    return found


def api_pages(package: Path, backlinks: dict[str, list[str]]) -> dict[str, str]:
    """Document -> markdown, of all rooms and of the page that lists them.

    backlinks: full name of a function -> lines of markdown that say where it is used.
    """
    found = rooms(package)
    modules = [module for room in found.values() for module in room]
    known = {f"{module.name}.{node.name}" for module in modules for node in module.public}
    order = sorted(found, key=lambda room: room or "~")  # those of no room last
    pages = {}
    listed = []
    for room in order:
        document = f"api/{room or 'modules'}"
        pages[document] = _room_page(room, found[room], known, backlinks)
        head = next((module for module in found[room] if module.name == f"{NAME}.{room}"), None)
        said = summary(head.docstring) if head and head.docstring else "Modules that belong to no room."
        count = sum(len(module.public) for module in found[room])
        listed.append(f"| [{room or 'single modules'}]({room or 'modules'}.md) | {said} | {count} |")
    pages["api/index"] = "\n".join(
        [
            "# The package, room by room",
            "",
            "What two notebooks share, and the kernels. Signatures and docstrings are read from the source.",
            "Each function is named by the module that defines it.",
            "",
            "| room | what it is for | names |",
            "|---|---|---|",
            *listed,
            "",
            "```{toctree}",
            ":hidden:",
            *(f"{room or 'single modules'} <{room or 'modules'}>" for room in order),
            "```",
        ]
    )
    return pages


def _room_page(room: str, modules: list[Module], known: set[str], backlinks: dict[str, list[str]]) -> str:
    lines = [f"# {room or 'Single modules'}", ""]
    head = [module for module in modules if module.name == f"{NAME}.{room}"]
    others = [module for module in modules if module.name != f"{NAME}.{room}"]
    for module in head:
        lines += [f"```{{py:module}} {module.name}", "```", "", markdown(module.docstring), ""]
        reexported = _reexported(module, known)
        if reexported:
            lines += [f"Also named here: {', '.join(reexported)}.", ""]
        lines += _members(module, backlinks)
    for module in sorted(others, key=lambda module: module.name):
        short = module.name.removeprefix(f"{NAME}.")
        lines += [f"## {short}", ""]
        if module.name.endswith("__main__"):  # a command
            lines += [markdown(module.docstring), ""]
            continue
        lines += [f"```{{py:module}} {module.name}", "```", "", markdown(module.docstring), ""]
        lines += _members(module, backlinks)
    return "\n".join(lines)


def _reexported(module: Module, known: set[str]) -> list[str]:
    """Links to what an `__init__` imports from its room's modules."""
    names = _imported_names(module.tree)
    return [f"{{py:obj}}`{short} <{full}>`" for short, full in names.items() if full in known]


def _members(module: Module, backlinks: dict[str, list[str]]) -> list[str]:
    lines = []
    for node in module.public:
        if isinstance(node, ast.ClassDef):
            lines += _class(module, node)
        else:
            lines += _function(module, node, backlinks.get(f"{module.name}.{node.name}", []))
    return lines


def _function(module: Module, node: ast.FunctionDef, where: list[str]) -> list[str]:
    body = markdown(ast.get_docstring(node, clean=False) or "")
    body = "\n\n".join([body, *where])
    return [f"````{{py:function}} {node.name}{_signature(module, node)}", "", body, "````", ""]


def _class(module: Module, node: ast.ClassDef) -> list[str]:
    fields = _fields(module, node)
    made = [member for member in _methods(node) if member.name == "__init__"]
    signature = ""
    if made:
        signature = _signature(module, made[0], bound=True).partition(" ->")[0]
    elif fields:
        signature = "(" + ", ".join(text for _, text, _ in fields) + ")"
    docstring = ast.get_docstring(node, clean=False) or ""
    lines = [f"`````{{py:class}} {node.name}{signature}", "", markdown(docstring), ""]
    said = [(name, comment) for name, _, comment in fields if comment]
    lines += [f"- **{name}**: {escaped(comment)}" for name, comment in said]
    lines += [""] if said else []
    for member in _methods(node):
        said = ast.get_docstring(member, clean=False)
        if member.name.startswith("_") or not said:
            continue
        decorators = {ast.unparse(decorator) for decorator in member.decorator_list}
        kind = "property" if decorators & {"property", "cached_property"} else "method"
        signature = ""
        if kind == "method":
            signature = _signature(module, member, bound="staticmethod" not in decorators)
        lines += [f"````{{py:{kind}}} {member.name}{signature}", "", markdown(said), "````", ""]
    return [*lines, "`````", ""]


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [member for member in node.body if isinstance(member, ast.FunctionDef)]


def _fields(module: Module, node: ast.ClassDef) -> list[tuple[str, str, str]]:
    """Of a dataclass or named tuple: name, the text of the argument, the comment behind it."""
    of_fields = any(ast.unparse(base) in ("NamedTuple", "typing.NamedTuple") for base in node.bases)
    of_fields |= any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    found = []
    for member in node.body if of_fields else []:
        if isinstance(member, ast.AnnAssign) and not member.target.id.startswith("_"):
            text = f"{member.target.id}: {_annotation(module, member.annotation)}"
            if member.value is not None:
                text += f" = {_default(member.value)}"
            line = module.source.splitlines()[member.end_lineno - 1].encode()
            comment = line[member.end_col_offset :].decode().partition("#")[2].strip()
            found.append((member.target.id, text, comment))
    return found


def _signature(module: Module, node: ast.FunctionDef, bound: bool = False) -> str:
    """(arguments) -> result, with full names in the annotations so that they can be links."""
    given = node.args
    texts = []
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    for n, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        if not (bound and n == 0):
            texts.append(_argument(module, argument, default))
        if given.posonlyargs and n == len(given.posonlyargs) - 1:
            texts.append("/")
    if given.vararg:
        texts.append("*" + _argument(module, given.vararg, None))
    elif given.kwonlyargs:
        texts.append("*")
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        texts.append(_argument(module, argument, default))
    if given.kwarg:
        texts.append("**" + _argument(module, given.kwarg, None))
    result = f" -> {_annotation(module, node.returns)}" if node.returns is not None else ""
    return f"({', '.join(texts)}){result}"


def _argument(module: Module, argument: ast.arg, default: ast.expr | None) -> str:
    text = argument.arg
    if argument.annotation is not None:
        text += f": {_annotation(module, argument.annotation)}"
    if default is not None:
        text += f" = {_default(default)}" if argument.annotation is not None else f"={_default(default)}"
    return text


def _default(node: ast.expr) -> str:
    text = ast.unparse(node)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "field":
        return "..."  # a factory of a dataclass
    return text if len(text) <= SHORTEST else "..."


def _annotation(module: Module, node: ast.expr) -> str:
    """An annotation with the full names of what the module imports or defines."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = ast.parse(node.value, mode="eval").body
    names = _names(module.name, module.tree)
    return ast.unparse(_Full(names).visit(ast.parse(ast.unparse(node), mode="eval").body))


class _Full(ast.NodeTransformer):
    """Puts full names in the place of those that a module knows."""

    def __init__(self, names: dict[str, str]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        full = self.names.get(node.id, node.id)
        return ast.parse(full, mode="eval").body


@cache
def _names(name: str, tree: ast.Module) -> dict[str, str]:
    own = {node.name: f"{name}.{node.name}" for node in tree.body if isinstance(node, ast.ClassDef)}
    return own | {short: full for short, full in _imported_names(tree).items() if full.startswith(f"{NAME}.")}


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Name in the module -> full name, of what it imports from elsewhere."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found

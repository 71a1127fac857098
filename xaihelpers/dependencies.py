"""What the results of a notebook depend on.

These are its source, the modules that it imports, the files that these name beside them, the models, prompts,
tables and folders of data that it names, and the versions of its libraries. Imports are followed through the
package without running anything. A shipped file counts where its name stands in a string of the notebook or
of one of its modules, so too much counts rather than too little.
"""

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import platform
import sys
from functools import cache
from pathlib import Path

from xaihelpers.fingerprint import code_hash
from xaihelpers.paths import PROJECT, models_home

PACKAGE = Path(__file__).parent
NAME = PACKAGE.name
# libraries that only some settings need, or only some machines have
OPTIONAL = {"bitsandbytes", "pytorchcv", "triton", "google", "ray", "vllm"}


def notebook_key(notebook: Path) -> str:
    """A hash of all that the results of a notebook file depend on.

    A change of a comment or a docstring in a module leaves it as it was.
    """
    cells = json.loads(notebook.read_text())["cells"]
    digest = hashlib.sha256(json.dumps([[cell["cell_type"], cell["source"]] for cell in cells]).encode())
    source = notebook_source(cells)
    modules, libraries = dependencies(source)
    digest.update(code_hash(modules).encode())
    for file in sorted(named_files(source, modules)):
        digest.update(f"{file.name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    digest.update(json.dumps([platform.python_version(), versions(libraries)]).encode())
    return digest.hexdigest()


def notebook_source(cells: list[dict]) -> str:
    """The code of a notebook's cells as one Python source, without those that are no plain Python."""
    parts = []
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code" and _parsed(text) is not None:
            parts.append(text)
    return "\n".join(parts)


def dependencies(source: str) -> tuple[set[Path], set[str]]:
    """Files of the package that Python `source` imports, and the names of other libraries.

    Imports are followed through the package.
    """
    modules: set[Path] = set()
    libraries: set[str] = set()
    waiting = set(_imports(source))
    while waiting:
        name = waiting.pop()
        if name.split(".")[0] != NAME:
            libraries.add(name.split(".")[0])
            continue
        for file in _files_of(name) - modules:
            modules.add(file)
            if file.suffix == ".py":
                waiting |= _imports(file.read_text())
    return modules, libraries - set(sys.stdlib_module_names)


def named_files(source: str, modules: set[Path]) -> set[Path]:
    """Files of `data/` that `source` or a module names in one of its strings.

    These are shipped models, prompts, printed tables and, where one names their folder, the measurements of
    all devices. The long form of a model counts with the model, whose name it is made from.
    """
    texts = _texts(source).union(*(_texts(file.read_text()) for file in modules if file.suffix == ".py"))
    said = "\n".join(sorted(texts))
    found: set[Path] = set()
    any_model = "models_home" in source  # it looks for itself which there are
    for place in models_home().iterdir():
        if any_model or place.stem.removesuffix("_long") in said:
            found |= {file for file in place.rglob("*") if file.is_file()} if place.is_dir() else {place}
    for folder in ("papers", "prompts"):
        files = [file for file in (PROJECT / "data" / folder).iterdir() if file.suffix != ".md"]
        found |= {
            file
            for file in files
            if file.stem.split("_")[0] in texts or f"{file.stem.split('_')[0]}_" in said
        }
    if "devices" in texts:
        found |= set((PROJECT / "data" / "devices").glob("*.csv"))
    return found


def versions(libraries: set[str]) -> dict[str, str]:
    """Distribution -> version of top-level import names, of those that are installed."""
    distributions = _distributions()
    names = {name for library in libraries for name in distributions.get(library, [])}
    return {name: importlib.metadata.version(name) for name in sorted(names)}


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


@cache
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except SyntaxError:
        return None


@cache
def _imports(source: str) -> set[str]:
    """Dotted names that a source imports anywhere; of `from a import b` both a and a.b."""
    found = set()
    for node in ast.walk(_parsed(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@cache
def _texts(source: str) -> set[str]:
    """All texts in a source, docstrings aside."""
    tree = _parsed(source)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [
        node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in statements
    ]
    return {node.value for node in constants if isinstance(node.value, str)}


@cache
def _files_of(module: str) -> set[Path]:
    """The file of a module of the package, those beside it that it names, and each `__init__` around it.

    Empty for a name that is no module.
    """
    parts = module.split(".")[1:]
    place = PACKAGE.joinpath(*parts)
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        return set()
    around = {PACKAGE.joinpath(*parts[:depth]) / "__init__.py" for depth in range(len(parts))}
    texts = _texts(file.read_text())
    named = {other for other in file.parent.iterdir() if other.is_file() and other.name in texts}
    return {file, *around, *named}


def missing_libraries(import_them: bool = False) -> dict[str, str]:
    """What the package and the notebooks import and this environment lacks: name -> reason.

    import_them: import each library, which takes half a minute, instead of only looking for it.
    """
    sources = [file.read_text() for file in PACKAGE.rglob("*.py")]
    for notebook in (PROJECT / "notebooks").glob("*.ipynb"):
        sources.append(notebook_source(json.loads(notebook.read_text())["cells"]))
    names = {name.split(".")[0] for source in sources for name in _imports(source)}
    missing = {}
    for name in sorted(names - OPTIONAL - {NAME} - set(sys.stdlib_module_names)):
        try:
            if import_them:
                importlib.import_module(name)
            elif importlib.util.find_spec(name) is None:
                missing[name] = "not installed"
        except Exception as error:  # a library can fail in its own ways
            missing[name] = f"{type(error).__name__}: {error}"
    return missing


if __name__ == "__main__":
    lacking = missing_libraries(import_them="--import" in sys.argv[1:])
    for library, reason in lacking.items():
        print(f"{library}: {reason}", file=sys.stderr)
    sys.exit(bool(lacking))

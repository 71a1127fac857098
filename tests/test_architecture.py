"""The layout of the package: which way imports run, that no two modules share a name, that none prints."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "xaihelpers"
# rooms and modules from the bottom up; those of one line do not import each other, but for the pairs named
# below
ORDER = [
    ["paths", "fingerprint", "devices", "kernels", "parameters"],
    ["outputs", "worlds", "spending", "sharing"],
    ["datasets", "store"],
    ["models", "training", "rating", "own_model"],
    ["ask", "bottlenecks"],
    ["saliency", "fastslow", "substitute"],
    ["scores", "timing", "annotator_training", "flux_training"],
    ["claims"],
    ["plots", "records"],
    ["widgets"],
    ["dependencies", "notebook_files", "device_report"],
    ["notebook_keys", "teaching"],
    ["sweep"],
    ["bill", "report"],
    ["run", "scorecard", "site"],
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
# inside a function, because the library behind it takes seconds to import and few need it
LAZY = {
    ("models", "xaihelpers.models.clip.probe"),
    ("ask", "xaihelpers.ask.local_model"),
    ("ask", "xaihelpers.ask.server_model"),
    ("sweep", "xaihelpers.sweep.ray_executor"),
    ("run", "xaihelpers.bill"),
}
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))


def room(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0] if parts[0] != "__init__" else ""


def imported(tree):
    """(dotted name of a module or symbol of the package, whether inside a function) of each import."""
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"a relative import: line {node.lineno}"
            if node.module.split(".")[0] == "xaihelpers":
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", id(node) in inside
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name.split(".")[0] != "xaihelpers", f"import xaihelpers…: line {node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path):
    own = room(path)
    if not own:
        return
    for name, inside in imported(ast.parse(path.read_text())):
        other = name.split(".")[1]
        if other not in RANK:
            continue  # a symbol of the package itself, as __version__
        assert other == own or RANK[other] < RANK[own], f"{own} imports {name}"
        if inside:
            assert any(own == room_ and name.startswith(module) for room_, module in LAZY), (
                f"{name} inside a function"
            )


def test_every_room_has_its_place():
    assert {room(path) for path in MODULES} - {""} == set(RANK)


def test_no_two_modules_of_one_name():
    names = [path.stem for path in MODULES if path.stem not in ("__init__", "__main__")]
    assert len(set(names)) == len(names), sorted({name for name in names if names.count(name) > 1})


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_helpers_do_not_print(path):
    """But for the command lines, and what a student's check says."""
    if path.stem in ("run", "dependencies", "device_report", "overhead", "exercises", "__main__"):
        return
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    printed = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"]
    assert not printed

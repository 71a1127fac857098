"""Net c: every notebook as a file.

Its parameters are read by papermill and used; its cells were run in order; it is small and clean.
"""

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest
import yaml

from xaihelpers.parameters import declared_parameters, has_type

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9]*.ipynb"))
EXPECTED = [
    "00",
    "11",
    "12",
    "13",
    "14",
    "21",
    "22",
    "23",
    "24",
    "25",
    "31",
    "32",
    "33",
    "34",
    "41",
    "42",
    "43",
    "44",
    "45",
    "51",
    "52",
    "53",
    "54",
    "61",
    "62",
    "63",
    "71",
    "81",
    "82",
    "91",
    "92",
    "93",
    "94",
    "99",
]
KINDS = {"int", "float", "str", "bool", "list[int]", "list[float]", "list[str]"}
PAPERMILL_YAML = [
    (path, notebook) for notebook in NOTEBOOKS for path in sorted(FOLDER.glob(f"{notebook.stem}*.yaml"))
]
MAX_KB, MAX_LINES = 300, 30
# those of the papers and their tables, and those that measure the costs of attention and shipped models
SCIENCE = [i for i in EXPECTED if i[0] in "12345"] + ["61", "63", "82", "92", "93", "94"]

# the notebooks whose figures were made for the last row of a lecture hall
TEACHING = [path for path in NOTEBOOKS if path.name[0] in "1234" or path.name[:2] in ("71", "92", "93", "94")]

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def outputs(path):
    return [(cell, output) for cell in code_cells(path) for output in cell.outputs]


def text_of(output):
    """All text of an output: printed, or the plain and HTML forms of a displayed object."""
    data = output.get("data", {})
    return output.get("text", "") + data.get("text/plain", "") + data.get("text/html", "")


def python(cell):
    """The cell's code without IPython's magics, which are not Python."""
    return re.sub(r"(?m)^\s*[%!].*$", "pass", cell.source)


def test_the_collection_is_whole():
    ids = [path.name[:2] for path in NOTEBOOKS]
    assert len(set(ids)) == len(ids), "two notebooks have the same number"
    assert not set(EXPECTED) - set(ids)


def test_every_yaml_belongs_to_a_notebook():
    assert {path for path, _ in PAPERMILL_YAML} == set(FOLDER.glob("*.yaml"))


@each_notebook
def test_name_and_kernel(path):
    assert re.fullmatch(r"[0-9]{2}_[a-z0-9_]+\.ipynb", path.name)
    metadata = nbformat.read(path, as_version=4).metadata
    assert metadata.kernelspec.name == "python3"
    needs = metadata.get("xaihelpers", {}).get("needs", [])
    assert path.name[:2] not in needs and set(needs) <= {"*", *EXPECTED}


@each_notebook
def test_first_code_cell_holds_the_parameters(path):
    cells = code_cells(path)
    assert [i for i, cell in enumerate(cells) if "parameters" in cell.metadata.get("tags", [])] == [0]
    source = cells[0].source
    parameters = declared_parameters(source)
    assert parameters, "the parameters cell may hold nothing but `name: type = literal  # meaning`"
    assert len(parameters) == len(ast.parse(source).body), "a name is declared twice"
    lines = source.splitlines()
    for statement in ast.parse(source).body:  # one a line, but a long list may have several
        rest = lines[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode()
        assert re.fullmatch(r"  # .+", rest), f"not `name: type = value  # meaning`: {ast.unparse(statement)}"
    for name, (kind, default) in parameters.items():
        assert kind in KINDS and has_type(default, kind), f"{name}: {kind} = {default!r}"
    assert {"seed", "results"} <= parameters.keys()


@each_notebook
def test_every_parameter_is_used(path):
    first, *others = code_cells(path)
    loaded = {
        node.id
        for cell in others
        for node in ast.walk(ast.parse(python(cell)))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    read_by_start = (
        {"seed", "device", "results", "shard", "shards"}
        if any("start(" in cell.source for cell in others)
        else set()
    )
    assert not declared_parameters(first.source).keys() - loaded - read_by_start


@each_notebook
def test_run_from_top_to_bottom_without_a_fault(path):
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    counts = [
        (cell.execution_count, o.execution_count)
        for cell, o in outputs(path)
        if o.output_type == "execute_result"
    ]
    assert all(cell == output for cell, output in counts)
    assert [o.evalue for _, o in outputs(path) if o.output_type == "error"] == []
    assert [o.text for _, o in outputs(path) if o.get("name") == "stderr"] == []
    assert [o for _, o in outputs(path) if re.search(r"\b\w*Warning\b:", text_of(o))] == []


@each_notebook
def test_small_and_free_of_this_machine(path):
    assert path.stat().st_size <= MAX_KB * 1024
    for cell, output in outputs(path):
        found = re.search(r"(/root|/home/\w+|/Users/\w+|/work|/tmp)/\S*|[A-Z]:\\Users\\\S*", text_of(output))
        assert not found, f"cell [{cell.execution_count}] shows {found.group()}"
    everything = json.loads(path.read_text())
    assert "papermill" not in everything["metadata"] and "widgets" not in everything["metadata"]
    assert not any("papermill" in cell["metadata"] for cell in everything["cells"])
    assert not any("injected-parameters" in cell["metadata"].get("tags", []) for cell in everything["cells"])


@each_notebook
def test_cells_are_short(path):
    _, *others = code_cells(path)  # the parameters cannot be split
    lengths = {cell.execution_count: len(cell.source.splitlines()) for cell in others}
    assert not {count: lines for count, lines in lengths.items() if lines > MAX_LINES}


@each_notebook
def test_marks_of_comparison_are_seen_and_not_empty(path):
    for cell in code_cells(path):
        for line in cell.source.splitlines():
            if "NBVAL" in line:
                assert re.fullmatch(r"# NBVAL_(CHECK_OUTPUT|IGNORE_OUTPUT|SKIP|RAISES_EXCEPTION)", line), (
                    f"nbval overlooks: {line}"
                )
        if "# NBVAL_CHECK_OUTPUT" in cell.source:
            assert any(text_of(output).strip() for output in cell.outputs), (
                f"nothing to compare in cell [{cell.execution_count}]"
            )
            assert not cell.source.rstrip().endswith(";")
            shown = [name for output in cell.outputs for name in output.get("data", {})]
            assert "text/html" not in shown, (
                f"cell [{cell.execution_count}] shows a table, whose HTML holds a random name: print instead"
            )
    assert not any("NBVAL_SKIP" in cell.source for cell in code_cells(path)), "a skipped cell is not tested"


@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if path.name[:2] in SCIENCE], ids=lambda path: path.stem
)
def test_marked_cells_pin_the_science(path):
    """At least three marked cells print a rate or a number with decimals: what is measured, not settings."""
    marked = [cell for cell in code_cells(path) if "# NBVAL_CHECK_OUTPUT" in cell.source]
    with_values = [
        cell for cell in marked if re.search(r"\d\.\d|\d\d %", "".join(map(text_of, cell.outputs)))
    ]
    assert len(with_values) >= 3


@each_notebook
def test_no_output_is_caught_by_a_widget(path):
    """Under papermill and nbval the client answers such a widget, and now and then waits for ever.

    That is issue 312 of nbclient.
    """
    assert not [
        cell.execution_count
        for cell in code_cells(path)
        if re.search(r"\binteract(ive|ive_output)?\(|\bOutput\(", cell.source)
    ]


@pytest.mark.parametrize("path, notebook", PAPERMILL_YAML, ids=lambda path: path.name)
def test_yaml_fits_its_notebook(path, notebook):
    parameters = declared_parameters(code_cells(notebook)[0].source)
    values = yaml.safe_load(path.read_text())
    assert isinstance(values, dict) and values
    for name, value in values.items():
        assert name in parameters, f"{notebook.name} has no parameter {name}"
        kind = parameters[name][0]
        assert has_type(value, kind), f"{name} must be {kind}, not {value!r}"


@each_notebook
def test_prose_keeps_step_with_the_code(path):
    cells = nbformat.read(path, as_version=4).cells
    words = sum(len(cell.source.split()) for cell in cells if cell.cell_type == "markdown")
    code = [line for cell in cells if cell.cell_type == "code" for line in cell.source.splitlines()]
    lines = sum(bool(line.strip()) for line in code)
    assert 7 <= words / lines <= 10, f"{words} words for {lines} lines of code"


@pytest.mark.parametrize("path", TEACHING, ids=lambda path: path.stem)
def test_figures_can_be_read_when_projected(path):
    source = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)
    small = [size for size in re.findall(r"fontsize\"?[=:] ?([\d.]+)", source) if float(size) < 10]
    coarse = [dpi for dpi in re.findall(r"dpi\b\W*(?:=|\()\D{0,3}(\d+)", source) if int(dpi) < 78]
    assert not small and not coarse

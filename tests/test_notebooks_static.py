"""Every notebook and preset as a file: parameters that papermill reads, cells run in order, clean outputs."""

import ast
import json
import re

import nbformat
import pytest
import yaml
from notebook_nets import FOLDER, NOTEBOOKS, PATHS, code_cells

from xaihelpers.parameters import ParameterError, check_parameters, complete_parameters, declared_parameters

PRESETS = sorted((FOLDER / "presets").glob("*.yaml"))
KINDS = {"int", "float", "str", "bool", "list[int]", "list[float]", "list[str]"}
MARKS = ("# NBVAL_CHECK_OUTPUT", "# NBVAL_IGNORE_OUTPUT")
PARTS = ["exercise", "stub", "answer", "check"]
READ_BY_START = {"seed", "device", "results", "shard", "shards", "spend_at_most", "prices"}


def text_of(output):
    """All text of an output: printed, or the plain and HTML forms of a displayed object."""
    data = output.get("data", {})
    return output.get("text", "") + data.get("text/plain", "") + data.get("text/html", "")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path):
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata.kernelspec.name == "python3"
    parameters_come_first_and_are_used(path)
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    for cell in cells:
        for output in cell.outputs:
            assert output.get("execution_count") in (None, cell.execution_count)
            is_clean(cell, output)
        nbval_reads(cell)
        # nbclient answers such widgets itself, and now and then waits for ever (its issue 312)
        assert not re.search(r"\binteract(ive|ive_output)?\(|\bOutput\(|\binput\(", cell.source)
    exercises_have_four_parts(notebook)
    metadata = json.dumps([notebook.metadata, *(cell.metadata for cell in notebook.cells)])
    assert not re.search('"(papermill|widgets|injected-parameters)"', metadata)


def parameters_come_first_and_are_used(path):
    first, *others = code_cells(path)
    tagged = [cell for cell in (first, *others) if "parameters" in cell.metadata.get("tags", [])]
    assert tagged == [first]
    parameters = declared_parameters(first.source)
    assert parameters, "the parameters cell may hold nothing but `name: type = literal  # meaning`"
    assert len(parameters) == len(ast.parse(first.source).body), "a name is declared twice"
    assert {parameter.kind for parameter in parameters.values()} <= KINDS
    complete_parameters(parameters, {})  # the defaults are of their types, and on their scales
    sources = [re.sub(r"(?m)^\s*[%!].*$", "pass", cell.source) for cell in others]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    loaded = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert parameters.keys() - loaded <= READ_BY_START
    (start,) = [source for source in sources if "records.start(" in source]
    assert f'records.start("{path.name[:2]}", globals())' in start
    longest = max(parameters, key=len)
    misspelt = {"In": ["", first.source, f"# Parameters\n{longest}s = 1\n"], f"{longest}s": 1}
    exec(first.source, misspelt)
    with pytest.raises(ParameterError, match=f"has no parameter '{longest}s': did you mean '{longest}'?"):
        check_parameters(misspelt)


def exercises_have_four_parts(notebook):
    """In a row, under a heading with number and minutes; a hint; what the answer shows is folded."""
    tags = [[part for part in PARTS if part in cell.metadata.get("tags", [])] for cell in notebook.cells]
    begins = [place for place, found in enumerate(tags) if "exercise" in found]
    assert begins and sum(map(len, tags)) == len(PARTS) * len(begins)
    for number, place in enumerate(begins, 1):
        assert tags[place : place + len(PARTS)] == [[part] for part in PARTS]
        task, stub, _, check = notebook.cells[place : place + 4]
        assert re.match(rf"### Exercise {number} · (look|change|build) · \d+ min\n", task.source)
        assert "<details><summary>Hint</summary>" in task.source
        assert "..." in stub.source and "teaching.begun(" in check.source, "what is blank stays unsaid"
        for cell in notebook.cells[place + 2 : place + 4]:
            assert "hide-cell" in cell.metadata.tags


def is_clean(cell, output):
    """No fault, no path of a machine; what a page loads or links to from an output lies in the notebook."""
    assert output.output_type != "error" and output.get("name") != "stderr"
    text = text_of(output)
    found = re.search(r"(/root|/home/\w+|/Users/\w+|/work|/tmp)/\S*|[A-Z]:\\Users\\\S*", text)
    assert not found, f"cell [{cell.execution_count}] shows {found.group()}"
    assert not re.search(r"\b\w*Warning\b:", text)
    html = output.get("data", {}).get("text/html", "")
    assert not re.search(r"(src|href)\s*=\s*[\"']?\s*(https?:)?//|url\(\s*[\"']?(https?:)?//", html)


def nbval_reads(cell):
    """A mark stands alone on its line, above something to compare that is the same in each run."""
    marks = [line for line in cell.source.splitlines() if "NBVAL" in line]
    assert set(marks) <= {*MARKS}, f"nbval overlooks one, or skips the cell: {marks}"
    if "# NBVAL_CHECK_OUTPUT" in marks:
        assert any(text_of(output).strip() for output in cell.outputs), "nothing to compare"
        assert not cell.source.rstrip().endswith(";")
        shown = [kind for output in cell.outputs for kind in output.get("data", {})]
        assert "text/html" not in shown, "a table's HTML holds a random name: print it instead"


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.name)
def test_preset(path):
    number, name, _ = path.name.split(".")
    parameters = declared_parameters(code_cells(PATHS[number])[0].source)
    values = yaml.safe_load(path.read_text())
    assert name and values
    complete_parameters(parameters, values)

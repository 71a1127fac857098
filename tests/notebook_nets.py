"""What the tests of notebooks share: where they are, their small runs, their cells in this process."""

from pathlib import Path
from unittest.mock import patch

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import yaml

from xaihelpers.grids import known_notebooks
from xaihelpers.records import Run, read_records

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
PATHS = known_notebooks(FOLDER)
NOTEBOOKS = list(PATHS.values())
WRONG = Path(__file__).with_name("wrong_answers")  # a plausible one for each exercise
BASE = yaml.safe_load(Path(__file__).with_name("small_runs.yaml").read_text())


def code_cells(path: Path) -> list:
    """The code cells of a notebook, in order."""
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


REFUSED = """
def check_refuses(check, blank):
    import io
    from contextlib import redirect_stdout
    from xaihelpers.teaching import Blank

    said = io.StringIO()
    try:
        with redirect_stdout(said):
            exec(check, globals())
    except AssertionError as error:
        assert str(error), "the check says nothing of what is wrong"
        assert isinstance(error, Blank) == blank, f"of a {'blank' if blank else 'wrong'} one it says: {error}"
    else:
        assert "left out" in said.getvalue(), f"the check passes what is {'blank' if blank else 'wrong'}"
"""


def run_cells(i: str, parameters: dict, results: Path, thorough: bool = False):
    """Execute the cells of notebook `i` here, with other parameters; returns the records of that run.

    As papermill does, the parameters are set in a cell of their own behind the first one. A process that has
    imported the libraries already saves half of the time that a kernel would take.

    thorough: whether figures are drawn to pixels, a quarter of a short run, and each exercise is tried three
        times: its check must find the stub blank and a wrong answer wrong, or say that this run leaves it
        out, and pass the answer.
    """
    first, *others = code_cells(PATHS[i])
    values = {**parameters, "results": str(results)}
    injected = "# Parameters\n" + "".join(f"{name} = {value!r}\n" for name, value in values.items())
    sources = [first.source, injected]
    wrong = iter(yaml.safe_load((WRONG / f"{i}.yaml").read_text()))
    for cell, after in zip(others, [*others[1:], None], strict=True):
        if thorough and "answer" in cell.metadata.get("tags", []):
            sources += [f"{REFUSED}\n\ncheck_refuses({after.source!r}, blank=True)", next(wrong)]
            sources.append(f"check_refuses({after.source!r}, blank=False)")
        sources.append(cell.source)
    history: list[str] = [""]
    namespace = {"__name__": "__main__", "In": history, "display": _display}
    figure = Run.figure if thorough else _figure_without_pixels
    try:
        with patch.object(Run, "figure", figure):
            for source in sources:
                history.append(source)
                exec(compile(source, f"{PATHS[i].stem}, cell {len(history) - 1}", "exec"), namespace)
    finally:
        plt.close("all")
        namespace.clear()
    return read_records(results)


def _figure_without_pixels(run: Run, fig, name: str, caption: str) -> None:
    run._figures[name] = b"", caption


def _display(*shown, **_) -> None:
    """Render what a notebook displays, as a browser would ask for it."""
    for one in shown:
        repr(one)
        if hasattr(one, "_repr_html_"):
            one._repr_html_()


def values(records, **keys):
    """The values of the rows with these keys, by what else tells rows apart."""
    for name, value in keys.items():
        column = records[name] if isinstance(value, str) else pd.to_numeric(records[name], errors="coerce")
        records = records[column == value]
    assert len(records)
    return records.set_index(["row", "metric"]).value

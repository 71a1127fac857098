"""A notebook of a second for tests of the runner, and what its runs have left."""

from pathlib import Path

import nbformat
import pandas as pd

PARAMETERS = """seed: int = 0  # s
a: float = 1.0  # a
names: list[str] = ["x"]  # names
mark: str = ""  # m
results: str = "results"  # where to"""
START = """import json, os, shutil, time
from pathlib import Path
from xaihelpers.parameters import check_parameters, parameters_hash

parameters = check_parameters(globals())
folder = Path(os.environ["XAI_RESULTS"])
name = f"{NUMBER}-{parameters_hash(parameters)}"
with (folder / "begun.txt").open("a") as log:
    log.write(f"{name} {os.getppid()}\\n")"""
RECORD = """part = folder / f".{name}-{os.getpid()}"
part.mkdir()
(part / "results.csv").write_text(f"value\\n{a + seed / 10}\\n")
about = {"notebook": NUMBER, "parameters": parameters, "key": json.loads(os.environ["XAI_CODE_KEY"])}
(part / "run.json").write_text(json.dumps(about))
with (folder / "made.txt").open("a") as log:
    log.write(f"{name} {os.environ.get('OMP_NUM_THREADS')}\\n")
if (folder / name).exists():
    shutil.rmtree(folder / name)
os.rename(part, folder / name)"""


def write_notebook(folder: Path, *cells: str, name: str = "11_tiny", needs: list[str] | None = None) -> Path:
    """A notebook with further cells between its start and its record."""
    folder.mkdir(exist_ok=True)
    sources = [f"NUMBER = {name[:2]!r}\n{START}", *cells, RECORD]
    first = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    if needs is not None:
        metadata["xaihelpers"] = {"needs": needs}
    notebook = nbformat.v4.new_notebook(
        cells=[first, *map(nbformat.v4.new_code_cell, sources)], metadata=metadata
    )
    nbformat.write(notebook, folder / f"{name}.ipynb")
    return folder / f"{name}.ipynb"


def lines(file: Path) -> list[list[str]]:
    """The lines of a log, each split into words."""
    return [line.split(" ") for line in file.read_text().splitlines()] if file.exists() else []


def recorded(results: Path) -> dict[str, float]:
    """Name of each run -> the number that it recorded."""
    return {file.parent.name: pd.read_csv(file).value[0] for file in results.glob("[0-9]*-*/results.csv")}

"""A notebook of a second for tests of sweeps, and what its runs have left."""

from pathlib import Path

import nbformat
import pandas as pd

from xaihelpers.sweep.grid import Grid, expand
from xaihelpers.sweep.plan import Plan, make_plan

PARAMETERS = """seed: int = 0  # s
a: float = 1.0  # a
names: list[str] = ["x"]  # names
mark: str = ""  # m
results: str = "results"  # where to"""
START = """import json, os, time
from pathlib import Path
from xaihelpers.parameters import check_parameters, parameters_hash

parameters = check_parameters(globals())
folder = Path(os.environ["XAI_RESULTS"])
name = f"11-{parameters_hash(parameters)}"
with (folder / "begun.txt").open("a") as log:
    log.write(f"{name} {os.getppid()}\\n")"""
RECORD = """about = {"notebook": "11", "parameters": parameters, "key": os.environ["XAI_CODE_KEY"]}
about |= {"started": "2026-01-01", "data": ["d"], "model": ["m"]}
row = "paper,table,metric,value,low,high,cases,effective,chance,row,data,model\\n"
row += f"p,1,sum,{a + seed / 10},nan,nan,5,nan,0.5,,d,m\\n"
part = folder / f".{name}-{os.getpid()}"
part.mkdir()
(part / "results.csv").write_text(row)
(part / "run.json").write_text(json.dumps(about))
with (folder / "made.txt").open("a") as log:
    log.write(f"{name} {os.environ.get('CUDA_VISIBLE_DEVICES', '')} {os.environ['OMP_NUM_THREADS']}\\n")
os.rename(part, folder / name)"""


def write_notebook(folder: Path, *cells: str, parameters: str = PARAMETERS) -> Path:
    """The notebook 11_tiny, with further cells between its start and its record."""
    folder.mkdir(exist_ok=True)
    sources = [START, *cells, RECORD]
    first = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    cells = [first, *map(nbformat.v4.new_code_cell, sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), folder / "11_tiny.ipynb")
    return folder / "11_tiny.ipynb"


def make_plan_of(folder: Path, **varied: list) -> Plan:
    """The plan of a grid over the notebook in `folder`, with its results beside it."""
    grid = Grid("11", grid=varied)
    return make_plan(expand([grid], folder / "results", folder / "notebooks"))


def lines(file: Path) -> list[list[str]]:
    """The lines of a log, each split into words."""
    return [line.split(" ") for line in file.read_text().splitlines()] if file.exists() else []


def names(file: Path) -> list[str]:
    """The first words of a log's lines."""
    return [words[0] for words in lines(file)]


def recorded(results: Path) -> dict[str, float]:
    """Name of each run -> the number that it recorded."""
    files = results.glob("11-*/results.csv")
    return {file.parent.name: pd.read_csv(file).value[0] for file in files}

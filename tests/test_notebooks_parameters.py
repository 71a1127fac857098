"""Net b: notebooks through papermill with other parameters: the records are right, and they follow the parameter.

One line of CASES is one run: the notebook's number, parameters, and a function that asserts on `records`, the rows of this
run, and on `defaults`, those of the same notebook with BASE alone. CHANGES names what has to differ from the defaults.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

from xaihelpers.parameters import declared
from xaihelpers.records import read_records

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
PATHS = {path.name[:2]: path for path in NOTEBOOKS}

# Parameters that keep a notebook's runs short here, e.g. {"11": {"n_train": 500}}; also of the run that cases are compared with.
BASE = {}

# (notebook, parameters, check(records, defaults)), e.g. ("11", {"lambdas": [0.1]}, lasso_is_gone)
CASES = []


def papermill(path, folder, parameters):
    """Run a notebook by the plain papermill command, its results going to `folder`."""
    given = folder / "given.yaml"
    given.write_text(yaml.safe_dump({**parameters, "results": str(folder / "results")}))
    command = [sys.executable, "-m", "papermill", str(path), str(folder / path.name), "-f", str(given), "--no-progress-bar"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=os.environ | {"MPLBACKEND": "agg"})


@pytest.fixture(scope="session")
def run_notebook(tmp_path_factory):
    """A function: (number, parameters) -> the records of that run; each distinct run is made once."""
    done = {}

    def run(number, parameters):
        key = number, json.dumps(parameters, sort_keys=True)
        if key not in done:
            folder = tmp_path_factory.mktemp(f"run_{number}_")
            result = papermill(PATHS[number], folder, parameters)
            assert result.returncode == 0, result.stderr[-4000:]
            done[key] = read_records(folder / "results")
        return done[key]

    return run


@pytest.mark.notebooks
@pytest.mark.parametrize("number, parameters, check", CASES)
def test_records_follow_the_parameters(number, parameters, check, run_notebook):
    base = BASE.get(number, {})
    check(run_notebook(number, base | parameters), run_notebook(number, base))


@pytest.mark.notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_misspelt_parameter_is_an_error(path, tmp_path):
    first = next(cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    name = max(declared(first.source), key=len)
    result = papermill(path, tmp_path, {name + "s": 1})
    assert result.returncode != 0
    assert f"has no parameter '{name}s': did you mean '{name}'?" in result.stderr

"""Net a: every committed notebook runs at its defaults and shows again what its marked cells show."""

import json
import os
import subprocess
import sys

import pytest
from notebook_nets import FOLDER, NOTEBOOKS, executed_at_defaults, marked_outputs

# they draw the world and fill the caches that others use; the report reads all
ORDER = ["00", "11", "93", "94", "52"]


def in_order(path):
    i = path.name[:2]
    return ORDER.index(i) if i in ORDER else len(ORDER) + (i == "99"), path.name


@pytest.mark.notebooks
@pytest.mark.parametrize("path", sorted(NOTEBOOKS, key=in_order), ids=lambda path: path.stem)
def test_notebook_shows_the_same_again(path):
    shown = marked_outputs(executed_at_defaults(path.name[:2]))
    committed = marked_outputs(json.loads(path.read_text()))
    assert committed, "no cell is marked for comparison"
    assert shown == committed


@pytest.mark.notebooks
def test_nbval_agrees():
    """The notebooks are in nbval's form: its own run of one of them passes."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "MPLBACKEND"))}
    options = [
        "--nbval-lax",
        "--nbval-current-env",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-q",
        "--color=no",
    ]
    command = [sys.executable, "-m", "pytest", *options, str(next(FOLDER.glob("71_*.ipynb")))]
    done = subprocess.run(command, cwd=FOLDER.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

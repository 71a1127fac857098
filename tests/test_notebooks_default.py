"""Net a: every committed notebook runs at its defaults and shows again what its marked cells show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
FIRST = ["00", "11"]  # they draw the world and fill the cache of features that the others use


def in_order(path):
    return (FIRST + [path.name[:2]]).index(path.name[:2]), path.name


NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"), key=in_order)


@pytest.mark.notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_shows_the_same_again(path, results_of_tests):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MPLBACKEND"))}
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env", "-p", "no:cacheprovider", "-q", "--color=no"]
    done = subprocess.run([*command, str(path)], cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

"""Tests of one xdist_group run in one process, in their order: pytest and pytest-xdist must fit together."""

import subprocess
import sys

TESTS = """
import os
import pytest

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("i", range(4))
def test_one(i):
    print("in", os.environ["PYTEST_XDIST_WORKER"])
"""


def test_a_group_stays_in_one_process(tmp_path):
    (tmp_path / "test_grouped.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-rP",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run([*command, "test_grouped.py"], cwd=tmp_path, capture_output=True, text=True)
    workers = [line for line in done.stdout.splitlines() if line.startswith("in gw")]
    assert len(workers) == 4, done.stdout + done.stderr
    assert len(set(workers)) == 1

"""The test processes: one group runs in one of them, and all of them find the real data that were given."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

GROUPED = """
import os
import pytest

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("i", range(4))
def test_one(i):
    print("in", os.environ["PYTEST_XDIST_WORKER"])
"""
ON_REAL_DATA = """
def test_reads(real_data):
    print("read", (real_data("birds.txt")).read_text())
"""


def run_in_workers(folder: Path, **environment: str) -> subprocess.CompletedProcess:
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
    environment = {k: v for k, v in os.environ.items() if not k.startswith("XAI_DATA")} | environment
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)


def test_a_group_stays_in_one_process(tmp_path):
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    done = run_in_workers(tmp_path)
    workers = [line for line in done.stdout.splitlines() if line.startswith("in gw")]
    assert len(workers) == 4, done.stdout + done.stderr
    assert len(set(workers)) == 1


def test_real_data_reach_every_process(tmp_path):
    tests, data = tmp_path / "tests", tmp_path / "real"
    tests.mkdir()
    data.mkdir()
    for name in ("conftest.py", "browser_lab.py"):
        shutil.copy(Path(__file__).with_name(name), tests)
    (tests / "test_real.py").write_text(ON_REAL_DATA)
    (data / "birds.txt").write_text("a robin")
    done = run_in_workers(tests, XAI_DATA=str(data))
    assert "read a robin" in done.stdout, done.stdout + done.stderr

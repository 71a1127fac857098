"""The benchmarks run, compare before they time, and refuse a device that is not there."""

import importlib.util
import subprocess
import sys
from functools import partial

import pandas as pd
import pytest
import torch

from xaihelpers.paths import PROJECT


@pytest.fixture
def races():
    specification = importlib.util.spec_from_file_location("races", PROJECT / "benchmarks/races.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_every_race_gives_rows_with_a_median_within_its_range(races, tmp_path, monkeypatch):
    small = [
        partial(races.race_location, n_maps=20, side=32),
        partial(races.race_svms, n_concepts=2, n_samples=20, n_features=64),
        partial(races.race_gradcam, n_images=2, side=64),
        partial(races.race_tie, n_pairs=1, n_tokens=16),
        partial(races.race_mask, n_images=2, side=32),
        partial(races.race_asking, n_requests=12, limit=4, latency=0.01),
    ]
    assert [race.func for race in small] == races.RACES
    monkeypatch.setattr(races, "RACES", small)
    file = tmp_path / "rows.csv"
    assert races.main(["--device", "cpu", "--repeats", "2", "--out", str(file)]) == 0
    rows = pd.read_csv(file)
    assert list(rows.columns) == ["device", "op", "path", "data", "metric", "value", "low", "high"]
    assert set(rows.op) == {"location", "SVMs", "Grad-CAM", "tie", "mask", "asking"}
    assert ((0 < rows.low) & (rows.low <= rows.value) & (rows.value <= rows.high)).all()
    assert (rows.value[rows.metric == "times the ideal time"] >= 1).all()


@pytest.mark.parametrize("wrong", [1.0, float("nan")])
def test_a_path_that_does_not_agree_is_not_timed(races, wrong):
    calls = {"kernel": lambda: torch.zeros(3), "peer": lambda: torch.tensor([0.0, 0.0, wrong])}
    with pytest.raises(RuntimeError, match="tie: kernel and peer differ by"):
        races.race("tie", "random", calls, 1, torch.device("cpu"), tolerance=0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(races, capsys):
    message = "The device 'cuda' was asked for, but torch sees no GPU here: use auto or cpu.\n"
    assert races.main(["--device", "cuda"]) == 2
    assert capsys.readouterr().err == message
    command = [sys.executable, "benchmarks/devices.py", "--require", "cuda"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, message)

"""Collated sweeps: means and intervals over draws, families of runs, and their figure."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from xaihelpers.sweep.collate import collate, family, read_sweeps, sweep_figure

DRAWS = {1.0: [10.0, 12.0, 14.0], 2.0: [20.0, 20.5, 21.0]}


def record(into, notebook, value, **parameters):
    folder = into / f"{notebook}-{len(list(into.iterdir())):03d}"
    folder.mkdir()
    about = {"notebook": notebook, "parameters": parameters, "started": f"2026-{folder.name}"}
    (folder / "run.json").write_text(json.dumps(about))
    row = {"paper": "p", "table": "1", "metric": "m", "value": value, "low": value - 1, "high": value + 1}
    row |= {"cases": 5, "effective": 5, "chance": 0, "row": "r", "data": "d", "model": "x"}
    pd.DataFrame([row]).to_csv(folder / "results.csv", index=False, na_rep="nan")


@pytest.fixture
def results(tmp_path):
    for a, values in DRAWS.items():
        for seed, value in enumerate(values):
            record(tmp_path, "11", value, seed=seed, a=a, names=["x"], results="r")
    record(tmp_path, "11", 50.0, seed=0, a=3.0, names=["x", "y"], results="r")
    record(tmp_path, "12", 1.0, seed=0, results="r")
    record(tmp_path, "12", 1.0, seed=0, results="other")
    return tmp_path


def test_runs_with_other_parameters_are_a_sweep_and_others_are_not(results):
    sweeps = read_sweeps(results)
    assert list(sweeps) == ["11"] and sweeps["11"].attrs["swept"] == ["a", "names"]


def test_draws_are_averaged_with_their_interval(results):
    table = collate(read_sweeps(results)["11"]).set_index("a")
    mean, half = np.mean(DRAWS[1.0]), t.ppf(0.975, 2) * np.std(DRAWS[1.0], ddof=1) / np.sqrt(3)
    assert np.allclose(table.loc[1.0, ["value", "low", "high"]].tolist(), [mean, mean - half, mean + half])
    assert table.draws.to_dict() == {1.0: 3, 2.0: 3, 3.0: 1}
    assert table.loc[3.0, "value"] == 50 and np.isnan(table.loc[3.0, "low"])  # one draw tells no interval
    assert table.loc[1.0, ["cases_low", "cases_high"]].tolist() == [11.0, 13.0]
    assert table.names.tolist() == ['["x"]', '["x"]', '["x", "y"]']


def test_a_family_differs_in_one_parameter_alone(results):
    rows = read_sweeps(results)["11"]
    assert sorted(family(rows, "a").a.unique()) == [1.0, 2.0] and len(family(rows, "names")) == 0


def test_the_figure_shows_draws_means_and_intervals(results):
    fig = sweep_figure(family(read_sweeps(results)["11"], "a"), "a")
    (ax,) = fig.axes
    means = ax.containers[0].lines[0].get_ydata()
    dots = np.concatenate([line.get_ydata() for line in ax.lines if line.get_marker() == "."])
    assert means.tolist() == [12.0, 20.5] and sorted(dots) == sorted(DRAWS[1.0] + DRAWS[2.0])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1.0", "2.0"] and ax.get_xlabel() == "a"
    plt.close(fig)


def test_nothing_recorded_is_no_sweep(tmp_path):
    assert read_sweeps(tmp_path) == {}

"""The benchmarks compare before they time, and refuse a device that is not there; notebook 81 runs them."""

import importlib.util

import pytest
import torch

from xaihelpers.paths import PROJECT


def load(name):
    """A module of the folder `benchmarks`, which is on no path."""
    specification = importlib.util.spec_from_file_location(name, PROJECT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def races():
    return load("races")


def test_a_path_that_does_not_agree_is_not_timed(races):
    calls = {"kernel": lambda: torch.zeros(3), "peer": lambda: torch.tensor([0.0, 0.0, float("nan")])}
    drawn = calls, races.largest_difference
    with pytest.raises(RuntimeError, match="tie: kernel and peer differ by"):
        races.race("tie", "random", lambda: drawn, 1, torch.device("cpu"), tolerance=0)


def test_interval_of_a_median_by_hand(races):
    """P(all six above or all below the median) = 2 / 64, so their range holds it in 97 % of cases."""
    assert races.median_interval([5.0, 1.0, 2.0, 9.0, 3.0, 4.0]) == (1.0, 9.0)
    assert races.median_interval(range(24)) == (6.0, 17.0)
    assert races.median_interval([7.0]) == (7.0, 7.0)


def test_work_is_counted_without_a_clock():
    model = torch.nn.Linear(4, 3)
    images = torch.ones(2, 4)
    calls = {
        "forward": torch.no_grad()(lambda: model(images)),
        "both": lambda: model(images).sum().backward(),
    }
    work = load("limits").count_work(calls, model, 2).set_index("path")
    assert work.loc["forward"].tolist() == [2 * 4 * 3 / 1e9, 0, 0]
    # the backward pass to the weights is as large as the forward one, and needs the images
    assert work.loc["both"].tolist() == pytest.approx([4 * 4 * 3 / 1e9, 100, 4 * 4 / 1e6])


def test_rows_kept_of_devices_bear_the_names_of_today():
    kept = load("devices").read_kept()
    leads = kept[kept.metric == "speed-up"].set_index(["op", "path", "data"])
    assert len(leads.loc["location", "kernel against top-k, α = 1", "random"]) == kept.device.nunique()
    assert len(leads.loc["SVMs", "kernel against SVC by joblib", "aviary"]) == kept.device.nunique()
    assert not kept.duplicated(["device", "op", "path", "data", "metric"]).any()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(capsys):
    assert load("devices").main(["--require", "cuda"]) == 2
    assert "'cuda' was asked for, but torch sees no GPU here" in capsys.readouterr().err

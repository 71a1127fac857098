"""Draws of a model, and its concept values at each place of the image."""

import pytest
import torch
from toy_concepts import toy_dataset

from xaihelpers.bottlenecks import zoo
from xaihelpers.bottlenecks.draws import fit_draws
from xaihelpers.bottlenecks.local_values import local_values
from xaihelpers.outputs import save_outputs


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("xaihelpers.paths.cache_home", lambda: tmp_path)


def test_draws_differ_and_are_those_of_the_zoo():
    dataset = toy_dataset()
    found = fit_draws("phcbm", dataset, 3, seed=5, n=50, svm_c=0.1)
    assert len(found) == 3 and len({tuple(draw.outputs.values[0].tolist()) for draw in found}) == 3
    again = zoo.fit_or_load("phcbm", dataset, zoo.seed_of(5, 1), n=50, svm_c=0.1)
    assert torch.equal(again.outputs.values, found[1].outputs.values)
    for draw in found:
        truth = dataset.truth[~dataset.train]
        columns = [dataset.concepts.index(name) for name in draw.outputs.concepts]
        assert torch.equal(draw.present, truth[:, columns])
        training = draw.model.explain(dataset.pooled[dataset.train]).values
        torch.testing.assert_close(draw.centre, training.mean(0))


def test_a_file_is_one_draw(tmp_path):
    dataset = toy_dataset()
    (made,) = fit_draws("cbm", dataset, 1, epochs=1)
    file = save_outputs(made.outputs, tmp_path / "own.safetensors")
    (draw,) = fit_draws(str(file), dataset, 8)
    assert draw.model is None and torch.equal(draw.outputs.values, made.outputs.values)
    torch.testing.assert_close(draw.centre, made.outputs.values.mean(0))


@pytest.mark.parametrize("name", ["phcbm", "cbm_independent", "cem", "lfcbm"])
def test_values_of_places(name):
    """Where all places are alike, each has the value of the whole, but for a post-hoc map's factor 1/d."""
    dataset = toy_dataset()
    settings = {"phcbm": {"n": 50}, "lfcbm": {}}.get(name, {"epochs": 1})
    (draw,) = fit_draws(name, dataset, 1, **settings)
    pooled = dataset.pooled[~dataset.train][:7]
    maps = pooled[:, :, None, None].expand(-1, -1, 2, 3).contiguous()
    found = local_values(draw.model, maps)
    assert found.shape == (7, len(draw.outputs.concepts), 2, 3)
    whole = draw.outputs.values[:7] / (pooled.shape[1] if name == "phcbm" else 1)
    torch.testing.assert_close(found[:, :, 1, 2], whole, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found[:, :, 0, 0], found[:, :, 1, 2], atol=1e-6, rtol=0)  # float32 sums

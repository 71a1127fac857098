"""Networks that are explained side by side: whole ones, heads on frozen maps, files of maps."""

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers import datasets, saliency
from xaihelpers.saliency.networks_compared import train_head
from xaihelpers.yardsticks import attention_studies


@pytest.fixture(scope="module")
def birds():
    return datasets.load("aviary")


@pytest.fixture(scope="module")
def explained(birds):
    names = ["aviary_resnet", "segmenter/aviary_resnet", "classifier/aviary_resnet", "aviary_reader"]
    return saliency.load_networks(names, birds, n_fits=2, epochs=2)


def test_everyone_is_mostly_right_and_seeds_differ(birds, explained):
    rows = np.flatnonzero(~birds.images.train)[::60]
    seen = saliency.attend_all(explained, birds, rows)
    cases, name = seen.cases, "segmenter/aviary_resnet"
    assert len(cases) == 6 * len(rows) and set(seen.pixels) == {"aviary_resnet", "aviary_reader"}
    assert set(cases.network[cases.kind == "segmentation"]) == {name}
    assert explained[name].names[0] == "background"
    assert (cases.groupby("network").right.mean() > 0.7).all()
    assert not torch.equal(seen.maps[name, 0], seen.maps[name, 1])
    asked = saliency.attend_all({name: explained[name]}, birds, rows, asked="label").cases
    assert asked.name.tolist() == asked.label.tolist()
    found, lit = attention_studies.lit_cases(seen, birds)
    assert len(lit) == len(found) and found.coverage.between(0, 1).all()
    whole = found.network.isin(["aviary_resnet", "aviary_reader"])
    assert (found.confidence.notna() == whole).all()  # a head sees maps, and cannot be asked of other pixels
    found = attention_studies.measures(seen, 2, 3)
    assert found.notna().all(axis=1).sum() == 2 * 3 and not found[~whole].notna().any(axis=None)


def test_ratings_of_other_maps_are_refused():
    """For instance of maps by their numbers: without a word there would be no reference."""
    cases = pd.DataFrame({"item": ["resnet jay/1", "resnet jay/2"], "image": ["jay/1", "jay/2"]})
    people = pd.DataFrame({"item": ["0", "1"], "rater": "x", "rating": [3.0, 4.0]})
    with pytest.raises(
        ValueError, match="none of the rated items is one of these maps: '0' there, 'resnet jay/1'"
    ):
        attention_studies.ceiling(people, cases, pd.Series([1.0, 2.0]))


def test_a_head_leaves_the_random_state_alone():
    maps = torch.rand(8, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    before = torch.random.get_rng_state()
    heads = [train_head(maps, torch.arange(8) % 2, 2, 1, seed) for seed in (0, 0, 1)]
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(heads[0][-1].weight, heads[1][-1].weight)
    assert not torch.equal(heads[0][-1].weight, heads[2][-1].weight)


def test_a_segmenter_needs_to_know_where_objects_are(tmp_path, birds):
    for row in birds.images[birds.images.label < 2].groupby(["label", "train"]).head(2).itertuples():
        place = tmp_path / ("train" if row.train else "test") / birds.class_names[row.label]
        place.mkdir(parents=True, exist_ok=True)
        (place / row.path.split("/")[-1]).write_bytes(open(row.path, "rb").read())
    pictures = datasets.load(str(tmp_path))
    with pytest.raises(saliency.SaliencyError, match="does not say where its objects are"):
        saliency.load_networks(["segmenter/aviary_resnet"], pictures)

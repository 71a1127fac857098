"""Notebook 52 in shards: one choice, own noise for every pair, one benchmark."""

import pytest
from notebook_nets import BASE, run_cells

from xaihelpers import datasets

pytestmark = [pytest.mark.notebooks, pytest.mark.xdist_group("notebook 52")]


def build(folder, name, **parameters):
    """Run the notebook small; its benchmark goes to folder/name."""
    asked = BASE["52"] | {"benchmark": str(folder / name)} | parameters
    return run_cells("52", asked, folder / "results")


def kept_in(place):
    """What a benchmark holds: pictures by their content, birds and attributes."""
    images = datasets.load(place).images
    return sorted(zip(images.path, images.bird, images.attribute, strict=True))


def test_two_shards_and_one(tmp_path):
    """Two shards share a choice and hold together what one run makes; another choice is an error."""
    build(tmp_path, "parts", shards=2, shard=0)
    choice = (tmp_path / "parts" / "choice.json").read_bytes()
    with pytest.raises(datasets.DatasetError, match="was chosen with another n_recognised"):
        build(tmp_path, "parts", shards=2, shard=1, n_recognised=3)
    build(tmp_path, "parts", shards=2, shard=1)
    assert (tmp_path / "parts" / "choice.json").read_bytes() == choice
    build(tmp_path, "whole")
    assert kept_in(tmp_path / "parts") == kept_in(tmp_path / "whole") != []
    with pytest.raises(datasets.DatasetError, match="is not one of 1 shards"):
        build(tmp_path, "parts")

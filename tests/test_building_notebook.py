"""Notebook 52 in shards: one choice, own noise for every pair, one study, one benchmark."""

import pandas as pd
import pytest
from notebook_nets import BASE, run_cells

from xaihelpers import datasets, rating

pytestmark = [pytest.mark.notebooks, pytest.mark.xdist_group("notebook 52")]


def build(folder, name, **parameters):
    """Run the notebook small; its benchmark goes to folder/name, the ratings beside it."""
    places = {"benchmark": str(folder / name), "ratings": str(folder / f"{name}.sqlite")}
    return run_cells("52", BASE["52"] | places | parameters, folder / "results", rendered=False)


def made_by(place):
    """What all shards of a benchmark have made, sorted by pair and number."""
    tables = [pd.read_csv(file) for file in sorted((place / "filtered").glob("made-*.csv"))]
    return pd.concat(tables).sort_values(["pair", "number"], ignore_index=True)


def test_two_shards_and_one(tmp_path):
    """The first waits for the second, which asks once about both; together they make what one run makes."""
    parts, file = tmp_path / "parts", tmp_path / "parts.sqlite"
    build(tmp_path, "parts", shards=2, shard=0)
    choice = (parts / "selection.json").read_bytes()
    assert not (parts / "data").exists() and rating.studies(file) == []
    with pytest.raises(datasets.DatasetError, match="was chosen with another accuracy"):
        build(tmp_path, "parts", shards=2, shard=1, accuracy=0.123)
    build(tmp_path, "parts", shards=2, shard=1)
    assert (parts / "selection.json").read_bytes() == choice
    assert sorted(rating.studies(file)) == ["parts, pick", "parts, yes/somewhat/no"]
    assert len(list((parts / "data").glob("*-of-00002.parquet"))) == 2

    build(tmp_path, "whole")
    together, alone = made_by(parts), made_by(tmp_path / "whole")
    assert together.pair.nunique() > 1 and not together.duplicated(["pair", "number"]).any()
    pd.testing.assert_frame_equal(together, alone)  # an image's noise does not hang on its shard
    studied = [
        len(rating.open_study(tmp_path / f"{name}.sqlite", f"{name}, pick").items)
        for name in ("parts", "whole")
    ]
    assert studied[0] == studied[1] == (alone.fate == "kept").sum()
    written = [datasets.load(tmp_path / name).images for name in ("parts", "whole")]
    assert len(written[0]) == len(written[1]) > 0
    assert sorted(written[0].path) == sorted(written[1].path)  # named by content

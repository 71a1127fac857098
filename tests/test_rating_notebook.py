"""Notebook 71 through papermill: before anybody has rated, after three have, and with a changed study."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from notebook_nets import run_cells

from xaihelpers import rating
from xaihelpers.records import read_records

PROJECT = Path(__file__).resolve().parents[1]
NOTEBOOK = PROJECT / "notebooks" / "71_rating_by_people.ipynb"
pytestmark = pytest.mark.notebooks


def run(folder, **parameters):
    """Run the notebook; its printed text, its error and its records."""
    given = {
        "ratings": str(folder / "kept.sqlite"),
        "study": "crowns",
        "form": "pick",
        "n_items": 6,
        "results": str(folder / "results"),
    } | parameters
    options = [
        part
        for name, value in given.items()
        for part in ("-r" if isinstance(value, str) else "-p", name, str(value))
    ]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MPLBACKEND", "XAI_RESULTS")
    }
    command = [
        sys.executable,
        "-m",
        "papermill",
        "--no-progress-bar",
        "--no-log-output",
        str(NOTEBOOK),
        str(folder / "out.ipynb"),
        *options,
    ]
    subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)
    outputs = [
        output
        for cell in nbformat.read(folder / "out.ipynb", 4).cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    text = "".join(output.get("text", "") + output.get("data", {}).get("text/html", "") for output in outputs)
    return (
        text,
        " ".join(output.evalue for output in outputs if output.output_type == "error"),
        read_records(folder / "results"),
    )


def test_nobody_then_three_raters_then_another_study(tmp_path):
    text, error, records = run(tmp_path)
    assert error == ""
    assert "Nobody has rated yet" in text
    assert "the study has none so far" in text
    assert "It stays hidden" in text
    assert records.set_index("metric").value.to_dict() == {"ratings": 0, "raters": 0}

    study = rating.open_study(tmp_path / "kept.sqlite", "crowns")
    assert len(study.items) == 6
    truth = {item: rating.read_page(study, item).hidden["truth"] for item in study.items}
    options = rating.read_page(study, study.items[0]).shown["options"]
    wrong = {item: next(option for option in options if option not in truth[item]) for item in study.items}
    # every bird of the aviary has a crown of some colour
    assert len(options) == 15
    assert all(truth.values())
    for rater in ("anna", "ben"):
        for position, item in enumerate(rating.item_order(study, rater), 1):
            rating.rate(
                study,
                rater,
                item,
                wrong[item] if position == 1 and rater == "ben" else truth[item][0],
                position,
                2.0,
            )
    rating.rate(study, "carla", study.items[0], "red")

    # the file is enough
    text, error, records = run(
        tmp_path, as_stored=True, data="nowhere", backbone="none", export=str(tmp_path / "out.csv")
    )
    assert error == ""
    assert "13 ratings written" in text
    found = records[records.model == "people"].drop_duplicates("metric", keep="last").set_index("metric")
    assert found.value[["ratings", "raters"]].tolist() == [13, 3]
    picks = found.loc["people's picks that the label has"]
    assert picks.value == pytest.approx(11 / 12)
    assert picks.cases == 6
    assert picks.chance == pytest.approx(1 / 15)
    assert pd.read_csv(tmp_path / "out.csv").groupby("rater").size().to_dict() == {
        "anna": 6,
        "ben": 6,
        "carla": 1,
    }

    text, error, _ = run(tmp_path, seed=1)
    assert "13 ratings, but its items are no longer those that were rated" in error
    assert "new name" in error
    assert len(rating.ratings(tmp_path / "kept.sqlite")) == 13


def test_ratings_go_into_notebook_23(tmp_path):
    """The exported table replaces the simulated raters; a table rated with other explanations is refused."""
    text, error, _ = run(tmp_path, study="explanations", form="scale", controls=1, n_items=13)
    assert error == ""
    study = rating.open_study(tmp_path / "kept.sqlite", "explanations")
    for rater, answers in (("anna", "1234123412341"), ("ben", "1243123413341")):
        for item, answer in zip(study.items, answers, strict=True):
            rating.rate(study, rater, item, answer)
    table = rating.export(study.file, tmp_path / "rated.csv")
    assert table.features.str.count(":").eq(8).all()
    written = pd.read_csv(tmp_path / "rated.csv")
    written.assign(image="0.Unknown/1.jpg").to_csv(tmp_path / "of_other_images.csv", index=False)
    mistakes = [("rated", 8, ""), ("rated", 5, "12 of 12 items, first '0 cbm")]
    mistakes += [
        ("of_other_images", 8, "rates 12 images that are no test images of aviary, first '0.Unknown")
    ]
    for name, k, says in mistakes:
        given = {
            "models": ["cbm", "phcbm"],
            "ratings": str(tmp_path / f"{name}.csv"),
            "calibration": 5,
            "k": k,
        }
        if says:
            with pytest.raises(ValueError, match=re.escape(says)):
                run_cells("23", given, tmp_path / "refused")
        else:
            records = run_cells("23", given, tmp_path / "used")
    assert records.model.str.contains("ratings: people").all()
    assert records[records.metric == "Krippendorff alpha"].cases.astype(float).tolist() == [12]


def test_texts_that_all_their_readers_accept(tmp_path):
    """The study that notebook 42 stores, here of two judges: one of its texts each is read with reserve."""
    picture = np.zeros((8, 8, 3), np.uint8)
    items = []
    for judge in ("small", "large"):
        for number in range(4):
            hidden = {"shown": [f"{judge}, masked"], "image": f"image {number}"}
            text = f"Is all of this right? It covers all of it. {number}"
            items.append(
                rating.Item(f"{judge}, masked: {number}", picture, "Wren", question=text, hidden=hidden)
            )
    study = rating.open_study(tmp_path / "kept.sqlite", "texts", items, "yes/somewhat/no")
    for rater in ("anna", "ben"):
        for item in study.items:
            doubt = item.endswith(" 0") and rater == "ben" or item.startswith("small") and item.endswith(" 1")
            rating.rate(study, rater, item, "somewhat" if doubt else "yes")
    given = {"ratings": str(tmp_path / "kept.sqlite"), "study": "texts", "as_stored": True}
    records = run_cells("71", given, tmp_path / "results")
    accepted = records[records.metric == "accepted by all (%)"].set_index("shown").value
    assert accepted.to_dict() == {"large, masked": 75, "small, masked": 50}

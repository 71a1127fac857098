"""The file of ratings and the panel: no answer is lost, nothing hidden is told, wrong input is named."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from xaihelpers import rating
from xaihelpers.paths import PROJECT

SCALE = list(rating.FORMS["scale"])


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(rating, "DOUBLE_CLICK", 0)
    return tmp_path / "kept" / "ratings.sqlite"


def items(n=6, text="Blue Jay", shade=5):
    pictures = [np.full((20, 30, 3), shade * i % 256, np.uint8) for i in range(n)]
    answers = rating.FORMS["scale"]
    return [rating.item(f"model-{i}", text, answers, pictures[i], {"truth": i}) for i in range(n)]


def press(panel, *answers):
    """Press buttons one after the other."""
    for answer in answers:
        next(button for button in panel.buttons.children if button.description == answer).click()


def test_every_answer_is_kept_with_all_that_belongs_to_it(file, tmp_path):
    study = rating.open_study(file, "study", items(), "scale")
    panel = rating.RatingPanel(study, "anna", seed=3)
    press(panel, *[SCALE[(n + 1) % 4] for n in range(6)])
    order = [item.id for item in panel.order]
    rating.export(file, out := tmp_path / "new" / "out.csv", "study")
    table = pd.read_csv(out)
    assert table["item"].tolist() == order and set(table.rater) == {"anna"} and set(table.form) == {"scale"}
    assert table.rating.tolist() == [2, 3, 4, 1, 2, 3] and table.position.tolist() == [1, 2, 3, 4, 5, 6]
    assert table.truth.tolist() == [int(item.split("-")[1]) for item in order]
    times = pd.to_datetime(table.time, format="ISO8601")
    assert times.is_monotonic_increasing and set(table) >= {"answer", "seconds"}
    assert abs(times.iloc[-1] - pd.Timestamp.now("UTC")) < pd.Timedelta(minutes=5)
    others = {tuple(one.id for one in rating.RatingPanel(study, rater).order) for rater in ("ben", "carla")}
    assert len({*others, tuple(order)}) == 3


def test_undo_and_going_on(file, monkeypatch):
    study = rating.open_study(file, "study", items(3), "scale")
    assert rating.RatingPanel(study).rater == "anonymous"
    panel = rating.RatingPanel(study, "anna")
    panel.undo.click()  # nothing to take back
    press(panel, SCALE[0], SCALE[1])
    press(rating.RatingPanel(study, "ben"), SCALE[3])
    panel.undo.click()  # her latest, not the latest
    panel = rating.RatingPanel(study, "anna")  # another kernel
    assert panel.item == panel.order[1]
    press(panel, SCALE[2])
    table = rating.ratings(file, "study")
    assert table[["rater", "rating"]].values.tolist() == [["anna", 1], ["ben", 4], ["anna", 3]]
    monkeypatch.setattr(rating, "DOUBLE_CLICK", 60)
    press(panel, SCALE[2])  # the second click of a double click
    monkeypatch.setattr(rating, "DOUBLE_CLICK", 0)
    assert len(rating.ratings(file, "study")) == 3
    press(panel, SCALE[2])
    assert "3 of 3 rated" in panel.place.value and not panel.buttons.children


# Rates all items of a study one after the other, and prints each one after it is stored.
WORKER = """
import sys
from xaihelpers import rating
rating.DOUBLE_CLICK = 0
panel = rating.RatingPanel(rating.open_study(sys.argv[1], "study"), "anna")
while panel.buttons.children:
    item = panel.item.id
    panel.buttons.children[2].click()
    print(item, flush=True)
"""


def test_a_killed_kernel_loses_nothing_and_the_next_goes_on(file):
    study = rating.open_study(file, "study", items(150), "scale")
    command = [sys.executable, "-c", WORKER, str(file)]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    said = [process.stdout.readline().strip() for _ in range(7)]
    os.kill(process.pid, signal.SIGKILL)
    said += process.stdout.read().split()
    process.wait()
    kept = rating.ratings(file, "study")["item"].tolist()
    order = [item.id for item in rating.RatingPanel(study, "anna").order]
    # at most the one that was kept but not yet said
    assert kept[: len(said)] == said
    assert len(kept) - len(said) in (0, 1)
    assert kept == order[: len(kept)]
    assert rating.RatingPanel(study, "anna").item.id == order[len(kept)]


def test_what_was_rated_may_not_change(file):
    study = rating.open_study(file, "study", items(), "scale")
    press(rating.RatingPanel(study, "anna"), *SCALE)
    message = "4 ratings.*no longer those.*first 'model-.*new name.*without items"
    for change in {"n": 1}, {"shade": 9}, {"text": "Mallard"}:
        with pytest.raises(rating.RatingError, match=message):
            rating.open_study(file, "study", items(**change), "scale")
    assert rating.open_study(file, "study") == rating.open_study(file, "study", items(), "scale") == study
    assert len(rating.ratings(file, "study")) == 4


def test_wrong_items_studies_and_raters(file):
    with pytest.raises(rating.RatingError, match="of 7 items of .* only 6 have an id of their own"):
        rating.open_study(file, "study", items() + items()[2:3], "scale")
    with pytest.raises(rating.RatingError, match="no study 'study' in .* give its items"):
        rating.open_study(file, "study")
    assert not file.exists()
    study = rating.open_study(file, "study", items(), "scale")
    press(rating.RatingPanel(study, " Anna "), SCALE[0])
    with pytest.raises(rating.RatingError, match="'anna' differs only in capitals from 'Anna'"):
        rating.RatingPanel(study, "anna")


def test_a_file_that_is_no_file_of_ratings_is_left_alone(tmp_path):
    file, content = tmp_path / "x.sqlite", b"item,rater,rating\n" * 100
    file.write_bytes(content)
    with pytest.raises(rating.RatingError, match=f"{file} is no file of ratings, or is damaged"):
        rating.open_study(file, "study", items())
    assert file.read_bytes() == content


def test_the_panel_tells_nothing_that_is_hidden_and_what_is_not_saved(file, tmp_path):
    camera = Image.Exif()
    camera[0x010E] = "SECRETDESCRIPTION"
    path = tmp_path / "SECRETCLASS.jpg"
    Image.new("RGB", (300, 200)).save(path, comment=b"SECRETCOMMENT", exif=camera)
    assert path.read_bytes().count(b"SECRET") == 2
    hidden = {"truth": "SECRETTRUTH", "score": 0.123456}
    answers = rating.FORMS["scale"]
    secret = [rating.item(f"SECRETMODEL-{i}", "<i>Blue Jay", answers, path, hidden) for i in range(3)]
    panel = rating.RatingPanel(rating.open_study(file, "study", secret, "scale"), "anna")
    press(panel, SCALE[0])
    file.write_bytes(b"broken" * 1000)
    press(panel, SCALE[0])
    assert "NOT SAVED" in panel.said.value and "no file of ratings" in panel.said.value
    widgets = [panel.place, panel.text, panel.said, panel.picture, panel.undo, *panel.buttons.children]
    said = json.dumps([panel.get_state(), *(one.get_state() for one in widgets)], default=str).encode()
    said += bytes(panel.picture.value)
    assert b"&lt;i&gt;Blue Jay" in said and len(panel.picture.value) > 500
    assert b"SECRET" not in said and b"0.123456" not in said

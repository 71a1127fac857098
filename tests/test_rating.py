"""The file of ratings: nothing is lost by a kill, by two writers at once or by undo.

A changed study is noticed, wrong input is named. And what the panel tells a browser.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from xaihelpers import rating
from xaihelpers.paths import FolderError

PROJECT = Path(__file__).resolve().parents[1]


def items(n=6, **changes):
    return [
        rating.Item(
            f"model-{i}",
            np.full((20, 30, 3), 5 * i % 256, np.uint8),
            "Blue Jay",
            [("blue crown", 0.5 + i / 100), ("white belly", -0.25)],
            hidden={"model": "m", "truth": i},
            **changes,
        )
        for i in range(n)
    ]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "kept" / "ratings.sqlite"


# Rates all items of a study one after the other, as a panel does, and prints each one after it is stored.
WORKER = """
import sys
from xaihelpers import rating
study = rating.open_study(sys.argv[1], "study")
for position, item in enumerate(rating.item_order(study, sys.argv[2]), 1):
    if item not in rating.current_answers(study, sys.argv[2]):
        rating.rate(study, sys.argv[2], item, sys.argv[3], position, 0.5)
        print(item, flush=True)
"""


def worker(file, rater, answer="3", **options):
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(file), rater, answer],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def test_every_answer_is_kept_with_all_that_belongs_to_it(file, tmp_path):
    study = rating.open_study(file, "study", items())
    order = rating.item_order(study, "anna", seed=3)
    for position, item in enumerate(order, 1):
        rating.rate(study, "anna", item, str(position % 4 + 1), position, seconds=position / 2)
    table = rating.ratings(file)
    assert list(table.columns) == ["item", "rater", "rating", "answer", "form", "position", "seconds", "time"]
    assert table["item"].tolist() == order and set(table.rater) == {"anna"} and set(table.form) == {"scale"}
    assert table.rating.tolist() == [2, 3, 4, 1, 2, 3] and table.position.tolist() == [1, 2, 3, 4, 5, 6]
    assert table.seconds.tolist() == [0.5, 1, 1.5, 2, 2.5, 3]
    times = pd.to_datetime(table.time)
    assert str(times.dt.tz) == "UTC" and times.is_monotonic_increasing
    assert abs(times.iloc[-1] - pd.Timestamp.now("UTC")) < pd.Timedelta(minutes=5)
    assert rating.ratings(file, hidden=True).truth.tolist() == [int(i.split("-")[1]) for i in order]
    rating.export(file, out := tmp_path / "new" / "out.csv")
    assert pd.read_csv(out)[["item", "rating"]].equals(table[["item", "rating"]])
    # orders differ by rater, and stay once given
    others = {tuple(rating.item_order(study, rater)) for rater in ("ben", "carla")}
    assert len({*others, tuple(order)}) == 3 and rating.item_order(study, "anna", seed=1) == order


def test_undo_and_replacement_lose_nothing(file):
    study = rating.open_study(file, "study", items())
    assert rating.undo(study, "anna") is None
    rating.rate(study, "anna", "model-0", "1")
    rating.rate(study, "anna", "model-1", "2")
    rating.rate(study, "ben", "model-1", "4")
    assert rating.undo(study, "anna") == "model-1"  # her latest, not the latest
    rating.rate(study, "anna", "model-1", "3")
    rating.rate(study, "anna", "model-0", "4")
    assert rating.current_answers(study, "anna") == {"model-1": "3", "model-0": "4"}
    assert rating.current_answers(study, "ben") == {"model-1": "4"}
    history = rating.ratings(file, history=True)
    assert history[["item", "rater", "answer", "ended_by"]].fillna("").values.tolist() == [
        ["model-0", "anna", "1", "replaced"],
        ["model-1", "anna", "2", "undone"],
        ["model-1", "ben", "4", ""],
        ["model-1", "anna", "3", ""],
        ["model-0", "anna", "4", ""],
    ]
    assert history.ended.notna().tolist() == [True, True, False, False, False]
    assert len(rating.ratings(file)) == 3


def test_a_killed_kernel_loses_nothing_and_the_next_goes_on(file):
    rating.open_study(file, "study", items(150))
    process = worker(file, "anna")
    said = [process.stdout.readline().strip() for _ in range(7)]
    os.kill(process.pid, signal.SIGKILL)
    said += process.stdout.read().split()
    process.wait()
    study = rating.open_study(file, "study", items(150))  # what a new kernel does
    kept = list(rating.current_answers(study, "anna"))
    order = rating.item_order(study, "anna")
    # at most the one that was kept but not yet said
    assert kept[: len(said)] == said
    assert len(kept) - len(said) in (0, 1)
    assert kept == order[: len(kept)]
    next_one = rating.RatingPanel(study, "anna")
    assert next_one.page["position"] == len(kept) + 1
    assert next_one.page["done"] == len(kept)
    # two at once in one file, one of whom goes on
    running = [worker(file, rater) for rater in ("anna", "ben")]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    assert list(rating.current_answers(study, "anna")) == order
    assert len(rating.current_answers(study, "ben")) == 150


CHANGES = {
    "fewer": (lambda old: old[:5], "1 missing.*'model-5'"),
    "more": (lambda old: items(7), "1 new.*'model-6'"),
    "another picture": (
        lambda old: [*old[:3], replace(old[3], image=np.zeros((20, 30, 3), np.uint8)), *old[4:]],
        "1 changed.*'model-3'",
    ),
    "another prediction": (lambda old: [replace(i, prediction="Mallard") for i in old], "6 changed"),
    "other weights": (
        lambda old: [replace(i, concepts=[(name, 2 * w) for name, w in i.concepts]) for i in old],
        "6 changed",
    ),
    "another question": (lambda old: items(question="Another one?"), "6 changed"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_study_that_was_rated_may_not_change(file, kind):
    change, says = CHANGES[kind]
    study = rating.open_study(file, "study", items())
    rating.rate(study, "anna", "model-0", "2")
    message = f"1 ratings.*no longer those.*{says}.*new name.*without items"
    with pytest.raises(rating.RatingError, match=message):
        rating.open_study(file, "study", change(items()))
    # the same items in another order are the same
    assert rating.open_study(file, "study", items()[::-1]).items == study.items
    assert len(rating.ratings(file)) == 1
    rating.open_study(file, "another study", change(items()))
    with pytest.raises(rating.RatingError, match="1 ratings of form 'scale', not 'yes/somewhat/no'"):
        rating.open_study(file, "study", items(), form="yes/somewhat/no")
    close = [replace(i, concepts=[(name, w + 1e-6) for name, w in i.concepts]) for i in items()]
    assert rating.open_study(file, "study", close) == study  # noise behind the digits shown


@pytest.mark.parametrize(
    "form, options, answers, numbers, wrong",
    [
        ("scale", [], ["1", "4"], [1, 4], ["0", "5", "", "yes", "2.5"]),
        ("yes/somewhat/no", [], ["yes", "somewhat", "no"], [1, 0.5, 0], ["maybe", "1", "y"]),
        ("attention", [], ["0", "5"], [0, 5], ["6", "", "2.5"]),
        ("pick", ["red", "grey", "black"], ["grey", "red"], [2, 1], ["blue", "2"]),
    ],
)
def test_forms(file, form, options, answers, numbers, wrong):
    study = rating.open_study(file, "study", items(options=options), form)
    for item, answer in zip(study.items, answers, strict=False):
        rating.rate(study, "anna", item, answer)
    assert rating.ratings(file).rating.tolist() == numbers
    for answer in wrong:
        with pytest.raises(rating.RatingError, match="is no answer to item 'model-5'"):
            rating.rate(study, "anna", "model-5", answer)
    assert len(rating.ratings(file)) == len(answers)


BLACK = np.zeros((8, 8), np.uint8)


@pytest.mark.parametrize(
    "wrong, says",
    [
        (items() + items()[2:3], "2 items have the id 'model-2'"),
        ([], "needs items"),
        ([{"id": "a", "image": "none.png"}], "item 'a': there is no picture .*none.png"),
        ([{"id": "a", "image": "broken.png"}], "item 'a': the picture .*broken.png cannot be read"),
        ([{"id": "a", "image": None}], "item 'a' has no picture"),
        (
            [{"id": "a", "image": np.zeros((3, 8, 8))}],
            r"item 'a': an array must be .* not \(3, 8, 8\) of float64",
        ),
        ([{"id": "", "image": BLACK}], "an item's id"),
        ([{"image": BLACK}], "lacks its id"),
        ([{"id": "a", "picture": 1}], "has no 'picture'; it has id, image"),
        (items(options=["a", "b"]), 'has options, which only form "pick"'),
        ([rating.Item("a", BLACK, "x", [("red", np.nan)])], "concept 'red': its weight is nan"),
        ([rating.Item("a", BLACK, "x", [("red", "much")])], "concept 'red': its weight is 'much'"),
        ([rating.Item("a", BLACK, hidden={"x": Path()})], "hidden can hold only"),
    ],
)
def test_wrong_items(file, tmp_path, wrong, says, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("broken.png").write_bytes(b"no picture")
    with pytest.raises(rating.RatingError, match=says):
        rating.open_study(file, "study", wrong)
    assert not file.exists()


def test_wrong_names_forms_and_items(file):
    with pytest.raises(rating.RatingError, match="no file of ratings"):
        rating.ratings(file)
    message = "no form 'stars': the forms are scale, yes/somewhat/no, attention, pick"
    with pytest.raises(rating.RatingError, match=message):
        rating.open_study(file, "study", items(), "stars")
    with pytest.raises(rating.RatingError, match="no study 'study' in .* give its items"):
        rating.open_study(file, "study")
    for options in ([], ["red"], ["red", "red"], [str(i) for i in range(40)]):
        with pytest.raises(rating.RatingError, match="needs 2 to 34 different ones"):
            rating.open_study(file, "study", items(options=options), "pick")
    study = rating.open_study(file, "study", items())
    for name in ("", "  ", "a\nb", None):
        with pytest.raises(rating.RatingError, match="rater's name"):
            rating.item_order(study, name)
    rating.item_order(study, "Anna")
    with pytest.raises(rating.RatingError, match="'anna' differs only in capitals"):
        rating.item_order(study, "anna")
    assert rating.item_order(study, " Anna ") == rating.item_order(study, "Anna")
    with pytest.raises(rating.RatingError, match="has no item 'none'"):
        rating.rate(study, "Anna", "none", "1")
    assert len(rating.ratings(file)) == 0
    rating.open_study(file, "two", items())
    with pytest.raises(rating.RatingError, match="name the study in .*study, two"):
        rating.ratings(file)
    with pytest.raises(rating.RatingError, match="no study 'three'.*study, two"):
        rating.ratings(file, "three")


def test_a_file_that_is_no_file_of_ratings_is_left_alone(tmp_path):
    file, content = tmp_path / "x.sqlite", b"item,rater,rating\n" * 100
    file.write_bytes(content)
    for use in (lambda: rating.open_study(file, "study", items()), lambda: rating.ratings(file)):
        with pytest.raises(rating.RatingError, match=f"{file} is no file of ratings, or is damaged"):
            use()
    assert file.read_bytes() == content
    with closing(sqlite3.connect(other := tmp_path / "other.sqlite")) as db, db:
        db.execute("create table t (x)")
    with pytest.raises(rating.RatingError, match="database of another program"):
        rating.open_study(other, "study", items())
    with pytest.raises(rating.RatingError, match="is a folder"):
        rating.open_study(tmp_path, "study", items())
    with pytest.raises(FolderError, match="Cannot write in .*x.sqlite/deeper"):
        rating.open_study(file / "deeper/r.sqlite", "study", items())


def talk(panel, *messages):
    """What the panel answers the browser: (message, sizes of its pictures)."""
    sent = []
    panel.send = lambda content, buffers=None: sent.append((content, [len(data) for data in buffers or []]))
    for message in messages:
        panel._receive(panel, message, [])
    return sent


def test_the_panel_rates_undoes_and_goes_on(file):
    study = rating.open_study(file, "study", items(3))
    panel = rating.RatingPanel(study, "anna")
    assert panel.page["position"] == 1
    assert (panel.page["done"], panel.page["total"]) == (0, 3)
    # the second is a late key
    talk(panel, *[{"do": "rate", "position": 1, "answer": answer, "seconds": 2} for answer in "41"])
    assert panel.page["position"] == 2
    assert len(rating.ratings(file)) == 1
    wrong = talk(panel, {"do": "rate", "position": 2, "answer": "9", "seconds": 1})[0][0]
    assert wrong["failed"] and "is no answer" in wrong["says"] and "model-" not in wrong["says"]
    assert talk(panel, {"do": "undo"}) == [({"says": "Taken back; answer it again."}, [])]
    assert panel.page["position"] == 1
    assert talk(panel, {"do": "undo"})[0][0]["says"] == "Nothing to take back."
    for position in (1, 2, 3):
        talk(panel, {"do": "rate", "position": position, "answer": "2", "seconds": 1.5})
    assert panel.page["position"] == 0
    assert panel.page["done"] == 3
    assert panel.page["shown"] == {}
    assert talk(panel, {"do": "rate", "position": 0, "answer": "2"}) == [({"says": ""}, [])]
    talk(panel, {"do": "undo"})
    assert panel.page["position"] == 3
    assert rating.RatingPanel(study, "anna").page["position"] == 3


def test_the_panel_tells_nothing_that_is_hidden(file, tmp_path):
    camera = Image.Exif()
    camera[0x010E] = "SECRETDESCRIPTION"
    path = tmp_path / "SECRETCLASS.jpg"
    Image.new("RGB", (300, 200)).save(path, comment=b"SECRETCOMMENT", exif=camera)
    assert path.read_bytes().count(b"SECRET") == 2
    hidden = {"truth": "SECRETTRUTH", "score": 0.123456}
    secret = [
        rating.Item(f"SECRETMODEL-{i}", path, "Blue Jay", [("red", 1.0)], hidden=hidden) for i in range(3)
    ]
    panel = rating.RatingPanel(rating.open_study(file, "study", secret), "anna")
    sent = []
    panel.send = lambda content, buffers=None: sent.extend([json.dumps(content).encode(), *(buffers or [])])
    for position, what in (
        (1, {"do": "pictures"}),
        (1, {"do": "rate", "answer": "1"}),
        (2, {"do": "rate", "answer": "x"}),
    ):
        panel._receive(panel, what | {"position": position}, [])
    said = json.dumps(panel.get_state(), default=str).encode() + b"".join(sent)
    assert b"Blue Jay" in said and len(sent) == 4
    assert b"SECRET" not in said and b"0.123456" not in said

"""The file of ratings: nothing is lost by a kill, by two writers at once or by undo.

A changed study is noticed, wrong input is named. And what the panel tells a browser.
"""

import io
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
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


def sound(file):
    with sqlite3.connect(file) as db:
        return db.execute("pragma integrity_check").fetchone()[0] == "ok"


def test_every_answer_is_kept_with_all_that_belongs_to_it(file):
    study = rating.open_study(file, "study", items())
    order = rating.item_order(study, "anna", seed=3)
    for position, item in enumerate(order, 1):
        rating.rate(study, "anna", item, str(position % 4 + 1), position, seconds=position / 2)
    table = rating.ratings(file)
    assert list(table.columns) == ["item", "rater", "rating", "answer", "form", "position", "seconds", "time"]
    assert table["item"].tolist() == order
    assert set(table.rater) == {"anna"}
    assert set(table.form) == {"scale"}
    assert table.rating.tolist() == [2, 3, 4, 1, 2, 3]
    assert table.position.tolist() == [1, 2, 3, 4, 5, 6]
    assert table.seconds.tolist() == [0.5, 1, 1.5, 2, 2.5, 3]
    times = pd.to_datetime(table.time)
    assert str(times.dt.tz) == "UTC"
    assert times.is_monotonic_increasing
    assert abs(times.iloc[-1] - pd.Timestamp.now("UTC")) < pd.Timedelta(minutes=5)
    assert rating.ratings(file, hidden=True).truth.tolist() == [int(i.split("-")[1]) for i in order]


def test_orders_differ_by_rater_and_seed_and_stay_once_given(file):
    study = rating.open_study(file, "study", items(12))
    orders = {rater: rating.item_order(study, rater) for rater in ("anna", "ben", "carla")}
    assert len({tuple(order) for order in orders.values()}) == 3
    assert all(sorted(order) == sorted(study.items) for order in orders.values())
    assert rating.item_order(study, "anna", seed=1) == orders["anna"]  # fixed when first asked for
    rating.open_study(other := file.with_name("other.sqlite"), "study", items(12))
    again = rating.open_study(other, "study")
    assert rating.item_order(again, "ben") == orders["ben"]
    assert rating.item_order(again, "anna", seed=1) != orders["anna"]


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


def test_raters_at_once_on_one_file(file):
    rating.open_study(file, "study", items(40))
    raters = ["anna", "ben", "anna", "carla"]  # one of them in two windows
    running = [worker(file, rater, answer) for rater, answer in zip(raters, "3412", strict=True)]
    outputs = [process.communicate(timeout=300)[0].split() for process in running]
    assert [process.returncode for process in running] == [0] * 4
    table, history = rating.ratings(file), rating.ratings(file, history=True)
    assert table.groupby("rater").item.nunique().to_dict() == {"anna": 40, "ben": 40, "carla": 40}
    assert len(table) == 120
    assert sound(file)
    # each answer that was said to be kept is there, replaced ones too
    assert len(history) == sum(map(len, outputs))


def test_processes_may_begin_a_file_at_once(file):
    code = (
        "import sys, numpy as np\nfrom xaihelpers import rating\n"
        "items = [dict(id=str(i), image=np.zeros((8, 8, 3), np.uint8)) for i in range(3)]\n"
        "rating.item_order(rating.open_study(sys.argv[1], sys.argv[2], items), 'anna')"
    )
    for round_ in range(2):
        new = file.with_name(f"new{round_}.sqlite")
        running = [
            subprocess.Popen([sys.executable, "-c", code, str(new), f"study {i % 2}"], cwd=PROJECT)
            for i in range(3)
        ]
        assert [process.wait(timeout=120) for process in running] == [0] * 3
        assert sorted(rating.studies(new)) == ["study 0", "study 1"]


@pytest.mark.parametrize("after", [1, 7, 20])
def test_a_killed_kernel_loses_nothing_and_the_next_goes_on(file, after):
    rating.open_study(file, "study", items(150))
    process = worker(file, "anna")
    said = [process.stdout.readline().strip() for _ in range(after)]
    os.kill(process.pid, signal.SIGKILL)
    said += process.stdout.read().split()
    process.wait()
    study = rating.open_study(file, "study", items(150))  # what a new kernel does
    kept = list(rating.current_answers(study, "anna"))
    order = rating.item_order(study, "anna")
    # at most the one that was kept but not yet said
    assert kept[: len(said)] == said
    assert len(kept) - len(said) in (
        0,
        1,
    )
    assert kept == order[: len(kept)]
    assert sound(file)
    next_one = rating.RatingPanel(study, "anna")
    assert next_one.page["position"] == len(kept) + 1
    assert next_one.page["done"] == len(kept)
    assert worker(file, "anna").wait(timeout=120) == 0
    assert list(rating.current_answers(study, "anna")) == order


def test_a_killed_writer_blocks_no_other(file):
    study = rating.open_study(file, "study", items())
    code = (
        "import sqlite3, sys, time\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('begin immediate')\n"
        "db.execute(\"insert into orders values ('x', 'x', '[]', 0)\")\n"
        "print('holds', flush=True)\n"
        "time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "holds\n"
    waiting = worker(file, "anna")
    time.sleep(2)
    # it waits for the one that writes
    assert waiting.poll() is None
    assert not rating.current_answers(study, "anna")
    holder.kill()
    assert waiting.wait(timeout=120) == 0
    assert len(rating.current_answers(study, "anna")) == 6
    with sqlite3.connect(file) as db:
        assert db.execute("select count(*) from orders where study = 'x'").fetchone()[0] == 0


def test_the_export_is_the_tidy_table(file, tmp_path):
    study = rating.open_study(file, "study", items(4))
    for rater, answers in (("anna", "1234"), ("ben", "4321")):
        for item, answer in zip(study.items, answers, strict=False):
            rating.rate(study, rater, item, answer)
    rating.undo(study, "ben")
    table = rating.export(file, out := tmp_path / "new" / "out.csv")
    read = pd.read_csv(out)
    columns = ["item", "rater", "rating"]
    assert read[columns].values.tolist() == table[columns].values.tolist()
    assert len(read) == 7 == len(rating.ratings(file))
    assert os.listdir(out.parent) == ["out.csv"]


def test_what_is_exported_is_what_agreement_takes(file):
    agreement = pytest.importorskip("xaihelpers.scores.agreement")
    study = rating.open_study(file, "study", items())
    for rater, answers in (("anna", "123412"), ("ben", "123412")):
        for item, answer in zip(study.items, answers, strict=False):
            rating.rate(study, rater, item, answer)
    table = rating.ratings(file)
    assert len(agreement.check_ratings(table)) == 12
    assert agreement.krippendorff_alpha(table).value == pytest.approx(1)


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda old: items()[:5], "1 missing.*'model-5'"),
        (lambda old: items(7), "1 new.*'model-6'"),
        (
            lambda old: [
                replace(i, image=np.zeros((20, 30, 3), np.uint8)) if i.id == "model-3" else i for i in old
            ],
            "1 changed.*'model-3'",
        ),
        (lambda old: [replace(i, prediction="Mallard") for i in old], "6 changed"),
        (
            lambda old: [replace(i, concepts=[(name, 2 * w) for name, w in i.concepts]) for i in old],
            "6 changed",
        ),
        (lambda old: items(question="Another one?"), "6 changed"),
    ],
    ids=["fewer", "more", "another picture", "another prediction", "other weights", "another question"],
)
def test_a_study_that_was_rated_may_not_change(file, change, says):
    study = rating.open_study(file, "study", items())
    rating.rate(study, "anna", "model-0", "2")
    with pytest.raises(
        rating.RatingError, match=f"1 ratings.*no longer those.*{says}.*new name.*without items"
    ):
        rating.open_study(file, "study", change(items()))
    # the same items in another order are the same
    assert rating.open_study(file, "study", items()[::-1]).items == study.items
    assert len(rating.ratings(file)) == 1
    rating.open_study(file, "another study", change(items()))


def test_noise_behind_the_digits_shown_is_no_change(file):
    study = rating.open_study(file, "study", items())
    rating.rate(study, "anna", "model-0", "2")
    close = [replace(i, concepts=[(name, w + 1e-6) for name, w in i.concepts]) for i in items()]
    assert rating.open_study(file, "study", close) == study


def test_a_study_nobody_has_rated_may_change(file):
    rating.item_order(rating.open_study(file, "study", items()), "anna")
    study = rating.open_study(file, "study", items(3), question="Another one?")
    assert len(rating.item_order(study, "anna")) == 3
    assert rating.read_page(study, "model-0").shown["question"] == "Another one?"
    with sqlite3.connect(file) as db:
        assert db.execute("select count(*) from images").fetchone()[0] == 3


def test_an_item_replaced_while_it_was_shown_is_not_rated(file):
    panel = rating.RatingPanel(rating.open_study(file, "study", items()), "anna")
    rating.open_study(file, "study", items(question="Another one?"))
    sent = talk(panel, {"do": "rate", "position": 1, "answer": "2", "seconds": 1})
    assert sent[0][0]["failed"]
    assert "replaced after it was shown" in sent[0][0]["says"]
    assert not len(rating.ratings(file))


def test_the_form_of_a_rated_study_stays(file):
    study = rating.open_study(file, "study", items())
    rating.rate(study, "anna", "model-0", "2")
    with pytest.raises(rating.RatingError, match="1 ratings of form 'scale', not 'yes/somewhat/no'"):
        rating.open_study(file, "study", items(), form="yes/somewhat/no")


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


def picture_of(path):
    return [{"id": "a", "image": path}]


@pytest.mark.parametrize(
    "wrong, says",
    [
        (lambda t: items() + items()[2:3], "2 items have the id 'model-2'"),
        (lambda t: [], "needs items"),
        (lambda t: picture_of(t / "none.png"), "item 'a': there is no picture .*none.png"),
        (
            lambda t: picture_of((t / "broken.png").write_bytes(b"no picture") and t / "broken.png"),
            "item 'a': the picture .*broken.png cannot be read",
        ),
        (lambda t: picture_of(None), "item 'a' has no picture"),
        (
            lambda t: picture_of(np.zeros((3, 8, 8))),
            r"item 'a': an array must be .* not \(3, 8, 8\) of float64",
        ),
        (lambda t: [{"id": "", "image": np.zeros((8, 8), np.uint8)}], "an item's id"),
        (lambda t: [{"image": np.zeros((8, 8), np.uint8)}], "lacks its id"),
        (lambda t: [{"id": "a", "picture": 1}], "has no 'picture'; it has id, image"),
        (lambda t: items(options=["a", "b"]), 'has options, which only form "pick"'),
        (
            lambda t: [rating.Item("a", np.zeros((8, 8), np.uint8), "x", [("red", float("nan"))])],
            "concept 'red': its weight is nan",
        ),
        (
            lambda t: [rating.Item("a", np.zeros((8, 8), np.uint8), "x", [("red", "much")])],
            "concept 'red': its weight is 'much'",
        ),
        (lambda t: [rating.Item("a", np.zeros((8, 8), np.uint8), hidden={"x": t})], "hidden can hold only"),
    ],
)
def test_wrong_items(file, tmp_path, wrong, says):
    with pytest.raises(rating.RatingError, match=says):
        rating.open_study(file, "study", wrong(tmp_path))
    assert not file.exists()


@pytest.mark.parametrize("options", [[], ["red"], ["red", "red"], [str(i) for i in range(40)]])
def test_wrong_options(file, options):
    with pytest.raises(rating.RatingError, match="needs 2 to 34 different ones"):
        rating.open_study(file, "study", items(options=options), "pick")


def test_wrong_names_forms_and_items(file):
    with pytest.raises(
        rating.RatingError, match="no form 'stars': the forms are scale, yes/somewhat/no, attention, pick"
    ):
        rating.open_study(file, "study", items(), "stars")
    with pytest.raises(rating.RatingError, match="no study 'study' in .* give its items"):
        rating.open_study(file, "study")
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


def test_no_file_no_study_several_studies(file, tmp_path):
    with pytest.raises(rating.RatingError, match="no file of ratings"):
        rating.ratings(file)
    rating.open_study(file, "one", items())
    assert len(rating.ratings(file)) == 0
    rating.open_study(file, "two", items())
    with pytest.raises(rating.RatingError, match="name the study in .*one, two"):
        rating.ratings(file)
    with pytest.raises(rating.RatingError, match="no study 'three'.*one, two"):
        rating.ratings(file, "three")
    assert len(rating.ratings(file, "two")) == 0


@pytest.mark.parametrize("content", [b"item,rater,rating\n" * 100, os.urandom(5000)], ids=["text", "noise"])
def test_a_file_that_is_no_database_is_left_alone(tmp_path, content):
    (file := tmp_path / "x.sqlite").write_bytes(content)
    for use in (lambda: rating.open_study(file, "study", items()), lambda: rating.ratings(file)):
        with pytest.raises(rating.RatingError, match=f"{file} is no file of ratings, or is damaged"):
            use()
    assert file.read_bytes() == content


def test_another_programs_database_is_left_alone(tmp_path):
    file = tmp_path / "x.sqlite"
    db = sqlite3.connect(file)
    db.execute("create table t (x)")
    db.commit()
    db.close()
    before = file.read_bytes()
    with pytest.raises(rating.RatingError, match="database of another program"):
        rating.open_study(file, "study", items())
    assert file.read_bytes() == before
    with pytest.raises(rating.RatingError, match="is a folder"):
        rating.open_study(tmp_path, "study", items())


def in_a_child(work, as_nobody=False):
    """What `work` returns or raises in a new process: [type of the error or "", its text or the result].

    as_nobody: without root's rights.
    """
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if as_nobody and os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            found = ["", work()]
        except BaseException as error:
            found = [type(error).__name__, str(error)]
        os.write(write, json.dumps(found, default=str).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


@pytest.fixture
def read_only():
    """A folder that others may read but not write, with a file of ratings in it."""
    folder = Path(tempfile.mkdtemp())  # not pytest's, which only its owner may enter
    study = rating.open_study(folder / "kept.sqlite", "study", items())
    rating.rate(study, "anna", "model-0", "2")
    for path in folder.glob("kept.sqlite-*"):
        path.unlink()  # as a copied file comes: without what SQLite keeps beside it
    (folder / "kept.sqlite").chmod(0o444)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_folder(read_only):
    kind, text = in_a_child(
        lambda: str(rating.open_study(read_only / "new.sqlite", "study", items())), as_nobody=True
    )
    assert kind == "FolderError"
    assert str(read_only) in text
    assert "name another file" in text
    kept = rating.Study(read_only / "kept.sqlite", "study", "scale", ())
    kind, text = in_a_child(lambda: rating.rate(kept, "anna", "model-1", "3"), as_nobody=True)
    assert kind == "RatingError"
    assert "kept.sqlite" in text
    assert "name another file" in text
    # reading is possible
    assert in_a_child(lambda: rating.ratings(kept.file).answer.tolist(), as_nobody=True) == [
        "",
        ["2"],
    ]


def test_a_missing_folder_is_made_and_one_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FolderError, match="Cannot write in .*file/deeper"):
        rating.open_study(tmp_path / "file/deeper/r.sqlite", "study", items())


def test_a_full_disk_keeps_what_was_kept(file):
    study = rating.open_study(file, "study", items())
    rating.rate(study, "anna", "model-0", "2")

    def rate_on_a_full_disk():
        panel = rating.RatingPanel(study, "anna")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        # no file may grow beyond this: writing fails as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        return talk(panel, {"do": "rate", "position": panel.page["position"], "answer": "3", "seconds": 1})[
            0
        ][0]

    kind, answer = in_a_child(rate_on_a_full_disk)
    assert kind == ""
    assert answer["failed"]
    assert "NOT SAVED" in answer["says"]
    assert "make room" in answer["says"]
    assert rating.ratings(file).answer.tolist() == ["2"]
    assert sound(file)


def test_names_of_files(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    monkeypatch.delenv("XAI_RATINGS", raising=False)
    assert rating.ratings_file() == tmp_path / "ratings" / "ratings.sqlite"
    monkeypatch.setenv("XAI_RATINGS", str(tmp_path / "elsewhere"))
    assert rating.ratings_file("a.sqlite") == tmp_path / "elsewhere" / "a.sqlite"
    assert rating.ratings_file(f"{tmp_path}/a.sqlite") == tmp_path / "a.sqlite"


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


def test_a_wrong_answer_from_the_browser_is_said_and_not_kept(file):
    panel = rating.RatingPanel(rating.open_study(file, "study", items()), "anna")
    answer = talk(panel, {"do": "rate", "position": 1, "answer": "9", "seconds": 1})[0][0]
    assert answer["failed"]
    assert "is no answer" in answer["says"]
    assert "model-" not in answer["says"]
    assert panel.page["position"] == 1
    assert len(rating.ratings(file)) == 0


def test_the_panel_tells_nothing_that_is_hidden(file, tmp_path):
    camera = Image.Exif()
    camera[0x010E] = "SECRETDESCRIPTION"
    Image.new("RGB", (300, 200)).save(
        path := tmp_path / "SECRETCLASS.jpg", comment=b"SECRETCOMMENT", exif=camera
    )
    assert path.read_bytes().count(b"SECRET") == 2
    secret = [
        rating.Item(
            f"SECRETMODEL-{i}",
            path,
            "Blue Jay",
            [("red", 1.0)],
            hidden={"truth": "SECRETTRUTH", "score": 0.123456},
        )
        for i in range(3)
    ]
    panel = rating.RatingPanel(rating.open_study(file, "study", secret), "anna")
    pictures = []
    panel.send = lambda content, buffers=None: pictures.extend(
        [json.dumps(content).encode(), *(buffers or [])]
    )
    for position, what in (
        (1, {"do": "pictures"}),
        (1, {"do": "rate", "answer": "1"}),
        (2, {"do": "rate", "answer": "x"}),
    ):
        panel._receive(panel, what | {"position": position}, [])
    state = {
        name: value
        for name, value in panel.get_state().items()
        if isinstance(value, (str, dict, list, int, float, bool, type(None)))
    }
    said = json.dumps(state).encode() + b"".join(pictures)
    assert b"Blue Jay" in said
    assert len(pictures) == 4
    assert b"SECRET" not in said
    assert b"0.123456" not in said


@pytest.mark.parametrize("size, form", [((32, 32), "PNG"), ((300, 200), "JPEG"), ((2000, 1000), "JPEG")])
def test_pictures_are_encoded_once_and_fit(file, size, form):
    noise = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3)).astype(np.uint8)
    study = rating.open_study(
        file, "study", [rating.Item("a", noise), rating.Item("b", Image.fromarray(noise), "Blue Jay")]
    )
    first, second = (Image.open(io.BytesIO(rating.read_page(study, i).pictures[0])) for i in "ab")
    assert first.format == form
    assert max(first.size) == min(max(size), 640)
    assert np.array_equal(first, second)
    with sqlite3.connect(file) as db:
        assert db.execute("select count(*) from images").fetchone()[0] == 1  # shown by two items, kept once
    if form == "PNG":
        assert np.array_equal(first, noise)

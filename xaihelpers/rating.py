"""Rating by people: a blinded panel in the notebook, and the SQLite file that keeps every answer at once."""

import contextlib
import hashlib
import html
import io
import json
import os
import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import ipywidgets
import pandas as pd
from PIL import Image

from xaihelpers import paths
from xaihelpers.datasets import load_image
from xaihelpers.plots import to_picture

TABLES = """begin immediate;
create table if not exists items (study text, item text, form text, text text, answers text, hidden text,
    image blob, key text, primary key (study, item));
create table if not exists ratings (study text, item text, rater text, rating real, answer text, key text,
    position integer, seconds real, time text, primary key (study, item, rater));
commit;"""
REMEDY = "make room or permit writing there, or name another file for the ratings"
DOUBLE_CLICK = 0.3  # seconds: nobody has looked at an item that is answered sooner
FORMS = {  # the answers of each form, as their buttons say them, and their ratings
    "scale": {"1 does not fit": 1, "2 fits in part": 2, "3 fits on the whole": 3, "4 fits exactly": 4},
    "yes/somewhat/no": {"yes": 1, "somewhat": 0.5, "no": 0},
    "attention": {
        "0 nothing to do with it": 0,
        "1 the object is not made out": 1,
        "2 a small part of it": 2,
        "3 made out, with much besides": 3,
        "4 most of it, little besides": 4,
        "5 all of it, nothing else": 5,
    },
}


class RatingError(ValueError):
    """An invalid study or item, or a file that cannot be used; the message names it and the remedy."""


class Item(NamedTuple):
    """One thing to rate, made by `item`."""

    id: str
    text: str
    answers: dict[str, float]
    hidden: dict
    image: bytes  # JPEG, or empty
    key: str  # hash of all that a rater sees


class Study(NamedTuple):
    """A study in a file of ratings, with its items by their ids; made by `open_study`."""

    file: Path
    name: str
    form: str
    items: dict[str, Item]


def ratings_file(name: str = "ratings.sqlite") -> Path:
    """A path, or a name in the folder that XAI_RATINGS names, by default `ratings/` of the data folder."""
    return paths.where_to_write(name, Path(os.environ.get("XAI_RATINGS") or paths.data_home() / "ratings"))


def item(
    id: str, text: str, answers: dict[str, float], image: object = None, hidden: dict | None = None
) -> Item:
    """One thing to rate, whose id and `hidden` (model, truth; as JSON types) no rater sees.

    answers: and their ratings, as of FORMS. image: a file, or as `plots.to_picture` takes it.
    """
    digest, jpeg = hashlib.sha256(json.dumps([text, answers]).encode()), io.BytesIO()
    hidden = json.loads(json.dumps(hidden or {}))
    if image is not None:
        pixels = to_picture(load_image(image) if isinstance(image, str | Path) else image)
        picture = Image.fromarray(pixels).convert("RGB")  # without what a file's comments may tell
        picture.thumbnail((960, 640))
        digest.update(picture.tobytes())
        picture.save(jpeg, "JPEG", quality=95, subsampling=0)
    return Item(id, text, answers, hidden, jpeg.getvalue(), digest.hexdigest())


@contextlib.contextmanager
def _database(file: str | Path) -> Iterator[sqlite3.Connection]:
    """A connection for one piece of work, which is on the disk when it is done."""
    try:
        with contextlib.closing(sqlite3.connect(file, timeout=30)) as database, database:
            if not database.execute("select count(*) from sqlite_master").fetchone()[0]:
                database.executescript(TABLES)
            yield database
    except sqlite3.DatabaseError as error:
        problem = f"{file} is no file of ratings, or is damaged, or cannot be used ({error})"
        raise RatingError(f"{problem}: {REMEDY}") from error


def open_study(file: str | Path, name: str, items: Sequence[Item] | None = None, form: str = "") -> Study:
    """Open a study with `items` of a form, or, without any, as the file holds it.

    Raises RatingError: for items of one id, or other than those that were rated; for an unknown study without
        items; for a file that is none of ratings. Raises FolderError: if its folder cannot be written.
    """
    file, new = Path(file), {one.id: one for one in items or []}
    if not new:
        _require_study(file, name)
    elif len(new) < len(items):
        raise RatingError(f"of {len(items)} items of study {name!r} only {len(new)} have an id of their own")
    paths.ensure_writable(file.parent, REMEDY)
    with _database(file) as database:
        rated = database.execute("select item, key from ratings where study = ?", [name]).fetchall()
        others = [id for id, key in rated if new and (id not in new or new[id].key != key)]
        if others:
            raise RatingError(
                f"study {name!r} in {file} has {len(rated)} ratings, but its items are no longer those that "
                f"were rated, first {others[0]!r}: give it a new name, or open it without items to go on"
            )
        if new:
            database.execute("delete from items where study = ?", [name])
        for id, text, answers, hidden, image, key in new.values():
            row = [name, id, form, text, json.dumps(answers), json.dumps(hidden), image, key]
            database.execute("insert into items values (?, ?, ?, ?, ?, ?, ?, ?)", row)
        rows = database.execute("select * from items where study = ? order by rowid", [name]).fetchall()
    for _, id, _, text, answers, hidden, image, key in rows:
        new[id] = Item(id, text, json.loads(answers), json.loads(hidden), image, key)
    return Study(file, name, rows[0][2], new)


def _require_study(file: Path, name: str) -> None:
    found = []
    if file.exists():
        with _database(file) as database:
            found = [study for (study,) in database.execute("select study from items group by study")]
    if name not in found:
        raise RatingError(f"there is no study {name!r} in {file}; it holds {found or 'none'}: give its items")


def ratings(file: str | Path, study: str) -> pd.DataFrame:
    """The answers in their order: item, rater, rating, answer, form, position, seconds, time, all hidden."""
    _require_study(Path(file), study)
    columns = "item, rater, rating, answer, form, position, seconds, time, hidden"
    joined = f"select {columns} from ratings join items using (study, item) where study = ?"
    with _database(file) as database:
        table = pd.read_sql_query(f"{joined} order by ratings.rowid", database, params=[study])
    table = table.astype({"rating": float, "position": int, "seconds": float})
    hidden = pd.DataFrame([json.loads(text) for text in table.pop("hidden")], table.index)
    return table.join(hidden[[name for name in hidden if name not in table]])


def export(file: str | Path, csv: str | Path, study: str) -> None:
    """Write the table of `ratings` to a CSV file, whole or not at all, with lists as JSON."""
    table = ratings(file, study).map(lambda one: json.dumps(one) if isinstance(one, list) else one)
    paths.write_whole(csv, table.to_csv(index=False).encode())


class RatingPanel(ipywidgets.VBox):
    """The panel of one rater in one study: what is to be judged and nothing else, in an order of their own.

    rater: a name or a code; "" is "anonymous".
    """

    def __init__(self, study: Study, rater: str = "", seed: int = 0):
        self.study = study
        self.rater = rater.strip() or "anonymous"
        for other in ratings(study.file, study.name).rater.unique():
            if other != self.rater and other.casefold() == self.rater.casefold():
                raise RatingError(f"rater {self.rater!r} differs only in capitals from {other!r}")
        self.order = list(study.items.values())
        random.Random(f"{seed}/{study.name}/{self.rater}").shuffle(self.order)
        self.place, self.text, self.said = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        self.picture = ipywidgets.Image(format="jpeg", width=340, layout={"align_self": "flex-start"})
        self.buttons = ipywidgets.Box(layout={"flex_flow": "row wrap"})
        self.undo = ipywidgets.Button(description="undo")
        self.undo.on_click(self._take_back)
        foot = ipywidgets.HBox([self.undo, self.said])
        right = ipywidgets.VBox([self.text, self.buttons, foot], layout={"margin": "0 0 0 16px"})
        super().__init__([self.place, ipywidgets.HBox([self.picture, right])])
        self._show()

    def _show(self) -> None:
        """Show the first item without an answer; after the last one, nothing."""
        table = ratings(self.study.file, self.study.name)
        done = table["item"][table.rater == self.rater].tolist()
        self.place.value = f"<b>{len(done)} of {len(self.order)} rated</b> by {html.escape(self.rater)}"
        left = [one for one in self.order if one.id not in done]
        self.item = left[0] if left else Item("", "", {}, {}, b"", "")
        text = html.escape(self.item.text)
        self.text.value = f"<div style='white-space: pre-wrap; line-height: 1.4'>{text}</div>"
        self.picture.value = self.item.image
        self.picture.layout.display = None if self.item.image else "none"
        answers = list(self.item.answers)
        if answers != [button.description for button in self.buttons.children]:  # else the focus stays
            new = [ipywidgets.Button(description=answer, layout={"width": "auto"}) for answer in answers]
            for button in new:
                button.on_click(self._rate)
            self.buttons.children = new
        self.since = time.monotonic()

    def _rate(self, button: ipywidgets.Button) -> None:
        seconds, answer, item = round(time.monotonic() - self.since, 2), button.description, self.item
        if seconds >= DOUBLE_CLICK:
            row = [self.study.name, item.id, self.rater, item.answers[answer], answer, item.key]
            row += [self.order.index(item) + 1, seconds, datetime.now(timezone.utc).isoformat()]
            self._write("insert or replace into ratings values (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _take_back(self, button: ipywidgets.Button) -> None:
        last = "select max(rowid) from ratings where study = ? and rater = ?"
        self._write(f"delete from ratings where rowid = ({last})", [self.study.name, self.rater])

    def _write(self, query: str, values: list) -> None:
        """Change the file and go on, or say why not."""
        try:
            with _database(self.study.file) as database:
                database.execute(query, values)
            self._show()
            self.said.value = "Saved." if query.startswith("insert") else "Taken back."
        except RatingError as error:
            self.said.value = f"<b>NOT SAVED</b>: {html.escape(str(error))}"

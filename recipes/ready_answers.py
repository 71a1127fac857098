"""The answers that ship: of the shipped annotator and judge, about pictures of the built-in worlds.

They are what a model answered to fixed requests, so data as its weights are: the chains of all images, and
what is chosen or judged by a picture in the notebooks below at their defaults. What is chosen by words alone
takes no time and does not ship. `ask` reads them where its cache has none. Made anew whenever the weights
are, or the questions of these notebooks, by

    XAI_DATA=$(mktemp -d) XAI_RECORD_AGAIN=1 python -m recipes.ready_answers
"""

import sqlite3
from contextlib import closing

import diskcache

from xaihelpers import datasets, paths, run
from xaihelpers.ask import load_vlm
from xaihelpers.fastslow import annotate_chains

WORLDS = ("aviary", "everyday")
NOTEBOOKS = ("31", "32", "33", "42", "43", "44")
WITHOUT_PICTURE = "DELETE FROM Cache WHERE json_extract(tag, '$.images[0]') IS NULL"


def make_answers() -> None:
    """Ask the annotator, and leave its answers without the questions in `paths.answers_home()`."""
    annotator = load_vlm("annotator")
    for world in WORLDS:
        annotate_chains(annotator, datasets.load(world).images["path"].tolist())
    run.main([*NOTEBOOKS, "--results", str(paths.data_home() / "results")])
    made = paths.cache_home() / "answers" / diskcache.core.DBNAME
    with closing(sqlite3.connect(made)) as database, database:
        database.execute(WITHOUT_PICTURE)
        database.execute("UPDATE Cache SET tag = NULL, store_time = 0, access_time = 0")
    with closing(sqlite3.connect(made)) as database:
        database.execute("VACUUM")
    paths.write_whole(paths.answers_home() / made.name, made.read_bytes())
    print(f"{paths.answers_home() / made.name}: {made.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    make_answers()

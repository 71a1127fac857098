"""What a yardstick itself is worth: what its page says of models with a planted fault (notebook 62).

The rows are those that notebook 62 recorded, of this data set where it was run on it, and else of the drawn
world. Nothing is known of a yardstick without such a row, and the page says so.

A user has no honest twin to compare a model with. A fault is therefore seen only where the page's own verdict
changes for the worse; where the page still says that the model is above what knows nothing, the fault passes.
"""

from pathlib import Path

import pandas as pd

from xaihelpers.paths import PROJECT, results_home
from xaihelpers.records import read_records
from xaihelpers.scores import validity

SHIPPED, REAL = PROJECT / "data" / "yardsticks", PROJECT / "data" / "real_runs"
CHANGES, PRAISES = "page changes", "page praises"
KINDS = ("bottlenecks", "judges", "maps")  # of what faults are planted in


def read_worth(data: str, folder: str | Path = "") -> pd.DataFrame:
    """What is on record of each yardstick, from the rows of notebook 62.

    data: name of the data set; runs on it are preferred, then others.
    folder: a results folder; by default the results folder for a run with the same parameters as a shipped
        one, the shipped run on drawn birds, and the runs on real ones.
    Returns a row by yardstick: planted, of KINDS, the first that it was tried on; lists of planted faults:
    sees, the page's verdict changes for the worse; passes, the page praises the faulty model.
    Raises ValueError: no run of notebook 62 in the folder.
    """
    places = [Path(folder)] if str(folder) else [SHIPPED, REAL]
    rows = [read_records(place) for place in places]
    if not str(folder):
        newer = read_records(results_home())
        rows = [newer[newer.run.isin(pd.concat(rows).run)], *rows]
    rows = pd.concat([one.assign(place=place) for place, one in enumerate(rows)], ignore_index=True)
    rows = rows[(rows.notebook == "62") & (rows.table == "yardsticks")]
    if rows.empty:
        raise ValueError(f"{folder} holds no run of notebook 62: name a results folder that has one")
    rows = rows[rows.metric.isin([CHANGES, PRAISES]) & rows.planted.isin(KINDS)]
    rows = rows.assign(other=rows.data != data, kind=rows.planted.map(KINDS.index))
    found = {}
    for yardstick, part in rows.groupby("yardstick", sort=False):
        best = part.sort_values(["kind", "other", "place"], kind="stable").iloc[0]
        part = part[(part[["place", "run", "planted"]] == best[["place", "run", "planted"]]).all(axis=1)]
        sees = part.fault[(part.metric == CHANGES) & (part.value >= validity.TOLD)]
        passes = part.fault[(part.metric == PRAISES) & (part.value > 0.5)]
        found[yardstick] = {"planted": best.planted, "sees": sees.tolist(), "passes": passes.tolist()}
    return pd.DataFrame.from_dict(found, orient="index")


def read_pairs(place: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of notebook 62 in a results folder, and of each pair of yardstick and fault one row.

    Returns all rows, and a table with the columns planted, fault, yardstick, verdict, data, and one for each
    metric; faults in the order in which they were recorded.
    """
    rows = read_records(place)
    rows = rows[rows.notebook == "62"]
    of_pairs = rows[rows.table == "yardsticks"]
    keys = ["planted", "fault", "yardstick", "verdict", "data"]
    wide = of_pairs.pivot(index=keys, columns="metric", values="value").reset_index()
    places = {fault: number for number, fault in enumerate(dict.fromkeys(of_pairs.fault))}
    return rows, wide.sort_values("fault", key=lambda names: names.map(places), kind="stable")

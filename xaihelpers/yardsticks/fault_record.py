"""What a yardstick itself is worth: which planted faults it sees, is blind to, is fooled by (notebook 62).

The rows are those that notebook 62 recorded, of this data set where it was run on it, and else of the drawn
world. Nothing is known of a yardstick without such a row, and the page says so.
"""

import json
from pathlib import Path

import pandas as pd

from xaihelpers.paths import PROJECT, results_home
from xaihelpers.records import read_records
from xaihelpers.scores import validity

SHIPPED, REAL = PROJECT / "data" / "yardsticks", PROJECT / "data" / "real_runs"
FAULTS = {
    "sees": validity.SEES,
    "unclear": validity.UNCLEAR,
    "blind_to": validity.BLIND,
    "fooled_by": validity.FOOLED,
}
KINDS = ("bottlenecks", "judges", "annotators", "maps")  # of what faults are planted in


def read_worth(data: str, folder: str | Path = "") -> pd.DataFrame:
    """What is on record of each yardstick, from the rows of notebook 62.

    data: name of the data set; runs on it are preferred, then others.
    folder: a results folder; by default the results folder for a run with the same parameters as a shipped
        one, the shipped run on drawn birds, and the runs on real ones.
    Returns a row by yardstick: planted, of KINDS, the first that it was tried on; its planted faults, lists
    under the keys of FAULTS; alarms, the harmless changes that it takes for something; random_passes, whether
    it lets a random model pass ("yes", "no", "not tried"); regained, the largest share of the way to honest
    that a search without truth regains, or NaN; proved_on, the data.
    """
    places = [Path(folder)] if str(folder) else [SHIPPED, REAL]
    rows = [read_records(place) for place in places]
    if not str(folder):
        newer = read_records(results_home())
        rows = [newer[newer.run.isin(pd.concat(rows).run)], *rows]
    rows = pd.concat([one.assign(place=place) for place, one in enumerate(rows)], ignore_index=True)
    rows = rows[rows.notebook == "62"]
    tried = rows[(rows.table == "yardsticks") & (rows.metric == "Spearman") & rows.planted.isin(KINDS)]
    tried = tried.assign(other=tried.data != data, kind=tried.planted.map(KINDS.index))
    found = {}
    for yardstick, part in tried.groupby("yardstick", sort=False):
        best = part.sort_values(["kind", "other", "place"], kind="stable").iloc[0]
        of_run = rows[(rows.place == best.place) & (rows.run == best.run)]
        found[yardstick] = _worth(of_run, yardstick, best.planted) | {"proved_on": best.data}
    columns = ["planted", *FAULTS, "alarms", "random_passes", "regained", "proved_on"]
    return pd.DataFrame.from_dict(found, orient="index", columns=columns)


def _worth(rows: pd.DataFrame, yardstick: str, planted: str) -> dict:
    """What one run says of a yardstick on one kind of plant."""
    rows = rows[(rows.yardstick == yardstick) & rows.planted.isin([planted, "nan"])]
    tried = rows[(rows.table == "yardsticks") & (rows.metric == "Spearman")]
    worth = {"planted": planted}
    for name, verdict in FAULTS.items():
        worth[name] = tried.fault[tried.verdict == verdict].tolist()
    changes = rows[rows.table == "false alarms"]
    worth["alarms"] = changes.change[changes.alarm.astype(str).isin(["True", "1.0"])].tolist()
    random = rows.value[(rows.table == "random model") & (rows.planted == planted)]
    told = json.loads(tried.parameters.iloc[0]).get("told", validity.TOLD)
    passes = "yes" if (random < told).any() else "no"
    worth["random_passes"] = passes if len(random) else "not tried"
    worth["regained"] = rows.value[rows.table == "dressed up"].max()
    return worth

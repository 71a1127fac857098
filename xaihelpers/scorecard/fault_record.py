"""What a yardstick itself is worth: which planted faults it sees, is blind to, is fooled by (notebook 62).

The rows are those that notebook 62 recorded, of this data set where it was run on it, and else of the drawn
world. Nothing is known of a yardstick without such a row, and the page says so.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from xaihelpers.paths import PROJECT, results_home
from xaihelpers.records import read_records
from xaihelpers.scores import validity

log = logging.getLogger(__name__)
COLUMNS = ["table", "planted", "yardstick", "fault", "verdict", "change", "alarm", "metric", "value"]
COLUMNS += ["run", "data", "parameters", "place"]
SHIPPED = PROJECT / "data" / "yardsticks"
REAL = PROJECT / "data" / "real_runs"
OF_MAPS = ("CLM", "CoAM overlap", "inside the bird", "deletion", "insertion", "AOPC", "average drop")
OF_ANNOTATORS = ("CRI", "CRI gap", "contradiction rate")
OF_JUDGES = ("judge score", "matrix CH", "matrix WL", "err", "wrong map scored low")
KINDS = dict.fromkeys(OF_MAPS, "maps") | dict.fromkeys(OF_ANNOTATORS, "annotators")
KINDS |= dict.fromkeys(OF_JUDGES, "judges")


class FaultRecord(NamedTuple):
    """A yardstick's verdicts, by the faults of the kind of thing that it is a yardstick of."""

    yardstick: str
    planted: str  # "bottlenecks", "maps", "annotators" or "judges"
    sees: tuple[str, ...]
    blind: tuple[str, ...]
    fooled: tuple[str, ...]
    unclear: tuple[str, ...]
    alarms: tuple[str, ...]  # harmless changes that it takes for something
    random_passes: bool | None  # whether what is random passes; None where that was not tried
    regained: float  # largest share of the way to honest that a search without truth regains, or NaN
    data: str  # that the faults were planted on


def read_fault_records(data: str, folders: Sequence[str | Path] = ()) -> dict[str, FaultRecord]:
    """Fault records by yardstick, from the rows of notebook 62.

    data: name of the data set; runs on it are preferred, then others.
    folders: results folders, the first preferred; by default the results folder for a run with the same
        parameters as a shipped one, the shipped run on drawn birds, and the runs on real ones.
    """
    rows = _rows([Path(folder) for folder in folders] or [SHIPPED, REAL], own=not folders)
    found = {}
    for name, part in rows.groupby("yardstick", sort=False):
        of_kind = part[part.planted.isin([KINDS.get(name, "bottlenecks"), "nan"])]
        if of_kind[of_kind.table == "yardsticks"].empty:
            continue
        runs = of_kind[of_kind.table == "yardsticks"][["place", "run", "data"]].drop_duplicates()
        runs = runs.assign(other=runs.data != data).sort_values(["other", "place"], kind="stable")
        best = runs.iloc[0]
        found[name] = _record(name, of_kind[(of_kind.run == best.run) & (of_kind.place == best.place)])
    return found


def _rows(folders: list[Path], own: bool) -> pd.DataFrame:
    """All rows of notebook 62, with the place of their folder among those asked."""
    tables = []
    for place, folder in enumerate(folders):
        rows = read_records(folder) if folder.is_dir() else pd.DataFrame()
        if not rows.empty:
            rows = rows[rows.notebook == "62"]
            tables.append(rows.assign(place=place).reindex(columns=COLUMNS))
    shipped = {run for rows in tables for run in rows.run}
    if own and results_home().is_dir():  # what was run here since, with the same parameters
        newer = read_records(results_home())
        newer = newer[newer.run.isin(shipped)]
        if not newer.empty:
            tables.append(newer.assign(place=-1).reindex(columns=COLUMNS))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)


def _record(name: str, rows: pd.DataFrame) -> FaultRecord:
    verdicts = rows[(rows.table == "yardsticks") & (rows.metric == "Spearman")]

    def faults(of: str) -> tuple[str, ...]:
        return tuple(verdicts.fault[verdicts.verdict == of])

    alarms = rows[(rows.table == "false alarms") & rows.alarm.astype(str).isin(["True", "1.0"])]
    random = rows[(rows.table == "random model") & (rows.planted == verdicts.planted.iloc[0])]
    told = json.loads(verdicts.parameters.iloc[0]).get("told", validity.TOLD)
    regained = rows[rows.table == "dressed up"].value
    return FaultRecord(
        yardstick=name,
        planted=verdicts.planted.iloc[0],
        sees=faults(validity.SEES),
        blind=faults(validity.BLIND),
        fooled=faults(validity.FOOLED),
        unclear=faults(validity.UNCLEAR),
        alarms=tuple(alarms.change),
        random_passes=None if random.empty else bool((random.value < told).any()),
        regained=float(regained.max()) if len(regained) else float("nan"),
        data=verdicts.data.iloc[0],
    )


def fault_coverage(yardsticks: Iterable[str], records: dict[str, FaultRecord]) -> pd.DataFrame:
    """For each planted fault, which of the yardsticks see it and which it fools.

    Returns the columns planted, fault, seen by, fooled; a fault stands there if any yardstick on record, of
    these or not, was tried on it.
    """
    tried, here = {}, set(yardsticks)
    for record in records.values():
        for fault in (*record.sees, *record.blind, *record.fooled, *record.unclear):
            sees, fooled = tried.setdefault((record.planted, fault), ([], []))
            if record.yardstick in here:
                sees += [record.yardstick] if fault in record.sees else []
                fooled += [record.yardstick] if fault in record.fooled else []
    lines = []
    for (planted, fault), (sees, fooled) in tried.items():
        lines.append({"planted": planted, "fault": fault, "seen by": sees, "fooled": fooled})
    return pd.DataFrame(lines, columns=["planted", "fault", "seen by", "fooled"])

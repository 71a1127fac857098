"""The ledger of claims: the column in which a recorded verdict stands, and what an open claim still needs.

"drawn" is a notebook at its defaults, at any seed; "long" is on drawn data as well, by a preset, or kept in
data/long_runs; "real" is on data of a user's own. A run is a dict as of `records.read_runs`.
"""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import yaml

from xaihelpers import claims
from xaihelpers.datasets import DRAWN
from xaihelpers.grids import known_notebooks, parameters_of
from xaihelpers.long_runs import FOLDER as LONG_RUNS
from xaihelpers.parameters import NOT_IDENTITY
from xaihelpers.paths import PROJECT
from xaihelpers.records import drawn_data
from xaihelpers.report import number_text, with_interval
from xaihelpers.scores.intervals import Interval

KINDS = ("paper", "real", "long", "default", "other")  # of runs, in the order in which they count
COLUMNS = ("real", "long", "drawn")  # in the order in which they count, whatever they say
PEOPLE_FILES = ("people", "accepted", "ratings")  # parameters that take what people have said


@cache
def declared() -> dict[str, dict]:
    """The parameters of each notebook with their defaults, as of `grids.parameters_of`."""
    files = known_notebooks(PROJECT / "notebooks")
    return {number: parameters_of(file) for number, file in files.items()}


@cache
def presets(number: str) -> dict[str, dict]:
    """The presets of a notebook by name, without seed and results: those leave it the same experiment."""
    found = {}
    for file in sorted((PROJECT / "notebooks/presets").glob(f"{number}.*.yaml")):
        values = yaml.safe_load(file.read_text()).items()
        left = {name: value for name, value in values if name not in ("seed", *NOT_IDENTITY)}
        found[file.name.split(".")[1]] = left
    return found


def presets_of(run: dict) -> list[str]:
    """The names of the presets whose parameters a run has."""
    given = run["parameters"].items()
    return [name for name, wanted in presets(run["notebook"]).items() if wanted and wanted.items() <= given]


def changed(run: dict) -> dict:
    """The parameters of a run that differ from its notebook's defaults."""
    defaults = {name: one.default for name, one in declared().get(run["notebook"], {}).items()}
    given = {name: value for name, value in run["parameters"].items() if name not in NOT_IDENTITY}
    return {name: value for name, value in given.items() if (name, value) not in defaults.items()}


@cache
def shipped(parameter: str) -> frozenset[str]:
    """What some notebook takes by default for a parameter."""
    defaults = [
        parameters[parameter].default for parameters in declared().values() if parameter in parameters
    ]
    return frozenset(one for default in defaults for one in _as_list(default))


def own_data(run: dict) -> list[str]:
    """A run's data that nobody drew, by what it recorded; none where a shipped generator makes the images."""
    if run["parameters"].get("pipeline") in shipped("pipeline"):
        return []
    given = _as_list(run["parameters"].get("data", []))
    of_run = run["drawn"] if "drawn" in run else drawn_data(given)  # as long as their folders are there
    drawn = {name.lower() for name in (*DRAWN, *shipped("data"), *of_run)}
    return [data for data in given if data.lower() not in drawn]


def kind_of(run: dict) -> str:
    """One of KINDS, by the data and the parameters of a run, never by what it found."""
    own, by_preset = own_data(run), presets_of(run)
    if own and "paper" in by_preset:
        return "paper"
    if own and own == _as_list(run["parameters"]["data"]):
        return "real"
    if by_preset or run["folder"].parent.name == LONG_RUNS.name:
        return "long"
    return "other" if changed(run) else "default"


def column_of(verdict: dict, run: dict) -> str:
    """One of COLUMNS; "" for a run on drawn data with parameters of its own, which has no column.

    A run on real data may also have a verdict on drawn ones: in that verdict their name stands.
    """
    own, words = own_data(run), verdict["data"]
    for name in [*own, *(Path(data).name for data in own)]:
        words = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "", words)
    if own and not any(re.search(rf"\b{world}\b", words) for world in (*DRAWN, *shipped("data"))):
        return "real"
    if kind_of(run) not in ("default", "other"):
        return "long"
    return "drawn" if changed(run).keys() <= {"seed"} else ""


def reason(verdict: dict) -> str:
    """What stands in the way of a verdict, or what an ill-posed one is to be read with; "" for others."""
    outcome = verdict["outcome"]
    if outcome == claims.TOO_FEW and not verdict.get("seeds"):
        wanted = f"about {verdict['needed']}" if verdict["needed"] else "more than there are here"
        return f"worth {verdict['effective']:.0f} independent cases; {wanted} would decide"
    kinds = {claims.INSTRUMENT: ("failed control", "controls"), claims.NO_ROOM: ("no room", "room")}
    if outcome in kinds:
        what, kind = kinds[outcome]
        return f"{what}: {', '.join(name for name, passed in verdict[kind].items() if passed is False)}"
    if outcome == claims.RIVAL:
        name, lead = claims.strongest(_intervals(verdict, "rivals"))
        return f"ahead of {name or 'what knows nothing'} by {with_interval(*lead[:3])}"
    words = {claims.ILL_POSED: ("rewritten", "written"), claims.READING: ("readings", "read")}
    if outcome in words:
        others, how = words[outcome]
        values = [one.value for one in _intervals(verdict, others).values()]
        return f"{how} otherwise {number_text(min(values))} to {number_text(max(values))}"
    if outcome in (claims.OF_MODEL, claims.OF_DATA) or verdict.get("seeds"):
        return "; ".join(verdict["said"])
    more = {claims.PEOPLE: "people rate in notebook 71", claims.MODEL: "no such model was asked"}
    return more.get(outcome, "")


def _intervals(verdict: dict, kind: str) -> dict[str, Interval]:
    """Recorded readings, rivals or writings by name."""
    return {name: Interval(*one) for name, one in (verdict.get(kind) or {}).items() if one is not None}


def settled(found: Sequence[tuple[dict, dict]]) -> tuple[dict, dict]:
    """One verdict for a claim and a column, and the run that shows it.

    found: verdicts with their runs, of one kind, in the order in which runs count. Where they differ, the
    claim depends on the model, or the data; where those of one model and data do, it has too few cases.
    """
    first, run = found[0]
    said = {}
    for verdict, _ in found:
        said.setdefault((verdict["model"], verdict["data"]), set()).add(verdict["outcome"])
    if len(set.union(*said.values())) == 1:
        return first, run
    by_data = {}  # what models say on the same data
    for (_, data), outcomes in said.items():
        by_data.setdefault(data, set()).update(outcomes)
    of_model = len(by_data) == 1 or any(len(outcomes) > 1 for outcomes in by_data.values())
    outcome = claims.OF_MODEL if of_model else claims.OF_DATA
    of_seeds = any(len(outcomes) > 1 for outcomes in said.values())
    lines = [f"{' on '.join(on)}: {' or '.join(sorted(outcomes))}" for on, outcomes in said.items()]
    outcome = claims.TOO_FEW if of_seeds else outcome
    return first | {"outcome": outcome, "said": lines, "seeds": of_seeds, "needed": ""}, run


def command(claim: claims.Claim, runs: Sequence[dict], outcome: str = "") -> str:
    """What brings an open claim further: a first run, people's files, or the paper's size; or nothing, "".

    outcome: of the claim's verdict.
    """
    start, numbers = "python -m xaihelpers.run", claim.notebook.split()
    for number in numbers if outcome == claims.PEOPLE else ():
        files = [name for name in PEOPLE_FILES if declared()[number].get(name) == ("str", "")]
        if files:
            return " ".join([start, number, *(f"-p {name}=FILE" for name in files)])
    if not {run["notebook"] for run in runs} & {*numbers}:
        return f"{start} {numbers[0]}"
    tried = {(run["notebook"], name) for run in runs for name in presets_of(run)}
    for number in numbers:
        if "paper" in presets(number) and (number, "paper") not in tried:
            return f"{start} {number} -f paper"
    return ""


def _as_list(value: str | list[str]) -> list[str]:
    return [one for one in ([value] if isinstance(value, str) else value) if one]

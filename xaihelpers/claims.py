"""The claims of the five papers that a run can bear on, and the one rule by which a run decides them.

A claim is a quantity, a direction and a reference: "above", "below", "within" so much of it, or "not above",
"not below" (data/papers/claims.csv). With e by how much the quantity exceeds the reference in the claimed
direction, [a, b] its 95 % interval, and s the least effect that matters, the interval says

| | above, below | within | not above, not below |
|---|---|---|---|
| holds | a > 0 and e ≥ s | −s ≤ a and b ≤ s | b ≤ s, e towards the side that the words name |
| fails | b < s | b < −s or a > s | a > s |
| too few cases | else | else | else |

"Within" is equivalence: where two things are said to be equal, what is measured is their paired difference.
The verdict is the first of these that is true:

| verdict | where |
|---|---|
| needs people, needs a model | it is about these, or a generator: nobody answered, or what was made here |
| instrument failed | a control failed; the verdict names it |
| no room | here the claim could not hold, or could not fail; the verdict names why |
| not applicable | the quantity or an end of its interval is NaN, or its other writings cannot be had |
| not told from its rival | what knows nothing of it is ahead with its whole interval, and it does not fail |
| ill-posed | the same model, written otherwise, decides otherwise, or fails on the other side |
| depends on the reading | another reading that the paper leaves open is decided otherwise |
| not told from its rival | it would hold, or fail, but what knows nothing of it does as well |
| holds, fails, too few cases | its interval says so |

Each claim says what it is asked: its readings, rivals and controls by name, shared by families of claims. A
verdict that was not asked all of them is refused; None stands for what a run cannot ask. A name may go on
after a colon: "another scorer: aviary_clip". A rival is given as its paired difference in the claimed
direction, which has to lie above 0; of several the strongest counts. Of a claim that something is missed, who
refutes it has rivals, too (`refuters`). "Too few cases" tells how many would do,
in what the interval's outermost level consists of (pairs, classes), where there can be as many.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from xaihelpers.names import made_here
from xaihelpers.paths import PROJECT
from xaihelpers.scores.intervals import Interval

log = logging.getLogger(__name__)
FILE = PROJECT / "data" / "papers" / "claims.csv"
VERSION = 2  # of the rule: recorded verdicts of an earlier one are marked in the ledger
HOLDS, FAILS, TOO_FEW = ("holds", "fails", "too few cases")
ILL_POSED, READING, RIVAL = ("ill-posed", "depends on the reading", "not told from its rival")
INSTRUMENT, NO_ROOM, NOT_APPLICABLE = ("instrument failed", "no room", "not applicable")
PEOPLE, MODEL = ("needs people", "needs a model")
OF_MODEL, OF_DATA = ("depends on the model", "depends on the data")  # of several verdicts: the ledger's
OUTCOMES = (HOLDS, FAILS, ILL_POSED, READING, RIVAL, TOO_FEW, INSTRUMENT, PEOPLE, MODEL, NOT_APPLICABLE)
OUTCOMES += (NO_ROOM, OF_MODEL, OF_DATA)
ASKED = ("readings", "rivals", "controls")
NEED_AN_ANSWER = ("people", "model", "generator")  # what a claim may be about that nobody here can be
# what a paper's own printed numbers say of its claim (`printed_readings.own_table`); or READING
SUPPORTED, CONTRADICTED = ("supported by its own table", "contradicted by its own table")
UNDOCUMENTED, OPEN = ("depends on undocumented code", "cannot be told")
OWN_TABLE = (SUPPORTED, UNDOCUMENTED, CONTRADICTED, OPEN)


@dataclass(frozen=True)
class Claim:
    """One row of the file of claims."""

    id: str
    paper: str
    section: str
    claim: str  # in our words
    quantity: str  # what is measured
    unit: str
    direction: str  # "above", "below", "within", "not above" or "not below"
    reference: float
    smallest: float  # the least effect that matters, or how far an equivalence reaches
    paper_value: float  # NaN where the paper prints none
    notebook: str  # ids, by blanks
    about: str  # "yardstick", "method", "data", "people", "model" or "generator"
    readings: tuple[str, ...]  # names of what it is asked
    rivals: tuple[str, ...]
    controls: tuple[str, ...]

    def require_asked(self, **given: Mapping[str, object]) -> None:
        """Raise ValueError for readings, rivals or controls of the claim that a verdict was not asked."""
        for kind in ASKED:
            asked = {name.split(":")[0] for name in given[kind]}
            lacking = [name for name in getattr(self, kind) if name not in asked]
            if lacking:
                raise ValueError(
                    f"{self.id} was not asked its {kind} {', '.join(lacking)}: give them by these names, and "
                    f"None for what this run cannot ask ({FILE.name})"
                )


@dataclass(frozen=True)
class Verdict:
    """What a run says of a claim. needed: how much of the outermost level would decide it, "72 classes"."""

    outcome: str  # one of OUTCOMES
    needed: str = ""
    failed: tuple[str, ...] = ()  # controls, what leaves no room, or readings that turn it

    def __str__(self) -> str:
        if self.failed:
            return f"{self.outcome} ({', '.join(self.failed)})"
        if self.needed:
            return f"{self.outcome} (about {self.needed} would do)"
        return self.outcome


def load_claims() -> dict[str, Claim]:
    """All claims of data/papers/claims.csv by their id."""
    table = pd.read_csv(FILE, dtype={"section": str, "notebook": str})
    lists = ["readings", "rivals", "controls"]
    table[lists] = table[lists].fillna("").map(lambda text: tuple(filter(None, text.split("; "))))
    return {row["id"]: Claim(**row) for row in table.to_dict("records")}


def needed_of(*answering: str) -> str:
    """What a claim about a model or a generator lacks where these answered: "a model", or nothing, "".

    answering: names of all that answered; one that was made here (`names.made_here`) decides nothing.
    """
    return "" if answering and all(answering) and not any(map(made_here, answering)) else "a model"


def strongest(rivals: Mapping[str, Interval | None]) -> tuple[str, Interval | None]:
    """The rival that a claim leads least, and by how much; "" and None without one."""
    known = {name: lead for name, lead in rivals.items() if lead is not None}

    def least(item: tuple[str, Interval]) -> float:
        return -math.inf if math.isnan(item[1].low) else item[1].low  # what cannot be told leads nobody

    return min(known.items(), key=least, default=("", None))


def decide(
    claim: Claim,
    measured: Interval,
    readings: Mapping[str, Interval | None] | None = None,
    rivals: Mapping[str, Interval | None] | None = None,
    refuters: Mapping[str, Interval | None] | None = None,
    controls: Mapping[str, bool] | None = None,
    rewritten: Mapping[str, Interval] | None = None,
    room: Mapping[str, bool] | None = None,
    needs: str = "",
    level: tuple[str, int, float] = ("", 0, 0),
) -> Verdict:
    """The verdict on a claim by the module's rule.

    measured: the claim's quantity, in its unit.
    readings: the quantity under other readings that the paper leaves open.
    rivals: the paired difference to what knows nothing, in the claimed direction.
    refuters: the paired difference to what knows nothing and misses as little, where the claim is that
        something is missed: it fails only where this lies above 0.
    controls: whether the instrument passed it.
    rewritten: the quantity for the same model in other writings; None of a claim that is not asked them.
    room: whether the claim could hold, and fail, here at all.
    needs: "people" or "a model", where none answered that was not made here.
    level: the interval's outermost one: of what it consists, how many are here, and how many there can be.
    """
    if needs:
        return Verdict(f"needs {needs}")
    for outcome, asked in ((INSTRUMENT, controls), (NO_ROOM, room)):
        failed = tuple(name for name, passed in (asked or {}).items() if passed is not None and not passed)
        if failed:
            return Verdict(outcome, failed=failed)
    writings = [measured, *(rewritten or {}).values()]
    if any(math.isnan(number) for one in writings for number in one[:3]) or rewritten == {}:
        return Verdict(NOT_APPLICABLE)
    outcome = by_interval(claim, measured)
    leads = [lead for lead in (rivals or {}).values() if lead is not None]
    if outcome != FAILS and any(lead.high < 0 for lead in leads):
        return Verdict(RIVAL)
    highest = claim.reference + claim.smallest if claim.direction == "within" else math.inf
    if len({(by_interval(claim, one), one.low > highest) for one in writings}) > 1:
        return Verdict(ILL_POSED)  # an equivalence may fail on either side
    others = {name: by_interval(claim, one) for name, one in (readings or {}).items() if one is not None}
    if {HOLDS, FAILS} <= {outcome, *others.values()}:  # an undecided one contradicts nothing
        turned = FAILS if outcome != FAILS else HOLDS
        return Verdict(READING, failed=tuple(name for name, said in others.items() if said == turned))
    to_beat = leads if outcome == HOLDS else [lead for lead in (refuters or {}).values() if lead is not None]
    if outcome in (HOLDS, FAILS) and not all(lead.low > 0 for lead in to_beat):
        return Verdict(RIVAL)
    unit, here, most = level
    needed = cases_needed(claim, measured, here) if outcome == TOO_FEW else math.inf
    return Verdict(outcome, f"{math.ceil(needed):,} {unit}" if unit and needed <= most else "")


def by_interval(claim: Claim, measured: Interval) -> str:
    """What the interval alone says: HOLDS, FAILS or TOO_FEW."""
    effect, low, high = _in_its_direction(claim, measured)
    matters = claim.smallest
    holds, fails = low > 0 and effect >= matters and high >= low, high < matters
    if claim.direction == "within":
        holds, fails = -matters <= low and high <= matters, high < -matters or low > matters
    elif claim.direction.startswith("not"):
        holds, fails = high <= matters, low > matters
    return HOLDS if holds else FAILS if fails else TOO_FEW


def cases_needed(claim: Claim, measured: Interval, here: int) -> float:
    """How many cases would decide what so many `here` do not, if the effect is as measured; inf if none."""
    effect, low, high = _in_its_direction(claim, measured)
    matters = claim.smallest
    if claim.unit == "%" and measured.value in (0, 100) and claim.reference in (0, 100):
        # none, or all, of n cases: Clopper and Pearson's limit lies within the least effect from here on
        return math.log(0.025) / math.log(1 - matters / 100)
    is_beyond = claim.direction in ("above", "below") and effect >= matters
    to_go = effect if is_beyond else abs(matters - (abs(effect) if claim.direction == "within" else effect))
    return here * (max(high - effect, effect - low) / to_go) ** 2 if to_go else math.inf


def _in_its_direction(claim: Claim, measured: Interval) -> tuple[float, float, float]:
    """Value and interval beyond the reference in the claimed direction."""
    effect, low, high = (number - claim.reference for number in measured[:3])
    return (-effect, -high, -low) if claim.direction in ("below", "not below") else (effect, low, high)


def control_passed(
    name: str, measured: Interval, above: float = -math.inf, below: float = math.inf, unit: str = "points"
) -> bool:
    """Whether the whole interval of a control lies above one level, below another; logs value and interval.

    measured: its quantity, in `unit`. An interval that is not known passes nothing.
    """
    passed = bool(measured.low > above and measured.high < below)
    wanted = [f"above {above:g}"] * (above > -math.inf) + [f"below {below:g}"] * (below < math.inf)
    said = spoken(measured, unit), " and ".join(wanted), "passed" if passed else "failed"
    log.info("Control, %s: %s, wanted %s: %s", name, *said)
    return passed


def spoken(measured: Interval, unit: str) -> str:
    """A quantity as the log says it: the value, its interval where it has one, and the unit."""
    if math.isnan(measured.low):  # all alike, or a single case
        return f"{measured.value:.3g} {unit}, without an interval"
    return f"{measured.value:.3g} [{measured.low:.3g}, {measured.high:.3g}] {unit}"

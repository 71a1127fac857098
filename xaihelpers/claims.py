"""The claims of the five papers that a run can bear on, and the one rule by which a run decides them.

A claim is a quantity, a direction and a reference: "above", "below", or "within" so much of it
(data/papers/claims.csv). With e by how much the quantity exceeds the reference in the claimed direction,
[a, b] its 95 % interval, and s the smallest effect that matters, the interval says

| | above, below | within |
|---|---|---|
| holds | a > 0 and e ≥ s | −s ≤ a and b ≤ s |
| fails | b < s | b < −s or a > s |
| too few cases | else | else |

"Within" is equivalence: where two things are said to be equal, what is measured is their paired difference.
The verdict is the first of these that is true:

| verdict | where |
|---|---|
| needs people, needs a model | the claim is about people, or such a model, and none was asked |
| instrument failed | a control failed; the verdict names it |
| not applicable | the quantity or an end of its interval is NaN |
| ill-posed | the same model, written otherwise, decides otherwise, or fails on the other side |
| depends on the reading | another reading that the paper leaves open decides otherwise |
| not told from its rival | it would hold, but what knows nothing of it does as well |
| holds, fails, too few cases | its interval says so |

Readings decide otherwise where one holds and another fails, or where one does not say what was decided.
A rival is the strongest of those that know nothing, by its paired difference in the claimed direction, which
has to lie above 0. "Too few cases" tells how many would do, only where there can be as many.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from xaihelpers.paths import PROJECT
from xaihelpers.scores.intervals import Interval

log = logging.getLogger(__name__)
FILE = PROJECT / "data" / "papers" / "claims.csv"
HOLDS, FAILS, TOO_FEW = ("holds", "fails", "too few cases")
ILL_POSED, READING, RIVAL = ("ill-posed", "depends on the reading", "not told from its rival")
INSTRUMENT, NOT_APPLICABLE = ("instrument failed", "not applicable")
PEOPLE, MODEL = ("needs people", "needs a model")
OUTCOMES = (HOLDS, FAILS, ILL_POSED, READING, RIVAL, TOO_FEW, INSTRUMENT, PEOPLE, MODEL, NOT_APPLICABLE)
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
    direction: str  # "above", "below" or "within"
    reference: float
    smallest: float  # the smallest effect that matters, or how far "within" reaches
    paper_value: float  # NaN where the paper prints none
    notebook: str  # ids, by blanks


@dataclass(frozen=True)
class Verdict:
    """What a run says of a claim. needed: independent cases that would decide it, where there are as many."""

    outcome: str  # one of OUTCOMES
    needed: int | None = None
    failed: tuple[str, ...] = ()  # controls

    def __str__(self) -> str:
        if self.failed:
            return f"{self.outcome} ({', '.join(self.failed)})"
        if self.needed:
            return f"{self.outcome} (about {self.needed:,} independent ones would do)"
        return self.outcome


def load_claims() -> dict[str, Claim]:
    """All claims of data/papers/claims.csv by their id."""
    table = pd.read_csv(FILE, dtype={"section": str, "notebook": str})
    return {row["id"]: Claim(**row) for row in table.to_dict("records")}


def decide(
    claim: Claim,
    measured: Interval,
    controls: dict[str, bool] | None = None,
    needs: str = "",
    rewritten: Sequence[Interval] = (),
    readings: Sequence[Interval] = (),
    rival: Interval | None = None,
    available: float = 0,
) -> Verdict:
    """The verdict on a claim by the module's rule.

    measured: the claim's quantity, in its unit.
    controls: name of a control -> whether the instrument passed it.
    needs: "people" or "a model", where the claim is about them and none was asked.
    rewritten: the quantity for the same model, written otherwise.
    readings: the quantity under other readings that the paper leaves open.
    rival: the paired difference to the strongest blind rival, in the claimed direction.
    available: how many independent cases there can be.
    """
    if needs:
        return Verdict(f"needs {needs}")
    failed = tuple(name for name, passed in (controls or {}).items() if not passed)
    if failed:
        return Verdict(INSTRUMENT, failed=failed)
    if any(map(math.isnan, measured[:3])):
        return Verdict(NOT_APPLICABLE)
    outcome, needed = by_interval(claim, measured)
    highest = claim.reference + claim.smallest if claim.direction == "within" else math.inf
    said = {(by_interval(claim, one)[0], one.low > highest) for one in (measured, *rewritten)}
    if len(said) > 1:  # an equivalence may fail on either side
        return Verdict(ILL_POSED)
    others = {by_interval(claim, one)[0] for one in readings}
    if {HOLDS, FAILS} <= others or (outcome != TOO_FEW and others - {outcome}):
        return Verdict(READING)
    if outcome == HOLDS and rival is not None and not rival.low > 0:
        return Verdict(RIVAL)
    return Verdict(outcome, math.ceil(needed) if needed <= available else None)


def by_interval(claim: Claim, measured: Interval) -> tuple[str, float]:
    """What the interval alone says: HOLDS, FAILS or TOO_FEW, and how many cases would decide that one.

    They are independent cases, if the effect is as measured; inf where there is nothing left to decide.
    """
    effect, low, high = (number - claim.reference for number in measured[:3])
    if claim.direction == "below":
        effect, low, high = -effect, -high, -low
    matters = claim.smallest
    holds, fails = low > 0 and effect >= matters and high >= low, high < matters
    to_go = effect if effect >= matters else matters - effect
    if claim.direction == "within":
        holds, fails = -matters <= low and high <= matters, high < -matters or low > matters
        to_go = abs(matters - abs(effect))
    if holds or fails or not to_go:
        return HOLDS if holds else FAILS if fails else TOO_FEW, math.inf
    half_width = max(high - effect, effect - low)
    return TOO_FEW, measured.effective * (half_width / to_go) ** 2


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

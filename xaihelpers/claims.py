"""The claims of the five papers that a run can bear on, and the one rule by which a run decides them.

A claim is a quantity, a direction and a reference: "above", "below", or "within" so much of it
(data/papers/claims.csv). With e by how much the quantity exceeds the reference in the claimed direction,
[a, b] its 95 % interval, and s the smallest effect that matters:

| verdict | above, below | within |
|---|---|---|
| instrument blind | a control failed | a control failed |
| holds | a > 0 and e ≥ s | −s ≤ a and b ≤ s |
| fails | b < s | b < −s or a > s |
| cannot be told | else | else |

Before anything is run, the same rule is asked of what a paper itself prints (`own_table`):

| what the paper's own table says | where |
|---|---|
| supported by its own table | *holds*, from the printed numbers alone |
| depends on undocumented code | the same, but a step that the paper leaves open could turn it round |
| contradicted by its own table | *fails* |
| cannot be told | else, and where no number is printed |
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from xaihelpers.paths import PROJECT
from xaihelpers.scores.intervals import Interval

log = logging.getLogger(__name__)
FILE = PROJECT / "data" / "papers" / "claims.csv"
DIRECTIONS = ("above", "below", "within")
HOLDS, FAILS, OPEN, BLIND = OUTCOMES = ("holds", "fails", "cannot be told", "instrument blind")
SUPPORTED, UNDOCUMENTED, CONTRADICTED = (
    "supported by its own table",
    "depends on undocumented code",
    "contradicted by its own table",
)
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
    """What a run says of a claim. needed: independent cases that would decide it, None where unknown."""

    outcome: str
    needed: int | None = None
    failed: tuple[str, ...] = ()  # controls

    def __str__(self) -> str:
        if self.failed:
            return f"{self.outcome} ({', '.join(self.failed)})"
        if self.needed:
            return f"{self.outcome} (about {self.needed:,} independent cases would)"
        return self.outcome


def load_claims(file: str | Path = FILE) -> dict[str, Claim]:
    """All claims by their id.

    Raises ValueError, naming the file and the claim: an id that stands twice, an unknown direction, a
    reference or a smallest effect that is missing or not above 0.
    """
    table = pd.read_csv(file, dtype={"section": str, "notebook": str})
    claims = {}
    for row in table.to_dict("records"):
        claim = Claim(**row)
        wrong = None
        if claim.id in claims:
            wrong = "stands twice"
        elif claim.direction not in DIRECTIONS:
            wrong = f"has the direction {claim.direction!r}, not one of {', '.join(DIRECTIONS)}"
        elif math.isnan(claim.reference) or not claim.smallest > 0:
            wrong = "needs a reference, and a smallest effect above 0"
        if wrong:
            raise ValueError(f"{file}: the claim {claim.id!r} {wrong}")
        claims[claim.id] = claim
    return claims


def decide(claim: Claim, measured: Interval, controls: dict[str, bool] | None = None) -> Verdict:
    """The verdict on a claim by the module's rule.

    measured: the claim's quantity, in its unit.
    controls: name of a control -> whether the instrument passed it.
    """
    failed = tuple(name for name, passed in (controls or {}).items() if not passed)
    if failed:
        return Verdict(BLIND, failed=failed)
    if not all(map(math.isfinite, measured[:3])):
        return Verdict(OPEN)
    effect, low, high = (number - claim.reference for number in measured[:3])
    if claim.direction == "below":
        effect, low, high = -effect, -high, -low
    smallest = claim.smallest
    if claim.direction == "within":
        if -smallest <= low and high <= smallest:
            return Verdict(HOLDS)
        if high < -smallest or low > smallest:
            return Verdict(FAILS)
        to_go = abs(smallest - abs(effect))
    else:
        if low > 0 and effect >= smallest:
            return Verdict(HOLDS)
        if high < smallest:
            return Verdict(FAILS)
        to_go = effect if effect >= smallest else smallest - effect
    if to_go == 0:
        return Verdict(OPEN)
    half_width = max(high - effect, effect - low)
    if math.isinf(half_width):
        return Verdict(OPEN)
    return Verdict(OPEN, math.ceil(measured.effective * (half_width / to_go) ** 2))


def own_table(claim: Claim, readings: Sequence[Interval], undocumented: bool = False) -> str:
    """What a paper's own printed numbers say of its claim: one of OWN_TABLE, by the module's rule.

    readings: the claim's quantity, in its unit, with the interval that the printed numbers allow; one for
        each way to read them, all of which must give the same answer; none where no number is printed.
    undocumented: whether a step that the paper leaves open could turn the answer round. It takes back a
        support only: a table that contradicts its text does so whatever made the table.
    """
    outcomes = {decide(claim, reading).outcome for reading in readings}
    if outcomes == {HOLDS}:
        return UNDOCUMENTED if undocumented else SUPPORTED
    return CONTRADICTED if outcomes == {FAILS} else OPEN


def control_passed(
    name: str, measured: Interval, above: float = -math.inf, below: float = math.inf, unit: str = "points"
) -> bool:
    """Whether the whole interval of a control lies above one level, below another; logs value and interval.

    name: of the control. measured: its quantity, in `unit`. An interval that is not known passes nothing.
    """
    passed = measured.low > above and measured.high < below
    levels = []
    if above > -math.inf:
        levels.append(f"above {above:g}")
    if below < math.inf:
        levels.append(f"below {below:g}")
    wanted = " and ".join(levels)
    log.info("Control, %s: %s, wanted %s: %s", name, spoken(measured, unit), wanted, _outcome(passed))
    return bool(passed)


def control_agrees(name: str, claim: Claim, measured: Interval, other: Interval) -> bool:
    """Whether the same quantity, measured otherwise, decides a claim as it was decided; logs it.

    Where the claim is not decided at all there is nothing to agree with, and the control passes.
    """
    decided, again = decide(claim, measured), decide(claim, other)
    passed = decided.outcome in (OPEN, again.outcome)
    log.info("Control, %s: %s, %s: %s", name, spoken(other, claim.unit), again, _outcome(passed))
    return passed


def spoken(measured: Interval, unit: str) -> str:
    """A quantity as the log says it: the value, its interval where it has one, and the unit."""
    if math.isnan(measured.low):  # all alike, or a single case
        return f"{measured.value:.3g} {unit}, without an interval"
    return f"{measured.value:.3g} [{measured.low:.3g}, {measured.high:.3g}] {unit}"


def _outcome(passed: bool) -> str:
    return "passed" if passed else "failed"

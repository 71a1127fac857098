"""The scorecard of one model: every reading that the evidence allows, and what each yardstick is worth."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from xaihelpers.scorecard.evidence import Evidence
from xaihelpers.scorecard.reading import Reading, verdict
from xaihelpers.scorecard.worth import FAULTS, read_worth
from xaihelpers.scorecard.yardsticks import YARDSTICKS, read
from xaihelpers.scores.intervals import Interval

NOT_POSSIBLE = "not possible"
SAYS = {"seen by": "sees", "fooled": "fooled_by"}


@dataclass(eq=False)
class Scorecard:
    """One model's page."""

    evidence: Evidence
    readings: dict[str, Reading]  # by yardstick, in the order of the list
    missing: dict[str, tuple[str, str]]  # yardstick -> why it is not possible, and what to give
    worth: pd.DataFrame  # as `read_worth`

    def reading(self, yardstick: str) -> Reading:
        """One reading by its yardstick. Raises KeyError, saying why, where there is none."""
        if yardstick not in self.readings:
            why, give = self.missing.get(yardstick, ("unknown yardstick", "one of the list"))
            raise KeyError(f"{self.evidence.name} has no {yardstick}: {why}; give {give}")
        return self.readings[yardstick]

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each yardstick, what is not possible last, else in the order of truth needed and papers.

        Columns: model, data, truth, paper, yardstick, unit, good ("low" or "high"), value, low, high, cases,
        effective, blind (what knows nothing), blind_value, lead, lead_low, lead_high, verdict, sighted, why,
        give, and those of `read_worth` as texts.
        """
        lines = []
        for yardstick, one in self.readings.items():
            lead, (blind, blind_value) = one.lead(), one.hardest()
            line = {"yardstick": yardstick} | one.value()._asdict()
            line |= {"blind": blind, "blind_value": blind_value, "sighted": one.sighted}
            line |= {"lead": lead.value, "lead_low": lead.low, "lead_high": lead.high}
            lines.append(line | {"verdict": verdict(lead), "why": "", "give": ""})
        for yardstick, (why, give) in self.missing.items():
            lines.append({"yardstick": yardstick, "verdict": NOT_POSSIBLE, "why": why, "give": give})
        worth = self.worth.drop(columns="planted")
        for column in (*FAULTS, "alarms"):
            worth[column] = worth[column].map(", ".join)
        about = YARDSTICKS.set_index("yardstick")[["truth", "paper", "unit", "good"]]
        table = pd.DataFrame(lines).join(about, on="yardstick").join(worth, on="yardstick")
        table = table.fillna(dict.fromkeys(worth.columns.drop("regained"), ""))
        return table.assign(model=self.evidence.name, data=self.evidence.ground.world.name)

    @cached_property
    def coverage(self) -> pd.DataFrame:
        """For each planted fault, which of this page's readings would see it, and which it would fool.

        Returns the columns planted, fault, seen by, fooled (lists); a fault stands there if any yardstick on
        record, of these or not, was tried on it.
        """
        tried = self.worth.reset_index(names="yardstick")
        tried = tried.melt(["yardstick", "planted"], [*FAULTS], "says", "fault").explode("fault").dropna()
        lines = []
        for (planted, fault), part in tried.groupby(["planted", "fault"], sort=False):
            here = part[part.yardstick.isin(self.readings)]
            lists = {name: here.yardstick[here.says == says].tolist() for name, says in SAYS.items()}
            lines.append({"planted": planted, "fault": fault, **lists})
        return pd.DataFrame(lines, columns=["planted", "fault", *SAYS])


def score(evidence: Evidence, worth: pd.DataFrame | None = None) -> Scorecard:
    """The scorecard of one model.

    worth: of `read_worth`; None reads that of the data set.
    """
    worth = read_worth(evidence.ground.world.name) if worth is None else worth
    readings, missing = read(evidence)
    return Scorecard(evidence, {one.yardstick: one for one in readings}, missing, worth)


def leads_over(card: Scorecard, other: Scorecard) -> dict[str, Interval]:
    """By how much one model does better than another, paired, by each yardstick that both have.

    Raises ValueError as `Reading.over` does.
    """
    both = [yardstick for yardstick in card.readings if yardstick in other.readings]
    return {yardstick: card.readings[yardstick].over(other.readings[yardstick]) for yardstick in both}

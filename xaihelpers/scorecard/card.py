"""The scorecard of one model: every reading that the evidence allows, and what each yardstick is worth."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from xaihelpers.scorecard.evidence import Evidence
from xaihelpers.scorecard.fault_record import FaultRecord, fault_coverage, read_fault_records
from xaihelpers.scorecard.picture_yardsticks import map_readings, perturbation_readings, probe_readings
from xaihelpers.scorecard.reading import TRUTHS, Missing, Reading, verdict
from xaihelpers.scorecard.value_yardsticks import (
    alignment_readings,
    decision_readings,
    purity_readings,
    sufficiency_readings,
    truth_readings,
)
from xaihelpers.scorecard.word_yardsticks import chain_readings, judgement_readings, text_readings
from xaihelpers.scores.intervals import Interval

READERS = (
    alignment_readings,
    map_readings,
    text_readings,
    chain_readings,
    perturbation_readings,
    judgement_readings,
    probe_readings,
    truth_readings,
    purity_readings,
    sufficiency_readings,
    decision_readings,
)
PAPERS = ("alignment", "conceptscore", "fse", "autoxplain", "sub", "literature", "control")


@dataclass(eq=False)
class Scorecard:
    """One model's page."""

    model: str
    data: str
    kind: str  # what truth the data have, one of `reading.TRUTHS`
    n_images: int
    readings: list[Reading]
    missing: list[Missing]
    records: dict[str, FaultRecord]
    notes: list[str]

    def reading(self, yardstick: str) -> Reading:
        """One reading by its yardstick. Raises KeyError, saying why, where there is none."""
        for one in self.readings:
            if one.yardstick == yardstick:
                return one
        reasons = [f"{one.why}; give {one.give}" for one in self.missing if yardstick in one.yardsticks]
        raise KeyError(f"{self.model} has no {yardstick}: {'; '.join(reasons) or 'unknown yardstick'}")

    def table(self) -> pd.DataFrame:
        """A row for each yardstick, possible or not, in the order of truth needed and of papers.

        Columns: model, data, truth, paper, yardstick, unit, low_is_good, value, low, high, cases, effective,
        blind (what knows nothing), blind_value, lead, lead_low, lead_high, verdict, sighted, sees, blind_to,
        fooled_by, unclear, alarms, random_passes, regained, proved_on, why, give.
        """
        return self._table.copy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        lines = [self._line(one) for one in self._ordered()]
        for one in self.missing:
            for yardstick in one.yardsticks:
                about = {"yardstick": yardstick, "verdict": "not possible", "why": one.why, "give": one.give}
                lines.append(self._about() | about | _worth(self.records.get(yardstick)))
        return pd.DataFrame(lines)

    def _ordered(self) -> list[Reading]:
        return sorted(self.readings, key=lambda one: (TRUTHS.index(one.truth), PAPERS.index(one.paper)))

    def _about(self) -> dict:
        return {"model": self.model, "data": self.data}

    def _line(self, one: Reading) -> dict:
        value, lead = one.value(), one.lead()
        blind, blind_value = one.hardest()
        about = {"truth": one.truth, "paper": one.paper, "yardstick": one.yardstick, "unit": one.unit}
        about |= {"low_is_good": one.low_is_good, **value._asdict()}
        about |= {"blind": blind, "blind_value": blind_value}
        about |= {"lead": lead.value, "lead_low": lead.low, "lead_high": lead.high}
        about |= {"verdict": verdict(lead), "sighted": one.sighted}
        return self._about() | about | _worth(self.records.get(one.yardstick)) | {"why": "", "give": ""}

    def coverage(self) -> pd.DataFrame:
        """For each planted fault, which of this page's readings would see it, and which it would fool."""
        return fault_coverage([one.yardstick for one in self.readings], self.records)


def _worth(record: FaultRecord | None) -> dict:
    """What is on record of a yardstick, as texts."""
    if record is None:
        names = ("sees", "blind_to", "fooled_by", "unclear", "alarms")
        return dict.fromkeys(names, "") | {"random_passes": "", "regained": float("nan"), "proved_on": ""}
    passes = {None: "not tried", True: "yes", False: "no"}[record.random_passes]
    return {
        "sees": ", ".join(record.sees),
        "blind_to": ", ".join(record.blind),
        "fooled_by": ", ".join(record.fooled),
        "unclear": ", ".join(record.unclear),
        "alarms": ", ".join(record.alarms),
        "random_passes": passes,
        "regained": record.regained,
        "proved_on": record.data,
    }


def score(evidence: Evidence, records: dict[str, FaultRecord] | None = None) -> Scorecard:
    """The scorecard of one model.

    records: of `read_fault_records`; None reads those of the data set.
    """
    world = evidence.ground.world
    records = read_fault_records(world.name) if records is None else records
    readings, missing = [], []
    for read in READERS:
        for found in read(evidence):
            (missing if isinstance(found, Missing) else readings).append(found)
    return Scorecard(
        evidence.name,
        world.name,
        evidence.ground.kind,
        len(evidence.rows),
        readings,
        missing,
        records,
        list(evidence.notes),
    )


def leads_over(card: Scorecard, other: Scorecard) -> dict[str, Interval]:
    """By how much one model does better than another, paired, by each yardstick that both have.

    Raises ValueError as `Reading.over` does.
    """
    found = {}
    for one in card.readings:
        for two in other.readings:
            if two.yardstick == one.yardstick:
                found[one.yardstick] = one.over(two)
    return found

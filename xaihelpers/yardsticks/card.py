"""The scorecard of one model: every reading that the evidence allows, and what each yardstick is worth.

`reading` lists all yardsticks; needs.csv says why a need cannot be met, and what to give.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from xaihelpers.fastslow import CANDIDATES
from xaihelpers.yardsticks import of_pictures, of_values, of_words
from xaihelpers.yardsticks.evidence import DRAWN, Evidence
from xaihelpers.yardsticks.fault_record import read_worth
from xaihelpers.yardsticks.reading import ABOVE, YARDSTICKS, Reading, verdict

NOT_POSSIBLE = "not possible"
FUNCTIONS = vars(of_pictures) | vars(of_values) | vars(of_words)
NEEDS = pd.read_csv(Path(__file__).with_name("needs.csv"), index_col="need")
SAYS = ["sees", "passes"]  # columns of `read_worth`
AT_CHANCE = {
    "accuracy": "It is not shown that the classes are right more often than something blind would be",
    "concept AUC": "It is not shown that the concepts' values go with their labels",
}


@dataclass(eq=False)
class Scorecard:
    """One model's page."""

    evidence: Evidence
    readings: dict[str, Reading]  # by yardstick, in the order of the list
    missing: dict[str, tuple[str, str]]  # yardstick -> why it is not possible, and what to give
    worth: pd.DataFrame  # as `read_worth`

    @property
    def title(self) -> str:
        """Whose page it is, of what."""
        e = self.evidence
        return f"{e.name} on {e.ground.world.name}: {len(e.rows)} test images, {e.ground.kind} data"

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each yardstick, what is not possible last, else in the order of truth needed and papers.

        Columns: model, data, truth, paper, yardstick, unit, good ("low" or "high"), value, low, high, cases,
        effective, blind (what knows nothing), blind_value, lead, lead_low, lead_high, verdict, why, give,
        sees, passes (planted faults on record).
        """
        lines = []
        for yardstick, one in self.readings.items():
            lead, (blind, blind_value) = one.lead(), one.hardest()
            line = {"yardstick": yardstick} | one.value()._asdict()
            line |= {"blind": blind, "blind_value": blind_value}
            line |= {"lead": lead.value, "lead_low": lead.low, "lead_high": lead.high}
            lines.append(line | {"verdict": verdict(lead), "why": "", "give": ""})
        for yardstick, (why, give) in self.missing.items():
            lines.append({"yardstick": yardstick, "verdict": NOT_POSSIBLE, "why": why, "give": give})
        about = YARDSTICKS.set_index("yardstick")[["truth", "paper", "unit", "good"]]
        table = pd.DataFrame(lines).join(about, on="yardstick")
        table = table.join(self.worth[SAYS].map("; ".join), on="yardstick").fillna(dict.fromkeys(SAYS, ""))
        return table.assign(model=self.evidence.name, data=self.evidence.ground.world.name)

    @property
    def possible(self) -> pd.DataFrame:
        """The rows of the table that have a reading."""
        return self.table[self.table.verdict != NOT_POSSIBLE]

    @property
    def not_possible(self) -> list[str]:
        """What is missing: a line for each reason, with its yardsticks, and what to give."""
        missing = self.table[self.table.verdict == NOT_POSSIBLE].groupby(["why", "give"], sort=False)
        return [f"{', '.join(part.yardstick)}: {why}; give {give}" for (why, give), part in missing]

    @cached_property
    def coverage(self) -> pd.DataFrame:
        """For each planted fault on record, which readings of this page change with it, and which praise it.

        Returns the columns planted, fault, seen by, praised by (lists).
        """
        tried = self.worth.reset_index(names="yardstick")
        tried = tried.melt(["planted", "yardstick"], SAYS, "says", "fault").explode("fault").dropna()
        lines = []
        for (planted, fault), part in tried.groupby(["planted", "fault"], sort=False):
            here = part[part.yardstick.isin(self.readings)]
            lines.append([planted, fault, *(here.yardstick[here.says == one].tolist() for one in SAYS)])
        return pd.DataFrame(lines, columns=["planted", "fault", "seen by", "praised by"])

    @property
    def warnings(self) -> list[str]:
        """What makes all other lines void: a model at chance, as with rows under the wrong ids."""
        found = []
        for yardstick, meaning in AT_CHANCE.items():
            one = self.readings.get(yardstick)
            if one is not None and verdict(one.lead()) != ABOVE:
                numbers = f"{one.value().value:.3g} {one.about.unit}".strip()
                numbers += f", blind {one.hardest()[1]:.3g}"
                found.append(
                    f"{meaning} ({numbers}): are rows under the wrong ids, or names in another order?"
                )
        return found


def score(
    e: Evidence, worth: pd.DataFrame | None = None, without: Collection[str] = frozenset()
) -> Scorecard:
    """The scorecard of one model: the readings that its evidence allows, and why there are no others.

    worth: of `read_worth`; None reads that of the data set.
    without: yardsticks that are left out, which saves time where all of a function are.
    """
    worth = read_worth(e.ground.world.name) if worth is None else worth
    met, missing, asked = _met_needs(e), {}, {}
    for about in YARDSTICKS.itertuples():
        unmet = [need for need in about.needs.split() if not met[need]]
        if unmet:
            why, give = NEEDS.loc[unmet[0]]
            missing[about.yardstick] = why.format(data=e.ground.world.name), give
        else:
            asked.setdefault(about.function, []).append(about.yardstick)
    found = {}
    for function, yardsticks in sorted(asked.items()):
        if not set(yardsticks) <= set(without):
            found |= dict(FUNCTIONS[function](e, yardsticks))
    readings = {}
    for about in YARDSTICKS.itertuples():
        if about.yardstick not in {*missing, *without}:
            readings[about.yardstick] = found[about.yardstick].of(about)
    return Scorecard(e, readings, missing, worth)


def _met_needs(e: Evidence) -> dict[str, bool]:
    """Which of the NEEDS the evidence meets."""
    world, probes, outputs = e.ground.world, e.ground.probes, e.outputs
    has_labels, linear = bool(e.attributes), outputs.class_weights is not None
    of_images, has_parts = world.attribute_level == "image", has_labels and world.parts is not None
    return {
        "labels": has_labels,
        "classes": e.labels is not None,
        "image-labels": of_images,
        "weights": linear,
        "thresholds": outputs.thresholds is not None,
        "maps": outputs.concept_maps is not None,
        "parts": has_parts,
        "part-concepts": has_parts and of_pictures.on_part(e, world.parts).any(),
        "masks": world.mask_names is not None,
        "drawn": e.ground.kind == DRAWN,
        "probed": e.probed is not None,
        "pairs": has_labels and probes is not None and len(of_pictures.known_pairs(e)[0]) > 1,
        "covered": probes is not None and len(probes.rows("whole")) > 1,
        "concepts-only": linear and of_values.unexplained(e) <= 1e-3,
        "training": e.training is not None,
        "network": e.network_accuracy is not None,
        "sub-concepts": not set(of_values.SUB_ATTRIBUTES).isdisjoint(e.attributes),
        "candidates": len(outputs.classes) >= CANDIDATES,
        "reader": not of_images or world.train.any(),
        "texts": len(of_words.text_rows(e)) > 1,
        "scorer": e.ground.scorer is not None,
        "judgements": e.judgements is not None,
        "control": e.judgements is not None and "control" in e.judgements,
    }

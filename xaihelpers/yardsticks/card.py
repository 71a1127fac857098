"""The scorecard of one model: every reading that the evidence allows, and what each yardstick is worth.

`reading` lists all yardsticks; needs.csv says why a need cannot be met, and what to give.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, nan
from pathlib import Path

import pandas as pd

from xaihelpers.fastslow import CANDIDATES
from xaihelpers.scores.exchange import Ladder
from xaihelpers.yardsticks import of_pictures, of_values, of_words
from xaihelpers.yardsticks.evidence import DRAWN, Evidence
from xaihelpers.yardsticks.fault_record import read_worth
from xaihelpers.yardsticks.reading import ABOVE, YARDSTICKS, Reading, verdict

NOT_POSSIBLE = "not possible"
FUNCTIONS = vars(of_pictures) | vars(of_values) | vars(of_words)
NEEDS = pd.read_csv(Path(__file__).with_name("needs.csv"), index_col="need")
SAYS = ["sees", "passes"]  # columns of `read_worth`
PICTURE, CLASS, NEITHER = "the picture", "the class", "neither"  # what a line's explanations are about
BLIND = "no look can be seen by this line"
WITHIN = "concept AUC within a class"
CARRIED = 0.9  # share of the decisions below which concepts do not make them
COLUMNS = (
    "yardstick value low high cases effective blind blind_value lead lead_low lead_high verdict why give"
)
COLUMNS = f"{COLUMNS} about of_class picture soft ceiling look look_low look_high left_out".split()
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
        """A row for each yardstick, in the order of the list, what is not possible last.

        Columns: COLUMNS, where blind is what knows nothing and those from `about` to `left_out` are of
        `_rungs`; model, data, truth, paper, measures, unit, good ("low" or "high"), sees, passes (planted
        faults on record).
        """
        lines = []
        for yardstick, one in self.readings.items():
            lead, (blind, blind_value) = one.lead(), one.hardest()
            line = {"yardstick": yardstick} | one.value()._asdict()
            line |= {"blind": blind, "blind_value": blind_value}
            line |= {"lead": lead.value, "lead_low": lead.low, "lead_high": lead.high}
            rungs = _rungs(one.about, self.ladders.get(yardstick))
            lines.append(line | {"verdict": verdict(lead), "why": "", "give": ""} | rungs)
        for yardstick, (why, give) in self.missing.items():
            lines.append({"yardstick": yardstick, "verdict": NOT_POSSIBLE, "why": why, "give": give})
        about = YARDSTICKS.set_index("yardstick")[["truth", "paper", "measures", "unit", "good"]]
        table = pd.DataFrame(lines, columns=COLUMNS).join(about, on="yardstick")
        table = table.join(self.worth[SAYS].map("; ".join), on="yardstick").fillna(dict.fromkeys(SAYS, ""))
        return table.assign(model=self.evidence.name, data=self.evidence.ground.world.name)

    @cached_property
    def ladders(self) -> dict[str, Ladder]:
        """The exchange among classmates by the yardsticks that have one."""
        made = {name: one.ladder() for name, one in self.readings.items() if one.ladder}
        return {name: ladder for name, ladder in made.items() if ladder}

    @property
    def possible(self) -> pd.DataFrame:
        """The rows of the table that have a reading."""
        return self.table[self.table.verdict != NOT_POSSIBLE]

    @property
    def not_possible(self) -> list[str]:
        """What is missing: a line for each reason, with its yardsticks, and what to give."""
        missing = self.table[self.table.verdict == NOT_POSSIBLE].groupby(["why", "give"], sort=False)
        return [f"{', '.join(part.yardstick)}: {why}; give {give}" for (why, give), part in missing]

    @property
    def untold(self) -> list[str]:
        """Planted faults on record that none of these lines sees."""
        tried, seen = [], set()
        for yardstick, sees, passes in self.worth[SAYS].itertuples():
            tried += [*sees, *passes]
            seen |= set(sees) if yardstick in self.readings else set()
        return [fault for fault in dict.fromkeys(tried) if fault not in seen]

    @cached_property
    def head(self) -> list[str]:
        """What a reader has to know before any line: how many there are, of what they speak, who decides."""
        lines, found = self.possible, []
        looks = lines[lines.about.isin([PICTURE, CLASS, NEITHER])]
        maps = looks[looks.soft.isna()]  # of which class scores say nothing
        statements = looks.drop(maps.index)
        if "accuracy" in self.readings:
            found.append(f"accuracy {self.readings['accuracy'].value().value:.1f} %")
        found.append(f"{(lines.verdict == ABOVE).sum()} of {len(lines)} lines above what knows nothing")
        for some, beyond in ((statements, " beyond the class scores"), (maps, " by their maps")):
            if len(some):
                told = f"{(some.about == PICTURE).sum()} of {len(some)}"
                found.append(f"{told} tell a picture from a classmate's{beyond}")
        found, said = ["; ".join(found)], []
        for row in looks.itertuples():
            said.append(f"{row.yardstick} {row.look:.2f} [{row.look_low:.2f}, {row.look_high:.2f}]")
        if said:
            found.append(f"look (1: what the truth gains by looking at the picture): {'; '.join(said)}")
        if len(statements) and not (statements.about == PICTURE).any():
            found.append("NOTHING OF THE PICTURE is stated: who recites the class gets such a page, too")
        if not said:
            reasons = dict.fromkeys(ladder.refused or BLIND for ladder in self.ladders.values())
            found += [f"class or picture: not applicable, {why}" for why in reasons]
        shares = [f"by {who} concepts {100 * share:.0f} %" for who, share in self.carried.items()]
        if shares:
            found.append(f"the decision among images of a class is carried {', '.join(shares)}")
        return found

    @cached_property
    def carried(self) -> dict[str, float]:
        """Share of the decision that all shown concepts, and that the labelled ones carry (`carried`)."""
        e = self.evidence
        if e.outputs.class_weights is None:
            return {}
        found = {"all shown": range(len(e.outputs.concepts))}
        found |= {"the labelled": e.columns} if e.columns else {}
        shares = {who: of_values.carried(e, some) for who, some in found.items()}
        return {who: share for who, share in shares.items() if isfinite(share)}

    @cached_property
    def warnings(self) -> list[str]:
        """What makes other lines void: a model at chance, rows of other images, other reasons."""
        found = list(self.evidence.contradictions)
        verdicts = {name: verdict(one.lead()) for name, one in self.readings.items()}
        for yardstick, meaning in AT_CHANCE.items():
            if verdicts.get(yardstick, ABOVE) != ABOVE:
                one = self.readings[yardstick]
                numbers = f"{one.value().value:.3g} {one.about.unit}".strip()
                numbers += f", blind {one.hardest()[1]:.3g}"
                found.append(
                    f"{meaning} ({numbers}): are rows under the wrong ids, or names in another order?"
                )
        order = self.readings[WITHIN].value().value if WITHIN in self.readings else nan
        if isfinite(order) and verdicts[WITHIN] != ABOVE == verdicts["concept AUC"]:
            found.append(
                "Concepts go with the class, and among images of one class and decision not with the image "
                f"({order:.2f}, where .5 is no order): it recites, or rows are under the ids of classmates"
            )
        for who, share in self.carried.items():
            if share < CARRIED:
                found.append(
                    f"Among images of a class {who} concepts carry {100 * share:.0f} % of the decision: it "
                    "is made beside them, and no line on concepts speaks of that"
                )
        return found


def _rungs(about: tuple, ladder: Ladder | None) -> dict:
    """What a line says of class and picture.

    Columns: about (PICTURE, CLASS, NEITHER, BLIND, or why it is not asked), picture, of_class, soft, ceiling,
    in the line's unit, look with look_low and look_high, and left_out (images, in words).
    """
    scale = 100 if about.unit == "%" else 1
    if ladder is None or ladder.refused:
        return {
            "about": ladder.refused if ladder else about.no_ladder or "there are no classes, or no labels"
        }
    parts = {"picture": ladder.own.picture, "of_class": ladder.own.of_class}
    parts |= {"soft": ladder.soft.picture} if ladder.soft else {}
    parts |= {"ceiling": ladder.truth.picture} if ladder.truth else {}
    found = {name: scale * float(part.nanmean()) for name, part in parts.items()}
    found["left_out"] = ladder.drawn.left_out
    if not ladder.can_see:
        return found | {"about": BLIND}
    ahead, look = ladder.ahead, ladder.look
    found |= {"look": look.value, "look_low": look.low, "look_high": look.high}
    return found | {"about": PICTURE if ahead.low > 0 else CLASS if ladder.of_class.low > 0 else NEITHER}


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
        "concepts-only": linear and of_values.carried(e, range(len(outputs.concepts))) >= 1 - 1e-3,
        "candidates": len(outputs.classes) >= CANDIDATES,
        "reader": not of_images or world.train.any(),
        "texts": len(of_words.text_rows(e)) > 1,
        "scorer": e.ground.scorer is not None,
        "judgements": e.judgements is not None,
        "control": e.judgements is not None and "control" in e.judgements,
    }

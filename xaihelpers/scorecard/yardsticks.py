"""All yardsticks of the scorecard, in the order of its lines (yardsticks.csv), and what each one needs."""

from pathlib import Path

import pandas as pd

from xaihelpers.fastslow import CANDIDATES
from xaihelpers.scorecard import picture_yardsticks as pictures
from xaihelpers.scorecard import value_yardsticks as values
from xaihelpers.scorecard import word_yardsticks as words
from xaihelpers.scorecard.evidence import Evidence
from xaihelpers.scorecard.reading import DRAWN, Reading, reading

FUNCTIONS = vars(pictures) | vars(values) | vars(words)
HERE = Path(__file__).parent
# yardstick, paper (or "literature", "control"), truth that it asks for, unit, bounds, whether high or low is
# good, what knows all gets, the function that gives its cases, and its needs
YARDSTICKS = pd.read_csv(HERE / "yardsticks.csv").fillna({"unit": ""})
NEEDS = pd.read_csv(HERE / "needs.csv", index_col="need")  # why it cannot be met, and what to give


def read(e: Evidence) -> tuple[list[Reading], dict[str, tuple[str, str]]]:
    """The readings that the evidence allows, and of the other yardsticks why not and what to give."""
    met = met_needs(e)
    missing = {}
    for about in YARDSTICKS.itertuples():
        unmet = [need for need in about.needs.split() if not met[need]]
        if unmet:
            why, give = NEEDS.loc[unmet[0]]
            missing[about.yardstick] = why.format(data=e.ground.world.name), give
    possible = YARDSTICKS[~YARDSTICKS.yardstick.isin(missing)]
    found = {}
    for function, part in possible.groupby("function"):
        found |= FUNCTIONS[function](e, part.yardstick.tolist())
    return [reading(about, found[about.yardstick]) for about in possible.itertuples()], missing


def met_needs(e: Evidence) -> dict[str, bool]:
    """Which of the NEEDS the evidence meets."""
    world, probes, outputs = e.ground.world, e.ground.probes, e.outputs
    by_class, has_labels = e.ground.labels == "class", bool(e.attributes)
    has_parts, linear = has_labels and world.parts is not None, outputs.class_weights is not None
    return {
        "labels": has_labels,
        "classes": e.labels is not None,
        "image-labels": not by_class,
        "weights": linear,
        "thresholds": outputs.thresholds is not None,
        "maps": outputs.concept_maps is not None,
        "parts": has_parts,
        "part-concepts": has_parts and pictures.on_part(e, world.parts).any(),
        "masks": world.mask_names is not None,
        "ask": bool(e.file),
        "drawn": e.ground.kind == DRAWN,
        "probed": e.probed is not None,
        "pairs": has_labels and probes is not None and len(pictures.known_pairs(e)[0]) > 1,
        "covered": probes is not None and len(probes.rows("whole")) > 1,
        "concepts-only": linear and values.unexplained(e) <= 1e-3,
        "training": e.training is not None,
        "network": e.network_accuracy is not None,
        "sub-concepts": bool(values.sub_attributes(e)),
        "candidates": len(outputs.classes) >= CANDIDATES,
        "reader": by_class or world.train.any(),
        "texts": len(words.text_rows(e)) > 1,
        "scorer": e.ground.scorer is not None,
        "judgements": e.judgements is not None,
        "control": e.judgements is not None and "control" in e.judgements,
    }

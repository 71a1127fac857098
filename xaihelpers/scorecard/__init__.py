"""The scorecard: one page for any model, from its outputs and whatever else is given.

    ground = scorecard.ground("aviary")
    card = scorecard.score(scorecard.gather("outputs.safetensors", ground))
    scorecard.write_card([card], "folder")

`python -m xaihelpers.scorecard outputs.safetensors --data aviary` does the same.
"""

from xaihelpers.scorecard.card import Scorecard, leads_over, score
from xaihelpers.scorecard.card_page import card_figure, card_page, worries_table, write_card
from xaihelpers.scorecard.evidence import Evidence, gather
from xaihelpers.scorecard.fault_record import FaultRecord, fault_coverage, read_fault_records
from xaihelpers.scorecard.ground import Ground, ground
from xaihelpers.scorecard.probes import Probes, draw_probes
from xaihelpers.scorecard.reading import (
    ABOVE,
    BELOW,
    DRAWN,
    LABELLED,
    OPEN,
    TRUTHS,
    UNLABELLED,
    VERDICTS,
    Missing,
    Reading,
    pseudo_cases,
    verdict,
)

__all__ = [
    "ABOVE",
    "BELOW",
    "DRAWN",
    "Evidence",
    "FaultRecord",
    "Ground",
    "LABELLED",
    "Missing",
    "OPEN",
    "Probes",
    "Reading",
    "Scorecard",
    "TRUTHS",
    "UNLABELLED",
    "VERDICTS",
    "card_figure",
    "card_page",
    "draw_probes",
    "fault_coverage",
    "gather",
    "ground",
    "leads_over",
    "pseudo_cases",
    "read_fault_records",
    "score",
    "verdict",
    "worries_table",
    "write_card",
]

"""The scorecard: one page for any model, from its outputs and whatever else is given.

    ground = scorecard.ground("aviary")
    card = scorecard.score(scorecard.gather("outputs.safetensors", ground))
    scorecard.write_card([card], "folder")

`python -m xaihelpers.scorecard outputs.safetensors --data aviary` does the same.
"""

from xaihelpers.scorecard.card import NOT_POSSIBLE, Scorecard, leads_over, score
from xaihelpers.scorecard.evidence import Ground, gather, ground
from xaihelpers.scorecard.page import CAPTION, card_figure, write_card
from xaihelpers.scorecard.reading import ABOVE, BELOW, LABELLED, OPEN, UNLABELLED, VERDICTS, verdict
from xaihelpers.yardsticks.fault_record import read_worth

__all__ = [
    "ABOVE",
    "BELOW",
    "CAPTION",
    "Ground",
    "LABELLED",
    "NOT_POSSIBLE",
    "OPEN",
    "Scorecard",
    "UNLABELLED",
    "VERDICTS",
    "card_figure",
    "gather",
    "ground",
    "leads_over",
    "read_worth",
    "score",
    "verdict",
    "write_card",
]

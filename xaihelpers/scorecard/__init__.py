"""The scorecard: one page for any model, from its outputs and whatever else is given.

    ground = scorecard.Ground("aviary")
    card = scorecard.score(scorecard.Evidence("outputs.safetensors", ground))
    scorecard.write_card([card], "folder")

`python -m xaihelpers.scorecard outputs.safetensors --data aviary` does the same.
"""

from xaihelpers.scorecard.card import score
from xaihelpers.scorecard.evidence import Evidence, Ground
from xaihelpers.scorecard.page import (
    CAPTION,
    VERDICTS_CAPTION,
    card_figure,
    printed,
    verdicts_figure,
    write_card,
)
from xaihelpers.scorecard.reading import ABOVE, BELOW, OPEN, RANKS, verdict

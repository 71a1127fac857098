"""Things to touch: boards of controls and a picture, each of the notebook's own arrays and tables."""

from xaihelpers.widgets.edited_explanation import explanation_board
from xaihelpers.widgets.fault_readings import fault_board
from xaihelpers.widgets.masked_picture import mask_board
from xaihelpers.widgets.pointed_part import part_board
from xaihelpers.widgets.slow_mode import Case, SlowMode
from xaihelpers.widgets.substituted_bird import bird_board

__all__ = [
    "Case",
    "SlowMode",
    "bird_board",
    "explanation_board",
    "fault_board",
    "mask_board",
    "part_board",
]

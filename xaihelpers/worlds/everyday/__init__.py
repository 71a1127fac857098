"""The everyday world: twenty kinds of drawn objects with known colours and parts, the easy contrast."""

from xaihelpers.worlds.everyday.everyday_files import RENDERER_VERSION, ensure
from xaihelpers.worlds.everyday.thing_renderer import (
    ATTRIBUTES,
    GROUPS,
    Thing,
    draw,
    shuffled,
    thing,
    true_attributes,
)
from xaihelpers.worlds.everyday.things import CATEGORIES, PARTS

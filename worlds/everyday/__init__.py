"""The everyday world: twenty kinds of drawn objects with known colours and parts, the easy contrast."""

from worlds.everyday.everyday_files import RENDERER_VERSION, ensure
from worlds.everyday.thing_renderer import ATTRIBUTES, GROUPS, Thing, draw, shuffled, thing, true_attributes
from worlds.everyday.things import CATEGORIES, PARTS

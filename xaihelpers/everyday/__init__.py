"""Everyday things drawn on demand, twenty categories that look nothing alike, with known colours and parts: the easy contrast to the aviary. In CUB-200-2011's format."""
from .draw import ATTRIBUTES, GROUPS, Thing, draw, shuffled, thing, true_attributes
from .folder import ensure, part_mask
from .things import CATEGORIES, PARTS, Category

__all__ = ["ATTRIBUTES", "CATEGORIES", "GROUPS", "PARTS", "Category", "Thing", "draw", "ensure", "part_mask", "shuffled", "thing", "true_attributes"]

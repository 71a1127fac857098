"""The aviary: drawn birds whose every attribute, part and counterfactual is known."""

from worlds.aviary.aviary_files import RENDERER_VERSION, SCENES_VERSION, ensure, visible_attributes
from worlds.aviary.bird_renderer import draw
from worlds.aviary.individuals import (
    ATTRIBUTES,
    GROUPS,
    individual,
    shuffled,
    species_id,
    species_table,
    substitute,
    true_attributes,
    usual_individual,
)
from worlds.aviary.parts import PARTS

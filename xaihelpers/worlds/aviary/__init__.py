"""The aviary: drawn birds whose every attribute, part and counterfactual is known."""

from xaihelpers.worlds.aviary.aviary_files import (
    RENDERER_VERSION,
    annotation_certainty,
    ensure,
    visible_attributes,
)
from xaihelpers.worlds.aviary.bird_renderer import draw
from xaihelpers.worlds.aviary.individuals import (
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
from xaihelpers.worlds.aviary.parts import PARTS

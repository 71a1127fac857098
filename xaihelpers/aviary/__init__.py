"""The aviary: birds drawn on demand, whose every attribute, part and counterfactual is known. In CUB-200-2011's own format."""
from .draw import PARTS, Picture, draw
from .folder import certainties, ensure, part_mask
from .individuals import ATTRIBUTES, GROUPS, Individual, individual, shuffled, species_id, species_table, substitute, true_attributes

__all__ = ["ATTRIBUTES", "GROUPS", "PARTS", "Individual", "Picture", "certainties", "draw", "ensure", "individual", "part_mask", "shuffled", "species_id", "species_table",
           "substitute", "true_attributes"]

"""Substitute one attribute of a generated image, on any diffusers pipeline: Tied Diffusion Guidance (sub)."""

from xaihelpers.datasets.attribute_names import group_of
from xaihelpers.models.attribute_reader import (
    SHOWN_FROM,
    WHOLE,
    AttributeReader,
    Reading,
    affected_groups,
    is_shown,
    load_reader,
    plumage_preserved,
    read_attributes,
)
from xaihelpers.substitute.ask_attributes import answered_with, ask_groups, ask_species
from xaihelpers.substitute.drawn_pipeline import FAILURES, GOOD, DrawnPipeline, read_drawn
from xaihelpers.substitute.generated_files import GenerationJob, generate_files, shared_choice
from xaihelpers.substitute.generation import (
    PAPER_NUMBERS,
    T_MAX,
    decode,
    generate,
    generate_pairs,
    latent_numbers,
    level_at_size,
    load_pipeline,
    paper_tie,
    reconstruct,
)
from xaihelpers.substitute.pairs import (
    SubstituteError,
    category,
    class_shows,
    counterfactual_pair,
    pair_prompts,
    portrait_of,
    read_forms,
    substitutable,
    write_exact,
)
from xaihelpers.substitute.tied_guidance import ALL_TIED, UNTIED, tie_by, tied_scheduler, tied_share

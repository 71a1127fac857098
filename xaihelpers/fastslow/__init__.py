"""The Fast and Slow Effect: candidates, concept chains, and the questions asked with them (paper fse)."""

from xaihelpers.fastslow.candidates import (
    CANDIDATES,
    case_table,
    class_neighbours,
    draw_cases,
    similarity_dictionary,
)
from xaihelpers.fastslow.chains import (
    STAGES,
    STEP_MARK,
    chain_prefix,
    mentions_class,
    parse_chain,
    parse_list,
    reasoning_steps,
    segment_reasoning,
)
from xaihelpers.fastslow.label_chains import UNKNOWN, chain_from_attributes, chains_from_labels
from xaihelpers.fastslow.letters import LETTERS, parse_letter
from xaihelpers.fastslow.questions import THE_IMAGE, annotate_chains, choice_request, choose

__all__ = [
    "CANDIDATES",
    "LETTERS",
    "STAGES",
    "STEP_MARK",
    "THE_IMAGE",
    "UNKNOWN",
    "annotate_chains",
    "case_table",
    "chain_from_attributes",
    "chain_prefix",
    "chains_from_labels",
    "choice_request",
    "choose",
    "class_neighbours",
    "draw_cases",
    "mentions_class",
    "parse_chain",
    "parse_letter",
    "parse_list",
    "reasoning_steps",
    "segment_reasoning",
    "similarity_dictionary",
]

"""The Fast and Slow Effect: candidates, concept chains, and the questions asked with them (paper fse)."""

from xaihelpers.fastslow.blind_guessers import blind_guessers, name_vectors, rotations
from xaihelpers.fastslow.candidates import CANDIDATES, case_table, draw_cases
from xaihelpers.fastslow.chains import (
    LEAK_TABLE,
    STAGES,
    STEP_MARK,
    chain_prefix,
    content_words,
    hints_at_class,
    mentions_class,
    parse_chain,
    parse_list,
    reasoning_steps,
    segment_reasoning,
)
from xaihelpers.fastslow.dictionary import class_neighbours, class_scores, similarity_dictionary
from xaihelpers.fastslow.label_chains import UNKNOWN, chain_from_attributes, chains_from_labels
from xaihelpers.fastslow.letters import LETTERS, parse_letter, position_table
from xaihelpers.fastslow.questions import THE_IMAGE, annotate_chains, case_text, choice_request, choose
from xaihelpers.fastslow.settings import require_some, sampling

__all__ = [
    "CANDIDATES",
    "LEAK_TABLE",
    "LETTERS",
    "STAGES",
    "STEP_MARK",
    "THE_IMAGE",
    "UNKNOWN",
    "annotate_chains",
    "blind_guessers",
    "case_table",
    "case_text",
    "chain_from_attributes",
    "chain_prefix",
    "chains_from_labels",
    "choice_request",
    "choose",
    "class_neighbours",
    "class_scores",
    "content_words",
    "draw_cases",
    "hints_at_class",
    "mentions_class",
    "name_vectors",
    "parse_chain",
    "parse_letter",
    "parse_list",
    "position_table",
    "reasoning_steps",
    "require_some",
    "rotations",
    "sampling",
    "segment_reasoning",
    "similarity_dictionary",
]

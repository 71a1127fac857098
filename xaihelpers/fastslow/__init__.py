"""The Fast and Slow Effect: candidates, concept chains, and the questions asked with them (paper fse).

One rule for answers that do not hold what was asked for (the four `ask.messages.KINDS`). What could not
be had at all, from a server or a network that failed, is left out of every share and counted beside it; that
goes for a chain as for a letter. What was cut off, refused or cannot be read is an answer: it is wrong in
every share, and its own share stands beside as "invalid".
"""

from xaihelpers.fastslow.candidates import CANDIDATES, LETTERS, case_table, draw_cases
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
from xaihelpers.fastslow.guessers import blind_floor, guess_blind, rotations, share_right
from xaihelpers.fastslow.label_chains import UNKNOWN, chain_from_attributes, chains_from_labels
from xaihelpers.fastslow.lookalikes import class_neighbours, similarity_dictionary
from xaihelpers.fastslow.pools import Pool, fine_grained, load_pools
from xaihelpers.fastslow.questions import (
    THE_IMAGE,
    annotate_chains,
    answered,
    case_text,
    choice_request,
    choose,
    describe,
    failure_mark,
    questions,
    questions_by_stage,
    sampling,
)

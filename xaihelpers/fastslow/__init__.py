"""The Fast and Slow Effect: candidates, concept chains, and the questions asked with them (paper fse).

One rule for answers that do not hold what was asked for (`ask.failures` has the four kinds). What could not
be had at all, from a server or a network that failed, is left out of every share and counted beside it; that
goes for a chain as for a letter. What was cut off, refused or cannot be read is an answer: it is wrong in
every share, and its own share stands beside as "invalid". A table that leaves these out, too, says so.
"""

from xaihelpers.fastslow.blind_guessers import (
    CHANCE,
    ITSELF,
    Floor,
    blind_floor,
    blind_guessers,
    class_vectors,
    guess_blind,
    name_vectors,
    rotations,
)
from xaihelpers.fastslow.candidates import CANDIDATES, CLUSTERS, case_table, draw_cases
from xaihelpers.fastslow.chains import (
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
from xaihelpers.fastslow.missing import answered, failure_mark, failure_note, failure_table
from xaihelpers.fastslow.questions import (
    THE_IMAGE,
    annotate_chains,
    case_text,
    choice_request,
    choose,
)
from xaihelpers.fastslow.settings import require_some, sampling

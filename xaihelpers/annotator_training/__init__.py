"""How the shipped annotator and judge are taught: pictures, true answers, networks, examination.

Notebook 93 shows the method: the losses, the stages, a lesson, and the examination. Here is what it works on.
"""

from xaihelpers.annotator_training.annotator_network import (
    learnt_tokenizer,
    new_annotator,
    new_tower,
    saved_annotator,
)
from xaihelpers.annotator_training.attention_maps import attention_map, overlap, rubric, under_attention
from xaihelpers.annotator_training.attribute_questions import PLAIN
from xaihelpers.annotator_training.concept_questions import (
    easy_options,
    hard_options,
    in_any_order,
)
from xaihelpers.annotator_training.examination import chance_of, examine, options_of
from xaihelpers.annotator_training.judgement_questions import SAME, SEEN, given_name, judgement
from xaihelpers.annotator_training.lesson_pictures import (
    GROUPS,
    N_PATCHES,
    NAMES,
    PATCH,
    SIZE,
    SLICES,
    SPECIES,
    THINGS,
    as_images,
    drawn_bird,
    drawn_portrait,
    drawn_thing,
    gather_pictures,
    group_slices,
    held_out,
    reduced,
    stacked,
    stored_pictures,
    training_rows,
)
from xaihelpers.annotator_training.lesson_plan import TASKS, mixtures
from xaihelpers.annotator_training.pupil import (
    Pupil,
    chosen_letters,
    embedded_batch,
    normalised,
    option_ends,
    said_words,
    tower_states,
    tower_views,
)
from xaihelpers.annotator_training.true_answers import chain_of, similarity, usual

__all__ = [
    "GROUPS",
    "NAMES",
    "N_PATCHES",
    "PATCH",
    "PLAIN",
    "Pupil",
    "SAME",
    "SEEN",
    "SIZE",
    "SLICES",
    "SPECIES",
    "TASKS",
    "THINGS",
    "as_images",
    "attention_map",
    "chain_of",
    "chance_of",
    "chosen_letters",
    "drawn_bird",
    "drawn_portrait",
    "drawn_thing",
    "easy_options",
    "embedded_batch",
    "examine",
    "gather_pictures",
    "given_name",
    "group_slices",
    "hard_options",
    "held_out",
    "in_any_order",
    "judgement",
    "learnt_tokenizer",
    "mixtures",
    "new_annotator",
    "new_tower",
    "normalised",
    "option_ends",
    "options_of",
    "overlap",
    "reduced",
    "rubric",
    "said_words",
    "saved_annotator",
    "similarity",
    "stacked",
    "stored_pictures",
    "tower_states",
    "tower_views",
    "training_rows",
    "under_attention",
    "usual",
]

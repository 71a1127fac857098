"""How the shipped annotator and judge are taught: pictures, true answers, networks.

`recipes/annotator.py` has losses and stages, and notebook 93 shows them. Here is what they work on.
"""

from recipes.annotator_training.annotator_network import (
    learnt_tokenizer,
    new_annotator,
    new_tower,
    saved_annotator,
)
from recipes.annotator_training.attention_maps import under_attention
from recipes.annotator_training.attribute_questions import PLAIN
from recipes.annotator_training.concept_questions import (
    easy_options,
    hard_options,
    in_any_order,
)
from recipes.annotator_training.judgement_questions import SAME, SEEN, given_name, judgement
from recipes.annotator_training.lesson_pictures import (
    GROUPS,
    N_PATCHES,
    PATCH,
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
from recipes.annotator_training.lesson_plan import TASKS, mixtures
from recipes.annotator_training.pupil import (
    Pupil,
    chosen_letters,
    embedded_batch,
    normalised,
    option_ends,
    said_words,
    tower_states,
    tower_views,
)
from recipes.annotator_training.true_answers import similarity

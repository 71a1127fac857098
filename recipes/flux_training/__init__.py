"""How the shipped text-to-image pipeline and its reader are taught: portraits, networks, trials.

`recipes/flux.py` has losses and stages, and notebook 94 shows them. Here is what they work on.
"""

from recipes.flux_training.new_word import NewWord
from recipes.flux_training.portrait_trials import (
    KINDS,
    Trials,
    asked_for,
    prompt_measures,
    reader_trials,
    reading_measures,
)
from recipes.flux_training.small_flux import (
    TOKENS,
    Tokenizers,
    encoded,
    new_autoencoder,
    new_flow,
    new_tokenizers,
    packed,
    text_states,
    velocity,
)
from recipes.flux_training.training_portraits import (
    CHANGED,
    HELD,
    SIZE,
    SPECIES,
    TRAINED,
    caption,
    cut_studio_birds,
    drawn_birds,
    invented_bird,
    invented_plumage,
    photo_of,
    shown_by,
)

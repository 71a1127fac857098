"""How the shipped text-to-image pipeline and its reader are taught: portraits, networks, trials.

`recipes/flux.py` has losses and stages, and appendix A7 examines the weights. Here is what they work on.
"""

from recipes.flux_training.portrait_trials import KINDS, generated_table, reader_trials, reading_table
from recipes.flux_training.small_flux import (
    TOKENS,
    Tokenizers,
    encoded,
    new_autoencoder,
    new_flow,
    shipped_tokenizers,
    text_states,
    velocity,
)
from recipes.flux_training.training_portraits import (
    CHANGED,
    FURTHER,
    HELD,
    SIZE,
    SPECIES,
    TRAINED,
    caption,
    drawn_birds,
)

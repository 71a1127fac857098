"""How the shipped text-to-image pipeline and its reader are taught: portraits, networks, trials, cards.

Notebook 94 shows the method: losses, stages, a lesson, and what is measured. Here is what it works on.
"""

from xaihelpers.flux_training.flux_cards import weights_card
from xaihelpers.flux_training.new_word import NewWord
from xaihelpers.flux_training.portrait_trials import (
    KINDS,
    Trials,
    asked_for,
    prompt_measures,
    reader_trials,
    reading_measures,
)
from xaihelpers.flux_training.small_flux import (
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
from xaihelpers.flux_training.training_portraits import (
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

__all__ = [
    "CHANGED",
    "HELD",
    "KINDS",
    "NewWord",
    "SIZE",
    "SPECIES",
    "TOKENS",
    "TRAINED",
    "Tokenizers",
    "Trials",
    "asked_for",
    "caption",
    "cut_studio_birds",
    "drawn_birds",
    "encoded",
    "invented_bird",
    "invented_plumage",
    "new_autoencoder",
    "new_flow",
    "new_tokenizers",
    "packed",
    "photo_of",
    "prompt_measures",
    "reader_trials",
    "reading_measures",
    "shown_by",
    "text_states",
    "velocity",
    "weights_card",
]

"""A species, an attribute of its own and another's of the same group: a bird of the studio before and after.

Paper sub substitutes the one by the other (section 3): what is rendered here is what should come of it.
"""

from typing import NamedTuple

import numpy as np
from PIL import Image

from recipes.flux_training.training_portraits import GROUP_OF, PHRASES, SIZE, photo_of
from worlds import aviary, studio


class Case(NamedTuple):
    """A species, columns of its own attribute and of another's, the bird before and after."""

    species: int
    own: int
    others: int
    before: Image.Image
    after: Image.Image

    @property
    def photo(self) -> str:
        """The prompt for the species."""
        return photo_of(self.species)

    @property
    def group(self) -> str:
        """The group of both attributes, in words."""
        return GROUP_OF[self.others].replace("_", " ")

    def with_own(self) -> str:
        """The prompt for the species with its own attribute."""
        return f"{self.photo} with {PHRASES[self.own]}"

    def with_others(self) -> str:
        """The prompt for the species with another's attribute."""
        return f"{self.photo} with {PHRASES[self.others]}"


def substituted_case(seed: int, number: int, form: str) -> Case:
    """A case at random of the studio; of its groups of this form, and of its places, each in turn.

    form: "color" or "pattern".
    """
    rng = np.random.default_rng([seed, number, len(form)])
    groups = [name for name in studio.STUDIO_GROUPS if name.endswith(form)]
    turn, place = number % len(groups), number // len(groups) % len(studio.PLACES)
    of_group = np.array(GROUP_OF) == groups[turn]
    species = int(rng.choice(studio.studio_species()))
    others = int(rng.choice(np.flatnonzero(studio.studio_takes()[species] & of_group)))
    before = studio.studio_bird(place, species)
    after = aviary.substitute(before, aviary.ATTRIBUTES[others])
    # of two colours the second stays, that of the markings
    replaced = studio.studio_shows()[species] & of_group & ~aviary.true_attributes(after)
    own = int(rng.choice(np.flatnonzero(replaced)))
    portraits = (studio.studio_portrait(aviary.draw(bird), SIZE) for bird in (before, after))
    return Case(species, own, others, *portraits)

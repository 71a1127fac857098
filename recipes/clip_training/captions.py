"""Captions of birds, true in all they say: a species, some attributes, both, or a list with weights.

In the wording "concepts" they are written as the bottlenecks write their concepts, in ConceptScore's
templates. The weights of a list of n fall in order of size and mean nothing:

    w_1 ≥ … ≥ w_n,  w_i ~ Exponential with mean e^z,  z ~ N(0, 1); in a quarter of the lists all are 1.

In the wording "sentences" no concept stands in the words of a bottleneck, and a weight is the share of the
bird that the sentence is about, the largest first:

    w_i = a_i / Σ_l a_l.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from recipes.clip_training.clip_birds import Birds
from xaihelpers import datasets
from xaihelpers.scores import conceptscore

# and the names of the CLIPs that are taught with them
WORDINGS = {"concepts": "aviary_clip", "sentences": "aviary_clip_sentences"}
TEMPLATES = conceptscore.load_templates()
FORMS = {"species": 0.12, "attributes": 0.33, "both": 0.15, "list": 0.40}  # how often each is read
# "a" before a vowel, too: the form in which the shipped weights learnt the names
SPECIES_CAPTIONS = ["{}", "a {}", "a photo of a {}", "a photo of a {}, a kind of bird"]
ATTRIBUTE_CAPTIONS = ["{}", "a bird with {}", "a photo of a bird with {}"]
SENTENCES = {  # by the last word of an attribute's group
    "color": ("its {part} is {value}", "it has turned {value} on the {part}"),
    "pattern": ("its {part} is {value}", "the {part} of it looks {value}"),
    "shape": ("its {part} is of the kind {value}", "as to the {part}, it is {value}"),
    "length": ("its {part} is {value}", "as to the {part}, it is {value}"),
    "size": ("it is {value}", "as birds go it is {value}"),
}
WHOLE = {"has_primary_color": "plumage", "has_shape": "build", "has_size": ""}


class Words(NamedTuple):
    """How species and the A attributes of a data set are called."""

    species: list[str]
    names: list[str]  # "grey back"
    phrases: list[str]  # "a grey back"
    said: list[list[str]]  # two sentences of each attribute


class Style(NamedTuple):
    """How a caption is written."""

    form: str  # one of FORMS
    k: int  # attributes at most
    template: conceptscore.Template | None = None  # of a list with weights
    which: int = 1  # attributes by their names (0) or phrases (1)


def sentence_of(attribute: str, which: int) -> str:
    """An attribute in a sentence of its own: "has_crown_color::red" -> "its crown is red".

    Raises KeyError for a group that ends in none of the words of SENTENCES.
    """
    group, value = attribute.split("::")
    kind = group.split("_")[-1]
    part = WHOLE.get(group, group.removeprefix("has_").removesuffix(f"_{kind}").replace("_", " "))
    value = value.split("_(")[0].replace("_", " ").removesuffix(f" {part}").removesuffix("-wings")
    return SENTENCES[kind][which].format(part=part, value=value)


def words_of(dataset: datasets.Dataset) -> Words:
    """The words for a data set; no sentence holds a concept in its own words."""
    attributes = dataset.attributes.name.tolist()
    names = [datasets.plain_name(attribute) for attribute in attributes]
    phrases = [datasets.phrase(attribute) for attribute in attributes]
    said = [[sentence_of(attribute, which) for which in (0, 1)] for attribute in attributes]
    return Words(dataset.class_names, names, phrases, said)


def enumerated(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def caption_of(words: Words, rng: np.random.Generator, shown: np.ndarray, label: int, style: Style) -> str:
    """One caption in the words of concepts.

    shown: (A,), the attributes that can be seen. label: its species.
    """
    chosen = rng.permutation(np.flatnonzero(shown))[: style.k]
    called = [(words.names, words.phrases)[style.which][j] for j in chosen]
    if style.form == "species":
        return str(rng.choice(SPECIES_CAPTIONS)).format(words.species[label])
    if style.form == "both":
        return f"a photo of a {words.species[label]} with {enumerated(called)}"
    if style.form == "attributes" and style.which:
        return str(rng.choice(ATTRIBUTE_CAPTIONS)).format(enumerated(called))
    if style.form == "attributes":
        return ", ".join(called)
    scale = np.exp(rng.normal())
    weights = np.sort(rng.exponential(scale, len(called)))[::-1].tolist()
    if rng.random() < 0.25:
        weights = [1] * len(called)
    return conceptscore.describe(called, weights, style.template)


def sentences_of(
    words: Words, rng: np.random.Generator, shown: np.ndarray, area: np.ndarray, label: int, style: Style
) -> str:
    """The same in sentences; in a list each with the share of the bird that it is about. area: a (A,)."""
    chosen = rng.permutation(np.flatnonzero(shown))[: style.k]
    if style.form == "species":
        return str(rng.choice(SPECIES_CAPTIONS)).format(words.species[label])
    if style.form == "list":
        chosen = chosen[np.argsort(-area[chosen], kind="stable")]
    called = [words.said[j][rng.integers(2)] for j in chosen]
    if style.form == "both":
        return f"this is a {words.species[label]}: {enumerated(called)}"
    if style.form == "attributes":
        return f"a bird; {enumerated(called)}"
    shares = area[chosen] / area[chosen].sum()
    return "; ".join(f"{called[n]} {share:.2f}" for n, share in enumerate(shares))


def a_caption(
    words: Words, birds: Birds, wording: str, rng: np.random.Generator, j: int, style: Style
) -> str:
    """A caption of bird j in one of WORDINGS."""
    if wording == "sentences":
        return sentences_of(words, rng, birds.present[j], birds.areas[j], birds.species[j], style)
    return caption_of(words, rng, birds.present[j], birds.species[j], style)


def corpus(words: Words, birds: Birds, wording: str, rng: np.random.Generator) -> list[str]:
    """What a tokenizer learns from: captions of every eighth bird in all forms, all words twenty times."""
    read = []
    for form, template, which in product(FORMS, TEMPLATES, (0, 1)):
        style = Style(form, 8, template, which)
        for j in range(0, len(birds.present), 8):
            read.append(a_caption(words, birds, wording, rng, j, style))
    return [*read, *20 * (words.names + words.phrases + words.species)]

"""The indefinite article goes by the first sound of a name."""

from worlds.aviary import ATTRIBUTES
from xaihelpers.datasets import phrase, with_article

CONSONANTS = """unique pattern head, Uniform Finch, union jack, European Goldfinch, Eurasian Wigeon, ewe,
one-eyed owl, once common bird, Ural Owl, usual crown, useful tail, utility pole, ubiquitous sparrow,
Ugandan crane, unanimous vote, horned lark, House Wren, Heermann Gull, Honolulu gull, Yellow Warbler,
Western Grebe"""
VOWELS = """Anna Hummingbird, Evening Grosbeak, Elegant Tern, Indigo Bunting, Ivory Gull, Orchard Oriole,
Olive sided Flycatcher, onerous task, under tail, upland goose, ugly duckling, urban bird, usher, hour,
unidentified bird, unimportant detail, uninhabited nest, unanswered call, utter silence,
Hourglass Dolphin, honest signal, honourable mention, heirloom"""


def test_a_before_a_consonant_sound_and_an_before_a_vowel_sound():
    for article, names in (("a", CONSONANTS), ("an", VOWELS)):
        for name in names.replace("\n", " ").split(", "):
            assert with_article(name) == f"{article} {name}"


def test_phrases_of_all_attributes():
    """A unique head pattern is the only attribute whose article is not that of its first letter."""
    assert phrase("has_head_pattern::unique_pattern") == "a unique pattern head"
    assert phrase("has_crown_color::olive") == "an olive crown"
    exceptional = []
    for name in ATTRIBUTES:
        article, _, rest = phrase(name).partition(" ")
        if article in ("a", "an") and (article == "an") != (rest[0] in "aeiou"):
            exceptional.append(name)
    assert exceptional == ["has_head_pattern::unique_pattern"]

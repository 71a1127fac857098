"""Plain names of ImageNet's classes, which its copies call by WordNet ids: "n01440764" is "tench".

They are timm's, which come with it and need no connection. A class has its first lemma for a name. Where two
classes share it, as the two cranes do, a class has its other lemmas besides, or what its definition begins
with: "maillot (tank suit)", "crane (lifts and moves heavy objects)". Names are told apart within ImageNet's
thousand classes and the given ones, so that a class has the same name in every part of the thousand.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

WORDNET_ID = re.compile(r"n\d{8}")
# ends the beginning of a definition
BEGINNING = re.compile(r"[;,:(]| (?:of|in|on|that|having|used|with) ")


def imagenet_names() -> list[str]:
    """The names of ImageNet's thousand classes, in the order of its networks' outputs."""
    return wordnet_names(_imagenet().label_names())


def wordnet_names(names: Sequence[str]) -> list[str]:
    """Class names of which those that are ImageNet's WordNet ids become plain ones, all different.

    names: of the K classes. What is no id, or an id that ImageNet does not know, stays as it is.
    """
    if not any(map(WORDNET_ID.fullmatch, names)):
        return list(names)
    synsets = _imagenet()
    known = set(_lemmas()) & set(names)
    shared = Counter(_lemmas()[wordnet_id][0].lower() for wordnet_id in known | set(synsets.label_names()))
    plain = []
    for name in names:
        if name in known:
            first, *others = _lemmas()[name]
            if shared[first.lower()] > 1:
                definition = synsets.label_name_to_description(name, detailed=True).split(": ", 1)[1]
                more = ", ".join(others) or BEGINNING.split(definition)[0].strip()
                name = f"{first} ({more})"
            else:
                name = first
        plain.append(name)
    count = Counter(name.lower() for name in plain)
    return [
        f"{name} ({given})" if count[name.lower()] > 1 and name != given else name
        for name, given in zip(plain, names, strict=True)
    ]


@cache
def _imagenet():
    from timm.data import ImageNetInfo  # inside, because timm takes seconds to import and few data need it

    return ImageNetInfo("imagenet-1k")


@cache
def _lemmas() -> dict[str, list[str]]:
    """All words of each of ImageNet's 21,844 classes, by WordNet id."""
    from timm.data import ImageNetInfo

    every = ImageNetInfo("imagenet-22k")
    ids = {*every.label_names(), *_imagenet().label_names()}
    return {wordnet_id: every.label_name_to_description(wordnet_id).split(", ") for wordnet_id in ids}

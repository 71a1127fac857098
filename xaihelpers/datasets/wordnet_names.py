"""Plain names of ImageNet's thousand classes, which its copies call by WordNet ids: "n01440764" is "tench".

They are timm's. A class has its first lemma for a name; where two share it, its other lemmas besides, or what
its definition begins with: "maillot (tank suit)", "crane (lifts and moves heavy objects)".
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

# ends the beginning of a definition
BEGINNING = re.compile(r"[;,:(]| (?:of|in|on|that|having|used|with) ")


def imagenet_names() -> list[str]:
    """The names of ImageNet's thousand classes, in the order of its networks' outputs."""
    return list(_plain_names().values())


def wordnet_names(names: Sequence[str]) -> list[str]:
    """Class names of which those that are ids of the thousand become plain ones; all others stay."""
    if not any(re.fullmatch(r"n\d{8}", name) for name in names):
        return list(names)
    return [_plain_names().get(name, name) for name in names]


@cache
def _plain_names() -> dict[str, str]:
    from timm.data import ImageNetInfo  # inside, because timm takes seconds to import and few data need it

    synsets = ImageNetInfo("imagenet-1k")
    lemmas = {one: synsets.label_name_to_description(one).split(", ") for one in synsets.label_names()}
    shared = Counter(first.lower() for first, *_ in lemmas.values())
    plain = {}
    for one, (first, *others) in lemmas.items():
        plain[one] = first
        if shared[first.lower()] > 1:
            definition = synsets.label_name_to_description(one, detailed=True).split(": ", 1)[1]
            plain[one] += f" ({', '.join(others) or BEGINNING.split(definition)[0].strip()})"
    return plain

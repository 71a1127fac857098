"""Annotators with a known fault at a known dose: what a yardstick of descriptions is measured by.

An honest annotator says the attributes that can be seen, in the words of `label_chains`.

| fault | what is false | d is the share of |
|---|---|---|
| invents | a statement is exchanged for a false one about the same thing | statements |
| recites the class | the description is that of the class, whatever the image shows | images |
| ignores the image | the description is that of an image of another class | images |
| names the class | the honest description also names the class | images |

No language model runs here. The reader is `ideal_reader`; where a chain names one of the options, a reader
that can read takes that one.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from xaihelpers.fastslow.chains import mentions_class
from xaihelpers.fastslow.label_chains import chain_from_attributes
from xaihelpers.yardsticks.ideal_reader import corrupted

ANNOTATOR_FAULTS = ("invents", "recites the class", "ignores the image", "names the class")


def planted_statements(
    fault: str,
    dose: float,
    present: np.ndarray,
    names: Sequence[str],
    labels: np.ndarray,
    usual: np.ndarray,
    seed: int = 0,
) -> np.ndarray:
    """The attributes that an annotator says, (N, A) bool.

    fault: one of ANNOTATOR_FAULTS. dose: from 0, honest, to 1.
    present: (N, A) bool, what can be seen. names: A names `group::value`. labels: (N,), classes.
    usual: (K, A) bool, what the classes usually have. seed: of what is afflicted.
    Raises ValueError for an unknown fault, a dose outside 0 to 1, and images of a single class.
    """
    if fault not in ANNOTATOR_FAULTS:
        raise ValueError(f"there is no fault {fault!r}: choose among {', '.join(ANNOTATOR_FAULTS)}")
    if not 0 <= dose <= 1:
        raise ValueError(f"a dose lies between 0, honest, and 1, not at {dose}")
    rng = np.random.default_rng(seed)
    present, labels = np.asarray(present, bool), np.asarray(labels)
    afflicted = rng.permutation(len(present)) < round(dose * len(present))
    if fault == "invents":
        return corrupted(present, names, 1.0, 1 - dose, rng)
    if fault == "recites the class":
        return np.where(afflicted[:, None], usual[labels], present)
    if fault == "ignores the image":
        others = [np.flatnonzero(labels != label) for label in labels]
        if not all(map(len, others)):
            raise ValueError("all images are of one class: an image of another class is needed to ignore one")
        other = np.array([rng.choice(rows) for rows in others])
        return np.where(afflicted[:, None], present[other], present)
    return present


def planted_chains(
    fault: str,
    dose: float,
    said: np.ndarray,
    names: Sequence[str],
    class_names: Sequence[str],
    seed: int = 0,
) -> list[dict[str, str]]:
    """The chain of each image from what is said of it (N, A); "names the class" adds the name of its class.

    class_names: N names, of the image's class. The other arguments: as of `planted_statements`.
    """
    names = np.asarray(names)
    chains = [chain_from_attributes(names[row]) for row in said]
    if fault == "names the class":
        afflicted = np.random.default_rng(seed).permutation(len(said)) < round(dose * len(said))
        for row in np.flatnonzero(afflicted):
            chains[row]["Superclass"] += f", a {class_names[row]}"
    return chains


def take_named_option(
    scores: np.ndarray, chains: Sequence[Mapping[str, str]], options: Sequence[Sequence[str]]
) -> np.ndarray:
    """Scores (l, 5) of a reader who takes the option that a chain names, where it names one of them alone.

    options: l lists of five class names. Other rows stay as they are.
    """
    scores = np.array(scores, float)
    for row, (chain, of_case) in enumerate(zip(chains, options, strict=True)):
        text = " ".join(chain.values())
        named = [place for place, name in enumerate(of_case) if mentions_class(text, name)]
        if len(named) == 1:
            scores[row] = 0.0
            scores[row, named[0]] = 1.0
    return scores

"""Attributes and species of images by a vision-language model: multiple-choice questions (sub, section 4.2).

The answer's letter comes with its probability, by which images are kept or discarded.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase

import numpy as np
import torch
from PIL import Image

from worlds.aviary.individuals import ATTRIBUTES, GROUPS
from xaihelpers.ask.cache import ask
from xaihelpers.ask.messages import lettered_options, prompt, request
from xaihelpers.ask.reading import named_option
from xaihelpers.datasets.attribute_names import plain_value
from xaihelpers.substitute.pairs import SubstituteError

log = logging.getLogger(__name__)
SIZES = torch.tensor([len(values) for values in GROUPS.values()])
GROUP_NUMBERS = torch.arange(len(SIZES)).repeat_interleave(SIZES)  # (312,)


def ask_groups(
    model, images: Sequence[Image.Image | str | Path], groups: Sequence[Sequence[str]]
) -> torch.Tensor:
    """Probability of each attribute of the groups asked for, float32 (N, 312).

    NaN where the group was not asked, or the model gave no answer; what is missing to 1 in a group is
    *Other*.

    model: of `ask.load_vlm`. images: N PIL images or files.
    groups: for each image the names of groups, as crown_color.
    Raises SubstituteError: a model none of whose answers has probabilities (single answers without are
        counted in the log).
    Raises AskError as `ask` does.
    """
    cases, requests = [], []
    for row, of_image in enumerate(groups):
        for group in of_image:
            letters = tuple(ascii_uppercase[: len(GROUPS[group]) + 1])
            options = lettered_options([*map(plain_value, GROUPS[group]), "Other"], ")")
            text = prompt("sub_attribute", group=group.replace("_", " "), options=options)
            cases.append((row, ATTRIBUTES.index(f"has_{group}::{GROUPS[group][0]}"), letters[:-1]))
            requests.append(request(text, [images[row]], letters, max_tokens=8))
    answers = ask(model, requests)
    valid = [answer for answer in answers if not answer.error]
    n_without = sum(not answer.probabilities for answer in valid)
    if n_without and n_without == len(valid):
        raise SubstituteError(
            f"{model.name} gives no probabilities with its answers, by which images are kept or left out: "
            "name a model that runs here, or a server that returns log-probabilities (logprobs), and that "
            "answers with a letter"
        )
    if n_without:
        log.info("%s: %d answers are none of the letters and count as no answer", model.name, n_without)
    probabilities = torch.full((len(images), len(ATTRIBUTES)), torch.nan)
    for (row, first, letters), answer in zip(cases, answers, strict=True):
        if answer.probabilities:
            of_values = torch.tensor([answer.probabilities[letter] for letter in letters])
            probabilities[row, first : first + len(letters)] = of_values
    return probabilities


def answered_with(probabilities: torch.Tensor, columns: Sequence[int] | torch.Tensor) -> torch.Tensor:
    """Whether the answer about each image is its attribute, bool (N,).

    True where no attribute of the same group, and not *Other*, is more probable; no answer counts as False.

    probabilities: (N, 312) of `ask_groups`. columns: (N,), which of the 312 attributes is asked about.
    """
    columns = torch.as_tensor(columns, dtype=torch.long)
    same_group = GROUP_NUMBERS[None] == GROUP_NUMBERS[columns][:, None]  # (N, 312)
    in_group = torch.where(same_group, probabilities, 0.0)
    target = probabilities.gather(1, columns[:, None])[:, 0]  # (N,)
    other = 1 - in_group.sum(1)
    return (target >= in_group.nan_to_num(0).amax(1)) & (target >= other) & ~target.isnan()


def ask_species(
    model,
    images: Sequence[Image.Image | str | Path],
    labels: Sequence[int],
    names: Sequence[str],
    shows: torch.Tensor,
    n_options: int = 8,
    seed: int = 0,
) -> np.ndarray:
    """Whether the model chooses each image's species, bool (N,); no answer is a wrong one.

    Its choice is the most probable letter, or the one that its answer names where it gives no probabilities.

    model: of `ask.load_vlm`. images: N PIL images or files. labels: (N,), rows of `names` and `shows`.
    shows: bool (K, 312), the species' attributes; the `n_options` (at most 26) that differ in the fewest are
        offered. seed: of their order.
    Raises SubstituteError: `n_options` below 2 or above 26. Raises AskError as `ask` does.
    """
    if not 2 <= n_options <= len(ascii_uppercase):
        raise SubstituteError(f"n_options is {n_options}: a question has 2 to {len(ascii_uppercase)} options")
    apart = torch.cdist(shows.float(), shows.float(), p=1)  # (K, K) attributes that differ
    letters = tuple(ascii_uppercase[: min(n_options, len(names))])
    requests, right = [], []
    for row, (image, label) in enumerate(zip(images, labels, strict=True)):
        others = [other for other in apart[label].argsort().tolist() if other != label]
        offered = [int(label), *others[: len(letters) - 1]]
        offered = np.random.default_rng([seed, row]).permutation(offered).tolist()
        options = lettered_options([names[one] for one in offered], ")")
        requests.append(request(prompt("sub_species", options=options), [image], letters, max_tokens=8))
        right.append(letters[offered.index(label)])
    answers = ask(model, requests)
    choices = [one.choice or named_option(one.text, letters, cut=one.truncated) for one in answers]
    return np.array(choices, object) == np.array(right, object)

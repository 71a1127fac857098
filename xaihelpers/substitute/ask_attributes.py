"""Attributes of images by a vision-language model: one multiple-choice question a group (sub, section 4.2).

The answer's letter comes with its probability, by which images are kept or discarded.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase

import torch
from PIL import Image

from worlds.aviary.individuals import ATTRIBUTES, GROUPS
from xaihelpers.ask.cache import ask
from xaihelpers.ask.messages import request
from xaihelpers.ask.prompt_files import lettered_options, prompt
from xaihelpers.datasets.attribute_names import plain_value
from xaihelpers.substitute.pair_prompts import SubstituteError

log = logging.getLogger(__name__)
SIZES = torch.tensor([len(values) for values in GROUPS.values()])
GROUP_NUMBERS = torch.arange(len(SIZES)).repeat_interleave(SIZES)  # (312,)


def group_question(group: str, question: str | Path = "sub_attribute") -> tuple[str, tuple[str, ...]]:
    """The question about one attribute group and the letters of its options, the last of which is *Other*.

    question: a prompt of data/prompts or a file with {group} and {options}.
    Raises AskError if there is no such prompt.
    """
    options = [*map(plain_value, GROUPS[group]), "Other"]
    text = prompt(question, group=group.replace("_", " "), options=lettered_options(options, ")"))
    return text, tuple(ascii_uppercase[: len(options)])


def ask_groups(
    model,
    images: Sequence[Image.Image | str | Path],
    groups: Sequence[Sequence[str]],
    question: str | Path = "sub_attribute",
    progress: bool = True,
) -> torch.Tensor:
    """Probability of each attribute of the groups asked for, float32 (N, 312).

    NaN where the group was not asked, or the model gave no answer; what is missing to 1 in a group is
    *Other*.

    model: of `ask.load_vlm`. images: N PIL images or files.
    groups: for each image the names of groups, as crown_color. question: as of `group_question`.
    Raises SubstituteError: an unknown group, a model none of whose answers has probabilities (single answers
        without are counted in the log).
    Raises AskError as `ask` does.
    """
    wanted = {group for of_image in groups for group in of_image}
    if unknown := wanted - set(GROUPS):
        raise SubstituteError(
            f"there is no attribute group {sorted(unknown)[0]!r}; CUB has {', '.join(GROUPS)}"
        )
    questions = {group: group_question(group, question) for group in wanted}
    cases = [(row, group) for row, of_image in enumerate(groups) for group in of_image]
    requests = []
    for row, group in cases:
        text, letters = questions[group]
        requests.append(request(text, [images[row]], letters, max_tokens=8))
    answers = ask(model, requests, progress=progress)
    _check_probabilities(model.name, answers)

    first_column = {group: ATTRIBUTES.index(f"has_{group}::{values[0]}") for group, values in GROUPS.items()}
    probabilities = torch.full((len(images), len(ATTRIBUTES)), torch.nan)
    for (row, group), answer in zip(cases, answers, strict=True):
        if answer.probabilities:
            letters = questions[group][1][:-1]  # without Other
            start = first_column[group]
            of_values = torch.tensor([answer.probabilities[letter] for letter in letters])
            probabilities[row, start : start + len(letters)] = of_values
    return probabilities


def _check_probabilities(name: str, answers: Sequence) -> None:
    """Log how many answers are no letter; raise SubstituteError where no answer has probabilities."""
    valid = [answer for answer in answers if not answer.error]
    n_without = sum(not answer.probabilities for answer in valid)
    if n_without and n_without == len(valid):
        raise SubstituteError(
            f"{name} gives no probabilities with its answers, by which images are kept or left out: name a "
            "model that runs here, or a server that returns log-probabilities (logprobs)"
        )
    if n_without:
        said = "%s: %d of %d answers are none of the letters and count as no answer"
        log.info(said, name, n_without, len(answers))


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

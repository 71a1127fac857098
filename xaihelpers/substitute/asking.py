"""Attributes of pictures as a vision-language model names them: one question an attribute group, answered by a letter with its probability (sub, section 4.2)."""
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image

from ..ask import ask, lettered, prompt, request
from ..aviary import ATTRIBUTES, GROUPS
from ..birds import plain_value
from .prompts import SubstituteError

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def group_values(group: str) -> list[str]:
    """The values of an attribute group in plain words, in the order of CUB's attributes: ["large", "small", ...] of size."""
    return [plain_value(value) for value in GROUPS[group]]


def ask_groups(model, images: Sequence[Image.Image | str | Path], groups: Sequence[Sequence[str]], question: str | Path = "sub_attribute", progress: bool = True) -> torch.Tensor:
    """How probable each attribute of the groups asked for is, float32 (N, 312): NaN where its group was not asked, or the model gave no answer. What is missing to 1 in a group is *Other*.

    model: of `ask.load_annotator`. images: PIL images or files. groups: for each image the names of groups as crown_color. question: a prompt or a file with {group} and {options}.
    Raises SubstituteError: an unknown group, a model none of whose answers has probabilities; single ones without are counted in a printed line. AskError as `ask`.
    """
    if unknown := {group for of in groups for group in of} - set(GROUPS):
        raise SubstituteError(f"there is no attribute group {sorted(unknown)[0]!r}; CUB has {', '.join(GROUPS)}")
    said = {group: [*group_values(group), "Other"] for group in GROUPS}
    asked = {group: (prompt(question, group=group.replace("_", " "), options=lettered(said[group], ")")), tuple(LETTERS[:len(said[group])])) for group in {group for of in groups for group in of}}
    cases = [(i, group) for i, of in enumerate(groups) for group in of]
    answers = ask(model, [request(asked[group][0], [images[i]], asked[group][1], max_tokens=8) for i, group in cases], progress=progress)
    given, silent = (sum(bool(answer.probabilities) is has and not answer.error for answer in answers) for has in (True, False))
    if silent and not given:
        raise SubstituteError(f"{model.name} gives no probabilities with its answers, by which images are kept or left out: name a model that runs here, or a server that returns log-probabilities (logprobs)")
    if silent:
        print(f"{model.name}: {silent} of {len(answers)} answers are none of the letters and count as no answer")
    first = {group: ATTRIBUTES.index(f"has_{group}::{values[0]}") for group, values in GROUPS.items()}
    found = torch.full((len(images), len(ATTRIBUTES)), torch.nan)
    for (i, group), answer in zip(cases, answers):
        if answer.probabilities:
            found[i, first[group]:first[group] + len(GROUPS[group])] = torch.tensor([answer.probabilities[letter] for letter in asked[group][1][:-1]])
    return found


def is_answered(probabilities: torch.Tensor, columns: Sequence[int] | torch.Tensor) -> torch.Tensor:
    """Whether the answer to each picture is its attribute, bool (N,): none of its group, and not *Other*, is more probable. columns (N,) say which of the 312; no answer counts as none."""
    numbers = torch.tensor([k for k, values in enumerate(GROUPS.values()) for _ in values])
    columns = torch.as_tensor(columns, dtype=torch.long)
    group = torch.where(numbers[None] == numbers[columns][:, None], probabilities, 0.0)  # (N, 312)
    own = probabilities.gather(1, columns[:, None])[:, 0]
    return (own >= group.nan_to_num(0).amax(1)) & (own >= 1 - group.sum(1)) & ~own.isnan()

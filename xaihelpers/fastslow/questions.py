"""The questions of fast, slow and fused mode, and what the answers chose (paper fse, section 4, appendix B).

| mode | is shown, beside five lettered options |
|---|---|
| fast | the image |
| slow | the concepts c^t alone |
| fused | the image and the concepts |
| blind | nothing: a control that is not in the paper |
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from xaihelpers.ask.cache import ask, ask_whole
from xaihelpers.ask.failures import failure_kind
from xaihelpers.ask.messages import Request, request
from xaihelpers.ask.prompt_files import lettered_options, prompt
from xaihelpers.datasets import with_article
from xaihelpers.fastslow.candidates import CANDIDATES
from xaihelpers.fastslow.chains import hints_at_class, mentions_class, parse_chain
from xaihelpers.fastslow.letters import LETTERS, parse_letter

# whose chain is asked for where the image is shown; without the image the class's name stands here
THE_IMAGE = "the main object in this image"
SHOWN = {"fast": {"image"}, "slow": {"concepts"}, "fused": {"image", "concepts"}, "blind": set()}
PROMPTS = {
    "fast": "fse_choose_image",
    "slow": "fse_choose_concepts",
    "fused": "fse_choose_both",
    "blind": "fse_choose_nothing",
}


class Chains(NamedTuple):
    """What came of a request for concept chains."""

    chains: list[dict[str, str] | None]  # None where the answer holds no whole one
    failures: list[str]  # why not: one of `ask.failures.KINDS`, empty where there is one


def annotate_chains(
    model,
    images: Sequence | None = None,
    names: Sequence[str] | None = None,
    file: str = "fse_chain",
    max_tokens: int = 400,
    **settings,
) -> Chains:
    """Ask for a concept chain of each image (visual-grounded) or of each class name (post-hoc).

    An answer that max_tokens ended before the chain was whole is asked for once more (`ask.ask_whole`).

    model: as `ask.load_vlm` gives it. file: the prompt. max_tokens: of a chain. settings: of `ask.ask`.
    Raises ValueError if both images and names are given, or neither; AskError as `ask.ask` does.
    """
    if (images is None) == (names is None):
        raise ValueError("chains are gathered from images or from names, one of the two")
    if images is not None:
        text = prompt(file, entity=THE_IMAGE)
        requests = [request(text, [image], max_tokens=max_tokens) for image in images]
    else:
        texts = [prompt(file, entity=with_article(name)) for name in names]
        requests = [request(text, max_tokens=max_tokens) for text in texts]
    answers = ask_whole(model, requests, lambda answer: parse_chain(answer.text) is not None, **settings)
    chains = [parse_chain(answer.text) for answer in answers]
    failures = []
    for answer, chain in zip(answers, chains, strict=True):
        failures.append(failure_kind(answer, chain is not None))
    return Chains(chains, failures)


def choice_request(
    mode: str, options: Sequence[str], concepts: str = "", image=None, file: str = "", max_tokens: int = 8
) -> Request:
    """One question with five lettered options, in a chat of its own: nothing but this reaches the model.

    mode: "fast", "slow", "fused" or "blind". options: five class names.
    concepts: c^t as `chain_prefix` gives it.
    image: a file or a PIL image. file: a prompt in place of the mode's own.
    max_tokens: of the answer; a model that reasons before the letter needs thousands.
    Raises ValueError: an unknown mode, other than five different options, something given that the mode must
        not see, or something missing.
    Raises AskError as `ask.prompt` does.
    """
    if mode not in SHOWN:
        raise ValueError(f"unknown mode {mode!r}; there are {', '.join(SHOWN)}")
    if len(options) != CANDIDATES or len(set(options)) < CANDIDATES:
        raise ValueError(f"{CANDIDATES} different options are needed, not {', '.join(map(repr, options))}")
    given = set()
    if image is not None:
        given.add("image")
    if concepts:
        given.add("concepts")
    if given != SHOWN[mode]:
        needed = " and ".join(sorted(SHOWN[mode])) or "neither image nor concepts"
        got = " and ".join(sorted(given)) or "nothing"
        raise ValueError(f"{mode} mode sees {needed}, but was given {got}")
    fields = {"concepts": concepts} if concepts else {}
    text = prompt(file or PROMPTS[mode], options=lettered_options(options), **fields)
    images = [] if image is None else [image]
    return request(text, images, LETTERS, max_tokens=max_tokens)


def choose(
    model, questions: pd.DataFrame, prompts: Mapping[str, str] = PROMPTS, max_tokens: int = 8, **settings
) -> pd.DataFrame:
    """Ask a table of questions, one a row; returns the table with what was chosen.

    questions: with the columns `mode`, `options` (five class names) and `position` (of the true one, 0 to 4),
        and as the mode needs them `concept_text` (c^t) and `image`. Other columns are kept. Where a mode
        needs concepts and there are none (an annotator that gave no chain), nothing is asked; why there are
        none may stand in `concept_failure`.
    prompts: the prompt of each mode, a name or a file. max_tokens: of an answer. settings: of `ask.ask`.

    Returns the table with `letter` (missing where the answer names none, or nothing was asked), `correct`,
    `failure` (one of `ask.failures.KINDS`, empty where a letter is named), `invalid` (no letter, though there
    was an answer; it is wrong), `confidence` (probability of the chosen option, NaN where
    the model gives none), `leak` (whether the concepts name the true class) and `hint` (whether they have a
    word of its name that no other option has).
    Raises ValueError if a mode is given what it must not see, or lacks what it needs; AskError as `ask.ask`
    does.
    """
    concept_texts = _column(questions, "concept_text", "")
    concept_failures = _column(questions, "concept_failure", "")
    images = _column(questions, "image", None)
    requests: list[Request | None] = []
    for mode, options, concepts, image in zip(
        questions["mode"], questions["options"], concept_texts, images, strict=True
    ):
        if "concepts" in SHOWN.get(mode, ()) and not concepts:
            requests.append(None)
        else:
            file = prompts.get(mode, "")
            requests.append(choice_request(mode, options, concepts, image, file, max_tokens))
    answers = iter(ask(model, [question for question in requests if question is not None], **settings))
    chosen = []
    for question, options, position, concepts, failure in zip(
        requests, questions["options"], questions["position"], concept_texts, concept_failures, strict=True
    ):
        letter, confidence = None, np.nan
        if question is None:
            failure = failure or "unparsable"
        else:
            answer = next(answers)
            letter = parse_letter(answer.text)
            failure = failure_kind(answer, letter is not None)
            if letter and answer.probabilities:
                confidence = answer.probabilities[letter]
        chosen.append(
            {
                "letter": letter,
                "correct": letter == LETTERS[position],
                "failure": failure,
                "invalid": failure not in ("", "failed"),
                "confidence": confidence,
                "leak": mentions_class(concepts, options[position]),
                "hint": hints_at_class(concepts, options[position], np.delete(options, position)),
            }
        )
    columns = ["letter", "correct", "failure", "invalid", "confidence", "leak", "hint"]
    return questions.assign(**pd.DataFrame(chosen, questions.index, columns))


def case_text(heading: str, chain: Mapping[str, str], options: Sequence[str], choice: str) -> str:
    """A case in lines, to stand under its picture: heading, stages (240 characters each), options, choice.

    chain: as `parse_chain` gives it. options: five class names. heading, choice: lines of text.
    Raises ValueError if there are not as many options as letters.
    """
    stages = [f"{stage}: {text[:240]}" for stage, text in chain.items()]
    lettered = [f"{letter} {option}" for letter, option in zip(LETTERS, options, strict=True)]
    return "\n".join([heading, *stages, "  ".join(lettered), choice])


def _column(table: pd.DataFrame, name: str, missing: object) -> list:
    """A column as a list, with `missing` in the place of NaN and of a column that is not there."""
    if name not in table:
        return [missing] * len(table)
    return [missing if value is None or isinstance(value, float) else value for value in table[name]]

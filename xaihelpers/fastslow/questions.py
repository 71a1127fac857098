"""The questions of fast, slow and fused mode, and what the answers chose (paper fse, section 4, appendix B).

| mode | is shown, beside five lettered options |
|---|---|
| fast | the image |
| slow | the concepts c^t alone |
| fused | the image and the concepts |
| blind | nothing: a control that is not in the paper |
"""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from xaihelpers.ask import ask, ask_whole, lettered_options, prompt, request
from xaihelpers.ask.messages import KINDS, MARKED, Answer, Request, failure_kind
from xaihelpers.ask.reading import named_option
from xaihelpers.datasets import with_article
from xaihelpers.fastslow.candidates import CANDIDATES, LETTERS
from xaihelpers.fastslow.chains import STAGES, chain_prefix, mentions_class, parse_chain
from xaihelpers.fastslow.pools import Pool

log = logging.getLogger(__name__)
THE_IMAGE = "the main object in this image"
SHOWN = {"fast": ["image"], "slow": ["concepts"], "fused": ["image", "concepts"], "blind": []}
PROMPTS = {"fast": "fse_choose_image", "slow": "fse_choose_concepts"}
PROMPTS |= {"fused": "fse_choose_both", "blind": "fse_choose_nothing"}


class Chains(NamedTuple):
    """What came of a request for concept chains."""

    chains: list[dict[str, str] | None]
    failures: list[str]  # why there is none: one of `ask.messages.KINDS`, empty where there is one


def annotate_chains(
    model,
    images: Sequence | None = None,
    names: Sequence[str] | None = None,
    file: str = "fse_chain",
    entity: str = THE_IMAGE,
    max_tokens: int = 400,
    **settings,
) -> Chains:
    """Ask for a concept chain of each image (visual-grounded) or of each class name (post-hoc).

    An answer that max_tokens ended before the chain was whole is asked for once more (`ask.ask_whole`).

    model: as `ask.load_vlm` gives it. images, names: one of the two. file: the prompt.
    entity: what it calls an image; without one the class's name stands there. settings: of `ask.ask`.
    """
    if images is not None:
        asked = [(prompt(file, entity=entity), [image]) for image in images]
    else:
        asked = [(prompt(file, entity=with_article(name)), []) for name in names]
    requests = [request(*one, max_tokens=max_tokens) for one in asked]

    def chain_of(answer: Answer) -> dict[str, str] | None:
        return parse_chain(answer.text, answer.truncated)

    answers = ask_whole(model, requests, chain_of, **settings)
    chains = list(map(chain_of, answers))
    kinds = [failure_kind(answer, chain is not None) for answer, chain in zip(answers, chains, strict=True)]
    return Chains(chains, kinds)


def describe(model, pool: Pool, rows: Sequence[int], **settings) -> tuple[dict, dict]:
    """Chains of images of a pool: row of the image -> its chain, or None, and row -> why there is none.

    rows: each is asked about once. model, settings: as of `annotate_chains`.
    """
    rows = np.unique(rows)
    found = annotate_chains(model, pool.paths[rows].tolist(), **settings)
    return dict(zip(rows, found.chains, strict=True)), dict(zip(rows, found.failures, strict=True))


def choice_request(
    mode: str, options: Sequence[str], concepts: str = "", image=None, file: str = "", max_tokens: int = 8
) -> Request:
    """One question with five lettered options, in a chat of its own: nothing but this reaches the model.

    options: five class names. concepts: c^t. image: a file or a PIL image. file: a prompt in place of the
        mode's own. max_tokens: of the answer; a model that reasons before the letter needs thousands.
    Raises ValueError: other than five different options, something given that the mode must not see, or
        something missing.
    """
    if len(options) != CANDIDATES or len(set(options)) < CANDIDATES:
        raise ValueError(f"{CANDIDATES} different options are needed, not {', '.join(map(repr, options))}")
    if (image is not None, bool(concepts)) != ("image" in SHOWN[mode], "concepts" in SHOWN[mode]):
        needed = " and ".join(SHOWN[mode]) or "nothing"
        raise ValueError(f"{mode} mode sees {needed}: nothing else may be given, and nothing may be missing")
    fields = {"concepts": concepts} if concepts else {}
    text = prompt(file or PROMPTS[mode], options=lettered_options(options), **fields)
    return request(text, [] if image is None else [image], LETTERS, max_tokens=max_tokens)


def questions(
    mode: str,
    cases: pd.DataFrame,
    texts: Mapping[int, str] | None = None,
    failures: Mapping[int, str] | None = None,
    **about,
) -> pd.DataFrame:
    """A table of questions for `choose`, one for each case, which holds what its mode is shown and no more.

    cases: as of `case_table`. texts: row of an image -> its concepts, c^t.
    failures: row -> why there are none. about: further columns.
    """
    table = cases.assign(mode=mode, **about)
    if "image" in SHOWN[mode]:
        table["image"] = table["file"]
    if "concepts" in SHOWN[mode]:
        table["concept_text"] = [texts[row] for row in table["row"]]
        table["concept_failure"] = [(failures or {}).get(row, "") for row in table["row"]]
    return table


def questions_by_stage(
    cases: pd.DataFrame,
    chains: Mapping[int, Mapping[str, str] | None],
    failures: Mapping[int, str] | None = None,
    stages: Sequence[int] = tuple(range(1, len(STAGES) + 1)),
    **about,
) -> pd.DataFrame:
    """Questions of slow mode with c^t for each t of `stages`, which is the column `t`.

    chains: row of an image -> its chain. The other arguments: as of `questions`.
    """
    tables = []
    for t in stages:
        texts = {row: chain_prefix(chain, t) for row, chain in chains.items()}
        tables.append(questions("slow", cases, texts, failures, t=t, **about))
    return pd.concat(tables)


def choose(
    model, questions: pd.DataFrame, prompts: Mapping[str, str] = PROMPTS, max_tokens: int = 8, **settings
) -> pd.DataFrame:
    """Ask a table of questions, one a row; returns the table with what was chosen.

    questions: as of `questions`. Where a mode needs concepts and there are none (an annotator that gave no
        chain), nothing is asked. prompts: of each mode, a name or a file. settings: of `ask.ask`.
    Returns the table with `letter` (missing where the answer names none, or nothing was asked), `correct`,
        `failure` (one of `ask.messages.KINDS`, empty where a letter is named), `invalid` (no letter, though
        there was an answer; it is wrong) and `leak` (whether the concepts name the true class).
    Raises ValueError as `choice_request`.
    """
    given = questions.reindex(columns="mode options position concept_text image concept_failure".split())
    given = given.astype(object).where(given.notna(), None)
    requests = {}  # by the line of the table
    for line, row in enumerate(given.itertuples()):
        if row.concept_text or "concepts" not in SHOWN.get(row.mode, ()):
            shown = row.concept_text or "", row.image, prompts.get(row.mode, "")
            requests[line] = choice_request(row.mode, row.options, *shown, max_tokens)
    answers = dict(zip(requests, ask(model, list(requests.values()), **settings), strict=True))
    chosen = []
    for line, row in enumerate(given.itertuples()):
        letter, failure = None, row.concept_failure or "unparsable"
        if line in answers:
            answer = answers[line]
            letter = named_option(answer.text, LETTERS, row.options, answer.truncated)
            failure = failure_kind(answer, letter is not None)
        leak = mentions_class(row.concept_text or "", row.options[row.position])
        is_invalid = failure not in ("", "failed")
        chosen.append([letter, letter == LETTERS[row.position], failure, is_invalid, leak])
    found = pd.DataFrame(chosen, questions.index, ["letter", "correct", "failure", "invalid", "leak"])
    return questions.assign(**found.astype({"correct": bool, "invalid": bool, "leak": bool}))


def case_text(answers: pd.DataFrame, said: Sequence[str]) -> str:
    """A case in words: its class, the options, and what is chosen by what.

    answers: of one case, as of `choose`, in order. said: what each of them was told.
    """
    first = answers.iloc[0]
    options = zip(LETTERS, first["options"], strict=True)
    lines = [first["label"], *(f"{letter}  {name}" for letter, name in options)]
    for letter, correct, text in zip(answers["letter"], answers["correct"], said, strict=True):
        lines.append(f"{'✓' if correct else '✗'} {letter or 'no letter'} by {text}")
    return "\n".join(lines)


def sampling(seed: int, temperature: float) -> dict[str, object]:
    """The settings of `ask.ask`; at temperature 0 nothing is drawn, and one answer serves every seed."""
    return {"temperature": temperature, "seed": seed if temperature else 0}


def answered(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers that could be had: those that failed are left out of every share, and counted apart."""
    return answers[answers["failure"] != "failed"]


def failure_mark(answers: pd.DataFrame, keys: Sequence[str]) -> str:
    """Log how answers failed, and give what is added to a model's name where many could not be had.

    answers: of `choose`. keys: columns by which they are counted. A part of which more than
        `ask.messages.MARKED` % could not be had is named in a note; where there is none, the text is empty.
    """
    in_all = [f"{100 * (answers['failure'] == kind).mean():.1f} % {kind}" for kind in KINDS]
    log.info("Of %d answers %s", len(answers), ", ".join(in_all))
    failed = 100 * (answers["failure"] == "failed").groupby([answers[key] for key in keys]).mean()
    marked = failed[failed > MARKED]
    if marked.empty:
        return ""
    parts = []
    for key, share in marked.items():
        names = map(str, key if isinstance(key, tuple) else [key])
        parts.append(f"{', '.join(filter(None, names))} ({share:.1f} %)")
    told = f"More than {MARKED:.0f} % of the answers could not be had: {'; '.join(parts)}."
    log.warning("%s", told, extra={"note": True})
    return f", marked: up to {marked.max():.0f} % failed"

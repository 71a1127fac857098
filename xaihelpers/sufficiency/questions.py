"""The questions of the fast, slow and fused modes, and what the answers chose (paper fse, section 4 and appendix B)."""
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ..ask import Request, ask, lettered, prompt, request
from ..birds import with_article
from ..scores import mean_interval
from .cases import CANDIDATES, Cases
from .chains import parse_chain

LETTERS = tuple("ABCDE")
THE_IMAGE = "the main object in this image"  # the entity of the visual-grounded setting; post-hoc it is the class's name
SEES = {"fast": {"image"}, "slow": {"concepts"}, "fused": {"image", "concepts"}, "blind": set()}  # all that a mode may be shown beside the options
PAPER_SETS = {"stanford_cars": "Car", "flowers102": "Flower", "cub_200_2011": "CUB-Bird", "cifar100": "CIFAR-100", "caltech101": "Caltech-101", "imagenet": "ImageNet"}
PAPER_MODELS = {"gpt-4o": "GPT-4o", "gpt-4o-mini": "GPT-4o-mini", "llama-3.2-90b-vision-instruct": "Llama-3.2-vision-90b", "llama-3.2-11b-vision-instruct": "Llama-3.2-vision-11b",
                "qwen2-vl-72b-instruct": "QwenVL2-72b", "qwen2-vl-7b-instruct": "QwenVL2-7b", "deepseek-r1": "DeepSeek-R1", "deepseek-reasoner": "DeepSeek-R1"}
FILES = {"fast": "fse_choose_image", "slow": "fse_choose_concepts", "fused": "fse_choose_both", "blind": "fse_choose_nothing"}


def choice(mode: str, options: Sequence[str], concepts: str = "", image=None, file: str = "", max_tokens: int = 8) -> Request:
    """One question with five lettered options, in a chat of its own: what is not given here cannot reach the annotator.

    mode: "fast" sees the image, "slow" the concepts alone, "fused" both, "blind" neither. concepts: c^t as `first_stages` gives it. file: another prompt. max_tokens: of the answer; a model
    that reasons before the letter needs thousands.
    Raises ValueError where a mode is given what it must not see, or lacks what it needs.
    """
    if mode not in SEES:
        raise ValueError(f"unknown mode {mode!r}; there are {', '.join(SEES)}")
    if len(options) != CANDIDATES or len(set(options)) < CANDIDATES:
        raise ValueError(f"{CANDIDATES} different options are needed, not {', '.join(map(repr, options))}")
    given = {name for name, value in (("image", image is not None), ("concepts", concepts)) if value}
    if given != SEES[mode]:
        raise ValueError(f"{mode} mode sees {' and '.join(sorted(SEES[mode])) or 'neither image nor concepts'}, but was given {' and '.join(sorted(given)) or 'nothing'}")
    fields = {"concepts": concepts} if concepts else {}
    return request(prompt(file or FILES[mode], options=lettered(options), **fields), [] if image is None else [image], LETTERS, max_tokens=max_tokens)


def gather_chains(model, images: Sequence | None = None, names: Sequence[str] | None = None, file: str = "fse_chain", max_tokens: int = 400, **settings) -> list[dict[str, str] | None]:
    """A concept chain for each image (visual-grounded) or each class name (post-hoc); None where the answer holds no whole chain. settings: of `ask`."""
    if (images is None) == (names is None):
        raise ValueError("chains are gathered from images or from names, one of the two")
    if images is not None:
        asked = [request(prompt(file, entity=THE_IMAGE), [image], max_tokens=max_tokens) for image in images]
    else:
        asked = [request(prompt(file, entity=with_article(name)), max_tokens=max_tokens) for name in names]
    return [parse_chain(answer.text) for answer in ask(model, asked, **settings)]


def letter_of(text: str) -> str | None:
    """The letter that an answer names ("B", "(B)", "B. House", "Answer: B", "I select B."); None where it names none, or several."""
    text = text.strip()
    if leading := re.match(r"\W*([A-E])(?:\W*$|\s*[.):])", text):
        return leading[1]
    found = set(re.findall(r"(?<![\w'])([A-E])(?![\w'])(?! (?!or\b|and\b)[a-z])", text))
    return found.pop() if len(found) == 1 else None


def decide(model, questions: Sequence[Request | None], cases: Cases, **settings) -> pd.DataFrame:
    """What was chosen in each case: `letter` (None where the answer names none, or nothing could be asked), `correct`, `invalid`, `position` of the true class (0 … 4), and `sure`,
    the probability of the chosen option where the model gives it. An invalid answer is wrong.

    questions: one per case, None where there was nothing to ask with (an annotator that gave no chain). settings: of `ask`.
    """
    if len(questions) != len(cases.rows):
        raise ValueError(f"{len(questions)} questions for {len(cases.rows)} cases")
    answers = iter(ask(model, [question for question in questions if question is not None], **settings))
    given = [next(answers) if question is not None else None for question in questions]
    letters = [letter_of(answer.text) if answer is not None else None for answer in given]
    sure = [answer.probabilities[letter] if letter and answer.probabilities else np.nan for answer, letter in zip(given, letters)]
    right = [letter == LETTERS[place] for letter, place in zip(letters, cases.answers)]
    return pd.DataFrame({"letter": letters, "correct": right, "invalid": [letter is None for letter in letters], "position": cases.answers, "sure": sure})


def cri_table(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """CRI (%) by `keys`: mean over all cases with its 95 % interval, standard deviation over the seeds (column `seed`, NaN for one), share of invalid answers (%), cases (equation 2)."""
    def one(part):
        interval = mean_interval(100.0 * part["correct"].to_numpy(float))
        by_seed = part.groupby("seed")["correct"].mean() * 100
        return pd.Series({"value": interval.value, "low": interval.low, "high": interval.high, "sd": by_seed.std() if len(by_seed) > 1 else np.nan,
                          "invalid": 100 * part["invalid"].mean(), "cases": len(part)})

    return rows.groupby(list(keys), sort=False).apply(one, include_groups=False).reset_index().astype({"cases": int})


def paper_names(model: str, data: str) -> tuple[str, str]:
    """What the paper's tables call a model and a data set; their own names where they are not in it."""
    model_name, data_name = model.removeprefix("server:").split("/")[-1], Path(data).name
    return PAPER_MODELS.get(model_name.lower(), model_name), PAPER_SETS.get(data_name.lower(), data_name)

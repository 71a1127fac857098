"""CRI, the Class Representation Index of the Fast and Slow Effect (paper fse, section 4).

Equation 2: CRI(t) = 100 % · 1/l Σ_i 1[y_i^t = y_i]

| symbol | name | shape |
|---|---|---|
| l | cases of a part of the table | |
| y_i^t = y_i | column `correct`: the class chosen by the first t stages is the true one | (l,) |
| CRI(t) | column `value`, in % | one for each part |
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from xaihelpers.scores.intervals import PERCENT, Interval, interval

PAPER_SETS = {
    "stanford_cars": "Car",
    "flowers102": "Flower",
    "cub_200_2011": "CUB-Bird",
    "cifar100": "CIFAR-100",
    "caltech101": "Caltech-101",
    "imagenet": "ImageNet",
}
# by their full names in lower case: on Hugging Face, at their makers, of a folder
PAPER_MODELS = {
    "gpt-4o": "GPT-4o",
    "openai/gpt-4o": "GPT-4o",
    "gpt-4o-mini": "GPT-4o-mini",
    "openai/gpt-4o-mini": "GPT-4o-mini",
    "llama-3.2-90b-vision-instruct": "Llama-3.2-vision-90b",
    "meta-llama/llama-3.2-90b-vision-instruct": "Llama-3.2-vision-90b",
    "llama-3.2-11b-vision-instruct": "Llama-3.2-vision-11b",
    "meta-llama/llama-3.2-11b-vision-instruct": "Llama-3.2-vision-11b",
    "qwen2-vl-72b-instruct": "QwenVL2-72b",
    "qwen/qwen2-vl-72b-instruct": "QwenVL2-72b",
    "qwen2-vl-7b-instruct": "QwenVL2-7b",
    "qwen/qwen2-vl-7b-instruct": "QwenVL2-7b",
    "deepseek-r1": "DeepSeek-R1",
    "deepseek-ai/deepseek-r1": "DeepSeek-R1",
    "deepseek-reasoner": "DeepSeek-R1",
}


def cri_table(answers: pd.DataFrame, keys: Sequence[str], units: Sequence[str] = ()) -> pd.DataFrame:
    """CRI in % for each part of a table of answers (equation 2).

    answers: one row a case, with `correct` and `invalid` (bool), `failure` and `seed`, as `fastslow.choose`
        returns them. Answers that could not be had ("failed") are left out.
    keys: the columns by which the table is split.
    units: columns that say which cases are not independent of each other, crossed or nested: clusters.

    Returns the keys, the columns of an Interval, `sd` (standard deviation over the seeds, NaN for one),
    `invalid` (share of invalid answers, %) and `failed` (share of all that could not be had, %).
    """
    rows = []
    for key, asked in answers.groupby(list(keys), sort=False):
        part = asked[asked["failure"] != "failed"]
        clusters = [part[unit] for unit in units] or None
        of_part = interval(100.0 * part["correct"], clusters=clusters, bounds=PERCENT)
        by_seed = 100 * part.groupby("seed")["correct"].mean()
        more = {
            "sd": by_seed.std() if len(by_seed) > 1 else np.nan,
            "invalid": 100 * part["invalid"].mean(),
            "failed": 100 * (asked["failure"] == "failed").mean(),
        }
        rows.append(dict(zip(keys, key, strict=True)) | of_part._asdict() | more)
    return pd.DataFrame(rows, columns=[*keys, *Interval._fields, "sd", "invalid", "failed"])


def paper_names(model: str, data: str) -> tuple[str, str]:
    """What the paper's tables call a model and a data set; their own names where they are not in it.

    model: as `ask.load_vlm` takes it. Its own name is the full one, but of a path that of the folder.
    data: as `datasets.load` takes it. Its own name is that of the folder.
    """
    if model.startswith(("/", "~", ".")):
        model = Path(model).name
    asked_for = model.removeprefix("server:").lower()
    data_name = Path(data).name
    return PAPER_MODELS.get(asked_for, model), PAPER_SETS.get(data_name.lower(), data_name)

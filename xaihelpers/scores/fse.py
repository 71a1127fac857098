"""CRI, the Class Representation Index of the Fast and Slow Effect (paper fse, section 4).

Equation 2: CRI(t) = 100 % · 1/l Σ_i 1[y_i^t = y_i]

over l cases: whether the class chosen by the first t stages is the true one, the column `correct`.
"""

from collections.abc import Sequence
from pathlib import Path

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
# by their full names on Hugging Face in lower case; their makers call them by the last part
PAPER_MODELS = {
    "openai/gpt-4o": "GPT-4o",
    "openai/gpt-4o-mini": "GPT-4o-mini",
    "meta-llama/llama-3.2-90b-vision-instruct": "Llama-3.2-vision-90b",
    "meta-llama/llama-3.2-11b-vision-instruct": "Llama-3.2-vision-11b",
    "qwen/qwen2-vl-72b-instruct": "QwenVL2-72b",
    "qwen/qwen2-vl-7b-instruct": "QwenVL2-7b",
    "deepseek-ai/deepseek-r1": "DeepSeek-R1",
    "deepseek-ai/deepseek-reasoner": "DeepSeek-R1",
}
PAPER_MODELS |= {name.split("/")[1]: model for name, model in PAPER_MODELS.items()}

# what tells cases apart; those of one set (by its centre) and of one true class hang together
CASE = ["model", "data", "centre", "label", "row", "seed"]
CLUSTERS = ["centre", "label"]


def right_by_case(answers: pd.DataFrame, **asked) -> pd.Series:
    """100 where the true class was chosen, 0 where not, by `CASE`; the mean where a case was asked in turns.

    answers: one row a question, as `fastslow.choose` returns them, with `model`; those that could not be had
        are left out. asked: column -> value, the part that is meant.
    """
    rows = answers["failure"] != "failed"
    for column, value in asked.items():
        rows &= answers[column] == value
    return 100.0 * answers[rows].groupby(CASE)["correct"].mean()


def over_cases(values: pd.Series, bounds: tuple[float, float] | None = PERCENT) -> Interval:
    """The mean of values by `CASE` with its interval over sets and classes; NaN ones are left out.

    bounds: of the values, (-100, 100) of a difference of shares in %. Differences of which none is other than
        0, as of two modes that give the same answers, are taken case by case: nothing varies between classes.
    """
    values = values.dropna()
    clusters = [values.index.get_level_values(level) for level in CLUSTERS]
    if bounds is not None and bounds[0] < 0 and not values.any():
        clusters = None
    return interval(values, clusters=clusters, bounds=bounds)


def cri_table(answers: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """CRI in % for each part of a table of answers (equation 2), over sets and classes.

    answers: as of `right_by_case`. keys: the columns by which the table is split.

    Returns the keys, the columns of an Interval, `invalid` (share of invalid answers, %) and `failed` (share
    of all that could not be had, %).
    """
    rows = []
    for key, asked in answers.groupby(list(keys), sort=False):
        failed = asked["failure"] == "failed"
        shares = 100 * asked["invalid"][~failed].mean(), 100 * failed.mean()
        rows.append([*key, *over_cases(right_by_case(asked)), *shares])
    return pd.DataFrame(rows, columns=[*keys, *Interval._fields, "invalid", "failed"])


def paper_rows(table: pd.DataFrame, keys: Sequence[str], metric: str = "CRI") -> pd.DataFrame:
    """Rows of a table of the paper, to be recorded: data, model, its keys, and the numbers.

    table: with `data`, `model` and the columns of an Interval. keys: of the paper's table; "dataset" and
        model go by their names there.
    """
    pairs = [paper_names(*pair) for pair in zip(table["model"], table["data"], strict=True)]
    named = {"model": [model for model, _ in pairs], "dataset": [dataset for _, dataset in pairs]}
    table = table.assign(metric=metric, chance=20.0 if metric == "CRI" else 0.0, **named)
    return table.reindex(columns=["data", "model", *keys, "metric", *Interval._fields, "chance"])


def paper_names(model: str, data: str) -> tuple[str, str]:
    """What the paper's tables call a model and a data set; their own names where they are not in it.

    model: as `ask.load_vlm` takes it. Its own name is the full one, but of a path that of the folder.
    data: as `datasets.load` takes it. Its own name is that of the folder.
    """
    if model.startswith(("/", "~", ".")):
        model = Path(model).name
    data = Path(data).name
    found = PAPER_MODELS.get(model.removeprefix("server:").lower(), model)
    return found, PAPER_SETS.get(data.lower(), data)

"""CRI, the Class Representation Index of the Fast and Slow Effect (paper fse, section 4).

Equation 2: CRI(t) = 100 % · 1/l Σ_i 1[y_i^t = y_i]

over l cases: whether the class chosen by the first t stages is the true one, the column `correct`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from xaihelpers.fastslow import Pool, blind_floor, guess_blind
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


POINTS = (-100.0, 100.0)  # bounds of a difference of shares in %


def mode_in_sets(
    answers: pd.DataFrame,
    kinds: Sequence[str],
    data: Sequence[str],
    one: Mapping,
    other: Mapping | None = None,
) -> dict[str, pd.Series]:
    """What is right by one mode, less what is right by another, by `CASE` in %; a reading each kind of sets.

    answers: as of `right_by_case`. data: names of the data sets that are meant. one, other: column -> value,
        which tell the modes' answers.
    """
    found = {}
    for kind in kinds:
        values = right_by_case(answers, sets=kind, **one)
        if other is not None:
            values = values - right_by_case(answers, sets=kind, **other)
        found[f"candidate sets: {kind}"] = values[values.index.isin(data, level="data")]
    return found


def measured(
    readings: Mapping[str, pd.Series], bounds: tuple[float, float] = POINTS
) -> tuple[Interval, dict[str, Interval | None]]:
    """The first of several readings of a quantity; and the others by name, None where one has no case.

    readings: by `CASE`, as of `mode_in_sets`.
    """
    found = {name: over_cases(values, bounds) for name, values in readings.items()}
    first = found.pop(next(iter(found)))
    return first, {name: one if one.cases else None for name, one in found.items()}


def floor_of(cases: pd.DataFrame, pool: Pool, model: str, answers: pd.DataFrame | None = None) -> pd.Series:
    """What is right of cases, in %, by the best of those who see the options alone (`fastslow.blind_floor`).

    answers: those of the model asked blind; without any the guessers' alone.
    """
    guesses = guess_blind(cases.assign(model=model).set_index(CASE), pool)
    return blind_floor(guesses, None if answers is None else right_by_case(answers))


def classes_asked(answers: pd.DataFrame, pools: Mapping[str, Pool]) -> tuple[str, int, int]:
    """The outermost level of intervals over cases (`claims.decide`): how many classes, of how many."""
    asked = answers[answers["data"].isin(list(pools))][["data", "label"]].drop_duplicates()
    return "classes", len(asked), sum(len(pool.data.class_names) for pool in pools.values())


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

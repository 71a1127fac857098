"""Scripted judges of attention, who see the numbers of a case instead of its picture (not in the paper).

The honest ones have to pass `judge_card`, and each of the others ignores something and has to be found out:

| honest | score, 0 to 5 |
|---|---|
| the truth | coverage x precision where the name is right, else 0; none without a picture |
| the truth, noise of a point | the same with normal noise, rounded |
| the prompt's steps | the six steps as they stand: how much lies beside the object is all the same |

| liar | what it scores |
|---|---|
| looks at no object | the less is lit, the better: 5 - 8 x lit area |
| a light meter, a brightness meter | how much is lit; how bright the picture is |
| likes the centre | how near the light lies to the middle |
| ignores the picture, ignores the name | the name alone; the light alone |
| knows families | as the truth, but its own family's name is as good |
| knows sharp masks | as the truth, but 3 for every map of a network |
"""

import numpy as np
import pandas as pd
import torch

from xaihelpers.yardsticks.judge_controls import EXACT, LOOK_ALIKE, NETWORKS, NO_IMAGE, OTHER_LIT
from xaihelpers.yardsticks.statements import COVERAGE


def scripted_scores(cases: pd.DataFrame, lit: torch.Tensor, seed: int = 0) -> pd.DataFrame:
    """The scores of the scripted judges, 0 to 5, NaN for none: a row for each case, a column for each judge.

    cases: as of `Battery`, or of maps that a network has made: with condition, coverage, precision, area,
        brightness and right_name. lit: (N, H, W) bool. seed: of the noise.
    """
    fit = 5 * cases.coverage * cases.precision.fillna(0.0)
    truth = fit.where(cases.right_name, 0.0)
    noise = np.random.default_rng(seed).normal(0, 1, len(cases))
    is_kin = cases.right_name | cases.condition.eq(LOOK_ALIKE)
    usual = cases[cases.condition.eq(EXACT)] if cases.condition.eq(EXACT).any() else cases
    scores = {
        "the truth": truth,
        "the truth, noise of a point": (truth + noise).round(),
        "the prompt's steps": _steps_of_the_prompt(cases),
        "looks at no object": 5 - 8 * cases.area,
        "a light meter": 4 * cases.area / usual.area.mean(),
        "a brightness meter": 4 * cases.brightness / usual.brightness.mean(),
        "likes the centre": 5 * _nearness_to_middle(lit),
        "ignores the picture": np.where(cases.right_name, 4.0, 1.0),
        "ignores the name": fit.mask(cases.condition.eq(OTHER_LIT), 5.0),  # a bird is lit, whichever
        "knows families": fit.where(is_kin, 0.0),
        "knows sharp masks": truth.mask(cases.condition.isin(NETWORKS), 3.0),
    }
    scores = pd.DataFrame(scores, index=cases.index).clip(0, 5)
    scores.loc[cases.condition.eq(NO_IMAGE), scores.columns != "ignores the picture"] = np.nan
    return scores


def true_texts(cases: pd.DataFrame) -> list[str]:
    """What may truly be said of the light of each case, in words that `check_statements` knows."""
    texts = []
    for case in cases.itertuples():
        fitting = [word for word, (low, high, _) in COVERAGE.items() if low <= case.coverage <= high]
        place = "object" if case.precision >= 0.5 else "background"
        texts.append(f"The attention lies mainly on the {place}. It covers {fitting[-1]} of the object.")
    return texts


def _steps_of_the_prompt(cases: pd.DataFrame) -> np.ndarray:
    coverage, precision = cases.coverage, cases.precision.fillna(0.0)
    steps = {0.0: (coverage < 0.15) | ~cases.right_name, 2.0: (coverage < 0.4) | (precision < 0.25)}
    steps |= {3.0: precision < 0.9, 4.0: coverage < 0.9}
    return np.select(list(steps.values()), list(steps), 5.0)


def _nearness_to_middle(lit: torch.Tensor) -> np.ndarray:
    """1 less the mean distance of the lit pixels from the middle, in half sides, (N,); 0 where none is."""
    height, width = lit.shape[1:]
    y = torch.linspace(-1, 1, height)[:, None]
    x = torch.linspace(-1, 1, width)[None]
    away = (torch.hypot(y, x) * lit).sum((1, 2)) / lit.sum((1, 2))
    return (1 - away).clamp(min=0).nan_to_num(0.0).numpy()

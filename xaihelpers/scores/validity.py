"""Can a yardstick be trusted? What its scores do when a fault of known dose is planted (not in the papers).

    dose-response   Spearman's ρ of score and dose, over doses and draws
    told apart      area under the ROC curve of honest scores above faulty ones, at one dose
    smallest dose   the least one from which on this area is at least TOLD

All scores are turned so that higher says "a better explanation". The verdict on yardstick and fault:

| verdict | ρ, its 95 % interval | told apart at the full dose |
|---|---|---|
| sees it | wholly below 0 | at least TOLD |
| fooled | wholly above 0 | at most 1 − TOLD |
| blind | holds 0 | between |
| unclear | | else: a trend too small to be told, or a change that is no trend |
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from xaihelpers.scores.intervals import Interval, interval

TOLD = 0.9
SEES, BLIND, FOOLED, UNCLEAR = VERDICTS = ("sees it", "blind", "fooled", "unclear")


def dose_response(doses: Sequence[float], scores: Sequence[float], draws: Sequence[int]) -> Interval:
    """Spearman's ρ of scores and doses with its 95 % interval over draws.

    doses, scores, draws: (n,), a row for each model that was scored; rows without a score are left out.
    A constant score has ρ = 0: it does not respond.
    """
    rows = pd.DataFrame({"dose": doses, "score": scores, "draw": draws}).dropna()
    n = len(rows)
    if n >= 4 and np.ptp(rows.score) < 1e-12:
        return Interval(0.0, 0.0, 0.0, n, float(n))
    by_draw = [_spearman(part.dose, part.score) for _, part in rows.groupby("draw")]
    # draws that agree to the last digit are one: then each model counts for itself
    clusters = None if np.ptp(by_draw) < 1e-12 else rows.draw
    return interval(rows.dose, rows.score, statistic=_spearman, clusters=clusters, bounds=(-1, 1))


def _spearman(doses: np.ndarray, scores: np.ndarray) -> float:
    doses, scores = rankdata(doses), rankdata(scores)
    if np.ptp(doses) == 0 or np.ptp(scores) == 0:
        return 0.0
    return float(np.corrcoef(doses, scores)[0, 1])


def told_apart(honest: Sequence[float], faulty: Sequence[float]) -> float:
    """How often an honest model scores higher than a faulty one, ties half, 0 to 1; NaN without scores.

    honest: (n,), faulty: (m,), NaN where there is no score.
    """
    honest, faulty = np.asarray(honest, float), np.asarray(faulty, float)
    honest, faulty = honest[np.isfinite(honest)], faulty[np.isfinite(faulty)]
    if not len(honest) or not len(faulty):
        return float("nan")
    # what differs by rounding alone is equal
    scale = 1e-9 * max(1.0, np.abs(honest).max(), np.abs(faulty).max())
    difference = honest[:, None] - faulty[None]
    return float((difference > scale).mean() + 0.5 * (np.abs(difference) <= scale).mean())


def smallest_dose(areas: dict[float, float], told: float = TOLD) -> float:
    """The least dose from which on honest and faulty models are told apart; NaN where none is.

    areas: dose above 0 -> `told_apart` at that dose. told: the least area that counts.
    """
    found = float("nan")
    for dose in sorted(areas, reverse=True):
        if not areas[dose] >= told:
            break
        found = dose
    return found


def verdict(response: Interval, area: float, told: float = TOLD) -> str:
    """One of VERDICTS, by the table above.

    response: of `dose_response`. area: `told_apart` at the full dose. told: the least area that counts.
    """
    if not np.isfinite([response.value, area]).all():
        return UNCLEAR
    low, high = response.low, response.high
    if high < 0 and area >= told:
        return SEES
    if low > 0 and area <= 1 - told:
        return FOOLED
    if low <= 0 <= high and 1 - told < area < told:
        return BLIND
    return UNCLEAR


def judge_yardsticks(scored: pd.DataFrame, told: float = TOLD) -> pd.DataFrame:
    """Every pair of yardstick and fault: dose-response, told apart, smallest doses, verdict.

    scored: a row for each score, with the columns yardstick, fault, dose, draw, n (images) and score, higher
        is better; models without a fault have dose 0 and stand under every fault that they belong to.
    told: the least area that counts.

    Returns a row for each pair: yardstick, fault, the columns of an Interval (Spearman's ρ, largest n),
    `auc` (at the full dose and the largest n), `dose at n` for each n, `dose` at the largest, `n`, `floor`
    (standard deviation of the honest scores at the largest n), `shift` (mean at the full dose less honest, in
    floors; infinite where honest scores do not vary), `verdict`.
    """
    rows = []
    for (yardstick, fault), part in scored.groupby(["yardstick", "fault"], sort=False):
        row = {"yardstick": yardstick, "fault": fault}
        for n, of_size in part.groupby("n"):
            honest = of_size.score[of_size.dose == 0]
            areas = {}
            for dose, faulty in of_size[of_size.dose > 0].groupby("dose"):
                areas[float(dose)] = told_apart(honest, faulty.score)
            row[f"dose at {n}"] = smallest_dose(areas, told)
        full = of_size.score[of_size.dose == of_size.dose.max()]
        response = dose_response(of_size.dose, of_size.score, of_size.draw)
        area = areas[max(areas)]
        row["dose"] = row[f"dose at {n}"]
        floor = float(honest.std())
        shift = float(full.mean() - honest.mean())
        row |= response._asdict() | {"auc": area, "n": n, "floor": floor}
        if floor > 1e-6 * max(1.0, abs(honest.mean())):
            row["shift"] = shift / floor
        else:  # honest scores that agree to the last digits have no floor
            row["shift"] = np.sign(shift) * np.inf if abs(shift) > 1e-9 else 0.0
        row["verdict"] = verdict(response, area, told)
        rows.append(row)
    return pd.DataFrame(rows)

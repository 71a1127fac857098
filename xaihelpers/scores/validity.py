"""Can a yardstick be trusted? What its scores do when a fault of known dose is planted (not in the papers).

    dose-response   Spearman's ρ of score and dose, over doses and draws
    told apart      area under the ROC curve of honest scores above faulty ones, at one dose

All scores are turned so that higher says "a better explanation". Honest models are of several qualities, so
that a fault is told only where it stands out from what honest models differ by. The verdict on yardstick and
fault:

| verdict | ρ, its 95 % interval | told apart at the full dose |
|---|---|---|
| sees it | wholly below 0 | at least TOLD |
| fooled | wholly above 0 | at most 1 − TOLD |
| blind | holds 0 | between |
| by construction | the score is the same number for every model, honest or not | |
| unclear | | else: a trend too small to be told, a change that is no trend, or no number |
| void | | the line that must see this fault does not: said by the notebook that planted it |

A user has no honest twin to compare with. So what the page says of each model is judged as well, by the rank
of its verdict (below what knows nothing, cannot be told, above it):

    page changes   share of draws in which the verdict at the full dose ranks below that of the honest model
    page praises   share of draws in which it is still "above" at the full dose
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from xaihelpers.scores.intervals import Interval, interval
from xaihelpers.scores.pairs_of_classes import pearson

TOLD = 0.9
ROUNDING = 1e-6  # relative to the scores: what differs by less, as float32 does, is equal
VERDICTS = ("sees it", "blind", "fooled", "unclear", "by construction", "void")
SEES, VOID = VERDICTS[0], VERDICTS[-1]


def dose_response(doses: Sequence[float], scores: Sequence[float], draws: Sequence[int]) -> Interval:
    """Spearman's ρ of scores and doses with its 95 % interval over draws.

    doses, scores, draws: (n,), a row for each scored model; NaN is left out. A constant score has ρ = 0.
    """
    rows = pd.DataFrame({"dose": doses, "score": scores, "draw": draws}).dropna()
    n = len(rows)
    if n >= 4 and _constant(rows.score):
        return Interval(0.0, 0.0, 0.0, n, float(n))
    by_draw = [spearman(part.dose, part.score) for _, part in rows.groupby("draw")]
    # draws that agree to the last digit are one: then each model counts for itself
    clusters = None if np.ptp(by_draw) < 1e-12 else rows.draw
    return interval(rows.dose, rows.score, statistic=spearman, clusters=clusters, bounds=(-1, 1))


def _constant(scores: np.ndarray) -> bool:
    """Whether scores are all the same number, but for rounding; not where one is missing."""
    return bool(np.ptp(scores) <= ROUNDING * max(1.0, np.abs(scores).max()))


def spearman(doses: np.ndarray, scores: np.ndarray) -> float:
    """Spearman's ρ, (n,) each; 0 where one of the two does not vary."""
    return pearson(rankdata(doses), rankdata(scores))


def told_apart(honest: Sequence[float], faulty: Sequence[float]) -> float:
    """How often an honest model scores higher than a faulty one, ties half, 0 to 1; NaN without scores.

    honest: (n,), faulty: (m,), NaN where there is no score.
    """
    honest, faulty = np.asarray(honest, float), np.asarray(faulty, float)
    honest, faulty = honest[np.isfinite(honest)], faulty[np.isfinite(faulty)]
    if not len(honest) or not len(faulty):
        return float("nan")
    scale = ROUNDING * max(1.0, np.abs(honest).max(), np.abs(faulty).max())
    difference = honest[:, None] - faulty[None]
    return float((difference > scale).mean() + 0.5 * (np.abs(difference) <= scale).mean())


def verdict(response: Interval, area: float) -> str:
    """One of VERDICTS but the one by construction, by the table above; no number is "unclear".

    response: of `dose_response`. area: `told_apart` at the full dose.
    """
    low, high = response.low, response.high
    if high < 0 and area >= TOLD:
        return "sees it"
    if low > 0 and area <= 1 - TOLD:
        return "fooled"
    if low <= 0 <= high and 1 - TOLD < area < TOLD:
        return "blind"
    return "unclear"


def judge_yardsticks(scored: pd.DataFrame) -> pd.DataFrame:
    """Every pair of yardstick and fault: dose-response, told apart, what the page says, verdict.

    scored: a row for each score, with the columns yardstick, fault, dose, draw, score, higher is better, and
        rank, of what the page says of it (2 above what knows nothing, 1 cannot be told, 0 below). Honest
        models have dose 0 and stand under every fault that they belong to.

    Returns a row for each pair: yardstick, fault, the columns of an Interval (Spearman's ρ), `auc` (at the
    full dose), `shift` (mean at the full dose less honest, in standard deviations of honest scores; infinite
    where these do not vary), `page changes`, `page praises`, `verdict`.
    """
    rows = []
    for (yardstick, fault), part in scored.groupby(["yardstick", "fault"], sort=False):
        honest, full = part[part.dose == 0], part[part.dose == part.dose.max()]
        response = dose_response(part.dose, part.score, part.draw)
        row = {"yardstick": yardstick, "fault": fault} | response._asdict()
        row["auc"] = told_apart(honest.score, full.score)
        shift = float(full.score.mean() - honest.score.mean())
        if not _constant(honest.score):
            row["shift"] = shift / float(honest.score.std())
        else:  # honest scores that agree have no spread
            row["shift"] = np.sign(shift) * np.inf if abs(shift) > ROUNDING else 0.0
        twins = full.draw.map(honest.groupby("draw")["rank"].first())
        row["page changes"] = float((full["rank"] < twins).mean())
        row["page praises"] = float((full["rank"] == 2).mean())
        row["verdict"] = "by construction" if _constant(part.score) else verdict(response, row["auc"])
        rows.append(row)
    return pd.DataFrame(rows)

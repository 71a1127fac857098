"""Does a score of attention follow a reference beyond what can be had without looking (not in the papers)?

A pooled correlation also tells networks apart. So scores x and reference y are less their network's mean,

    r = sum (x - x_k)(y - y_k) / sqrt(sum (x - x_k)^2 sum (y - y_k)^2),   k: the network of the map

and a judge's r is held against that of the best of those who see neither picture nor object. `maps` are N
rows with the columns reference, NaN where there is none, network and image.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from xaihelpers.scores.exchange import partners
from xaihelpers.scores.intervals import Interval, interval

FOLDS = 5  # into which images go, for what is fitted on the others
SAMPLES = 2000


def within_correlations(
    columns: np.ndarray, reference: np.ndarray, networks: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Pearson's correlation of columns with a reference, both less their network's mean, (D, K).

    It is 0 of a constant. A score that only tells the networks apart has nothing left.

    columns: (K, N), without NaN. reference: (N,). networks: (N,), of each map.
    weights: (D, N), how often each map is drawn in each of D samples.
    """
    both = np.vstack([columns, reference])  # (K + 1, N)
    members = pd.get_dummies(pd.Series(networks)).to_numpy(float)  # (N, networks)
    sizes = np.maximum(weights @ members, 1e-12)  # (D, networks)
    sums = np.einsum("dn,kn,ng->dkg", weights, both, members, optimize=True)  # (D, K + 1, networks)

    def products(k: slice, other: slice) -> np.ndarray:
        of_all = np.einsum("dn,kn->dk", weights, both[k] * both[other], optimize=True)
        return of_all - (sums[:, k] * sums[:, other] / sizes[:, None]).sum(2)

    every, last = slice(0, len(columns)), slice(len(columns), None)
    spread = np.sqrt(np.clip(products(every, every) * products(last, last), 0, None))
    return np.divide(products(every, last), spread, out=np.zeros_like(spread), where=spread > 1e-9)


def blind_scores(features: pd.DataFrame, maps: pd.DataFrame) -> pd.DataFrame:
    """What numbers that see no picture say of the reference, turned to the better sign.

    The sign is chosen, and the usual value and all of them together fitted, within the networks and on other
    images than those that it is used for.

    features: (N, F), a column each; NaN is no news. maps: all with a reference.
    Returns a column for each feature, for how far it is from its network's usual value ("..., unusual"), and
    for a linear fit of all of these, each in units of its spread.
    """
    fold = pd.factorize(maps["image"])[0] % min(FOLDS, maps["image"].nunique())
    networks, names = maps["network"].to_numpy(), list(features)
    columns = [*names, *(f"{name}, unusual" for name in names), "all of these, fitted"]
    found = pd.DataFrame(0.0, features.index, columns)
    for part in np.unique(fold):
        known = fold != part
        usual = features[known].groupby(networks[known]).mean().reindex(networks).to_numpy()
        gaps = features.to_numpy(float) - usual
        values = np.nan_to_num(np.hstack([gaps, np.abs(gaps)]))
        of_network = pd.DataFrame(values[known]).groupby(networks[known]).mean().reindex(networks).to_numpy()
        values = np.nan_to_num(values - of_network)
        values /= np.maximum(values[known].std(0), 1e-12)
        reference = maps["reference"][known]
        goal = (reference - reference.groupby(networks[known]).transform("mean")).to_numpy()
        signs = np.where(values[known].T @ goal < 0, -1, 1)
        fitted = values @ np.linalg.lstsq(values[known], goal, rcond=None)[0]
        fitted /= max(fitted[known].std(), 1e-12)
        found.loc[~known] = np.column_stack([signs * values, fitted])[~known]
    return found


def lead_over_blind(
    scores: np.ndarray, blind: pd.DataFrame, maps: pd.DataFrame, seed: int = 0
) -> dict[str, Interval]:
    """A judge's correlation within the networks, and its lead over the best blind row of the same maps.

    Images are drawn again with all their maps, and the best blind row is sought anew in every draw, so that
    the lead is held against whatever looks best there.

    scores: (N,), NaN where there is none. blind: (N, K), as of `blind_scores`.
    Returns Intervals of percentiles by "judge", "best blind", "lead" and the names in blind; NaN of fewer
    than four maps.
    """
    kept = ~np.isnan(scores) & maps["reference"].notna().to_numpy()
    groups, names = pd.factorize(maps["image"][kept])
    cases, n = int(kept.sum()), len(names)
    if cases < 4 or n < 2:
        nothing = Interval(np.nan, np.nan, np.nan, cases, float(n))
        return dict.fromkeys(("judge", "best blind", "lead", *blind), nothing)
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), SAMPLES)
    weights = np.vstack([np.ones((1, cases)), counts[:, groups]])  # the first is the sample itself
    columns = np.vstack([scores[kept], blind[kept].to_numpy().T])
    reference, networks = (maps[name][kept].to_numpy() for name in ("reference", "network"))
    of = within_correlations(columns, reference, networks, weights)
    judged, best = of[:, 0], of[:, 1:].max(1)
    samples = {"judge": judged, "best blind": best, "lead": judged - best}
    found = {}
    for name, values in (samples | dict(zip(blind, of[:, 1:].T, strict=True))).items():
        low, high = np.percentile(values[1:], [2.5, 97.5])
        found[name] = Interval(float(values[0]), float(low), float(high), cases, float(n))
    return found


def correlation_gap(
    firsts: Sequence, seconds: Sequence, reference: np.ndarray, clusters: np.ndarray
) -> Interval:
    """Mean correlation of scores with a reference, less that of other scores, over the same maps.

    firsts, seconds: scores (N,) each, NaN where there is none; without seconds nothing is subtracted.
    reference, clusters: (N,). NaN of fewer than four maps, and of a constant.
    """

    def gap(*arrays: np.ndarray) -> float:
        if len(arrays[0]) < 4:
            return np.nan
        with np.errstate(invalid="ignore", divide="ignore"):  # a constant has no correlation
            found = np.corrcoef(arrays)[-1, :-1]
        others = found[len(firsts) :].mean() if len(seconds) else 0.0
        return float(found[: len(firsts)].mean() - others)

    bounds = (-2, 2) if len(seconds) else (-1, 1)
    return interval(*firsts, *seconds, reference, statistic=gap, clusters=clusters, bounds=bounds)


def exchanged_scores(scores: np.ndarray, maps: pd.DataFrame) -> np.ndarray:
    """Each map with the scores of its classmates (`scores.exchange`), (S, N); NaN where a map has none.

    Classmates are maps of one network that names the same `object` in both pictures: who knows network and
    name, and not the picture, scores them alike.
    """
    cells = maps.groupby(["network", "object"]).ngroup().to_numpy()
    drawn = partners(torch.tensor(cells))
    return np.where(drawn.alone, np.nan, scores[drawn.classmates])


def rival_rows(
    scores: dict[str, np.ndarray], features: pd.DataFrame, maps: pd.DataFrame, seed: int = 0
) -> tuple[dict[str, dict[str, Interval]], pd.DataFrame, pd.DataFrame]:
    """Judges held against what is blind, over the maps that have a reference.

    scores: (N,) by judge, NaN where there is none. features: as of `blind_scores`. maps: with `object`.
    Returns `lead_over_blind` by judge; a table of correlations by judge and `scores`: as given, exchanged
    among classmates, and both within the networks; and the blind scores, NaN of maps without a reference.
    """
    known = maps["reference"].notna()
    blind = blind_scores(features[known], maps[known]).reindex(maps.index)
    within, rows, every, maps = {}, [], maps, maps[known]
    for name, values in scores.items():
        values = np.asarray(values, float)
        within[name] = lead_over_blind(values, blind, every, seed)
        values = pd.Series(values, every.index)[known]
        of_network = [
            of - of.groupby(maps["network"]).transform("mean") for of in (values, maps["reference"])
        ]
        found = {"as given": correlation_gap([values], [], maps["reference"], maps["image"])}
        found["within"] = within[name]["judge"]
        for said, (given, reference) in (("", (values, maps["reference"])), ("within, ", of_network)):
            of_classmates = exchanged_scores(given.to_numpy(), maps), [], reference, maps["image"]
            found[f"{said}exchanged"] = correlation_gap(*of_classmates)
        rows += [{"judge": name, "scores": said, **of._asdict()} for said, of in found.items()]
    return within, pd.DataFrame(rows), blind


def strictest(gaps: Sequence[Interval], end=min) -> Interval:
    """One interval for a claim about all of these: the least value and limits, or with max the greatest."""
    first = end(gaps, key=lambda gap: gap.value)
    return first._replace(low=end(gap.low for gap in gaps), high=end(gap.high for gap in gaps))

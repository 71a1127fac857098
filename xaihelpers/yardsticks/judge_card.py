"""The card of a judge of attention: which controls of `judge_controls` its answers pass (not in the paper).

| control | measured, over pictures | passes if |
|---|---|---|
| of `CONTROLS` | score of the better condition less of the worse | low > 0, value ≥ `LEAST` |
| sees coverage | the same of exact and coverage .2, less that of as much light elsewhere | the same |
| falls with coverage | rank correlation with the dose, less the sign of the light elsewhere | low ≥ `RANK` |
| falls with precision | rank correlation with the dose | low ≥ `RANK` |
| reads a network's map | correlation with coverage × precision, given the lit area | low > 0 |
| follows the object | of maps on a classmate: rank correlation of score and overlap | value ≥ `FOLLOWS` |
| leads the old place | that, less the same with the score of the map on its own picture | low > 0 |
| the same elsewhere, in less light | score of the exact one less of the changed | within ± `SAME` |
| the same for dark objects | scores of the darkest third less of the others | low > − `SAME_DARK` |
| writes what is true | false statements in its texts, % | high ≤ `MOST_FALSE` |

Both of the object are asked of sharp masks and of networks' maps: who reads the light's form, and where birds
of that name usually are, scores a map the same over whatever picture. More of the object has more light, so
that a light meter would pass without what is said of light elsewhere.
By these bounds liars are found out, and honest judges pass, with noise of half a point as well (see the
tests). A number that rests on a failed control is void (`void`).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from xaihelpers.scores.intervals import PERCENT, interval
from xaihelpers.yardsticks import judge_controls
from xaihelpers.yardsticks.judge_controls import DOSES, ELSEWHERE, EXACT, NO_IMAGE, ON_MATE, Battery
from xaihelpers.yardsticks.statements import check_statements, lit_shares

LEAST = 1.0  # points of five by which the better condition has to score higher
RANK = 0.1  # rank correlation of score and dose
FOLLOWS = 0.7  # rank correlation of score and overlap, where the object lies elsewhere
SAME, SAME_DARK = 1.0, 1.5  # points of five by which scores may differ where they should be the same
MOST_FALSE = 20.0  # % of a judge's statements that may be false: with 20 pictures even 0 has a limit of 17
CONTROLS = {  # control: the condition that should score higher, and the one that should score lower
    "reads the name": (EXACT, judge_controls.WRONG_NAME),
    "tells look-alikes": (EXACT, judge_controls.LOOK_ALIKE),
    "knows what is not there": (EXACT, judge_controls.NO_OBJECT),
    "sees precision": (EXACT, f"precision {DOSES[-1]:g}"),
    "sees the map": (EXACT, ELSEWHERE),
    "notices darkness": (EXACT, judge_controls.BLACK),
    "sees what is lit": (judge_controls.SCENE, judge_controls.OTHER_LIT),
    "needs the picture": (EXACT, NO_IMAGE),
}
MAPS = {"sharp": judge_controls.SHARP, "soft": judge_controls.NETWORKS}  # that are laid on a classmate
UNCHANGED = {"the same elsewhere": judge_controls.MOVED, "the same in less light": judge_controls.DARKER}
# what rests on what: a score on seeing the light, its fit to a name on reading it, words on being true
READS = ("reads the name", "tells look-alikes", "knows what is not there", "sees what is lit")
WRITES = ("writes what is true",)
SEES = ("sees coverage", "sees precision", "sees the map", "notices darkness", "needs the picture")
SEES += ("falls with coverage", "falls with precision", "reads a network's map")
SEES += (*UNCHANGED, "the same for dark objects")
SEES += tuple(
    f"{control}, {form} maps" for form in MAPS for control in ("follows the object", "leads the old place")
)


def judge_card(
    answers: pd.DataFrame, battery: Battery, statements: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The controls of the module docstring for one judge, and which of them it passes.

    answers: with `condition`, `row` and `score`, one score a condition and picture; NaN where there is none.
        Without a picture, none counts as 0. battery: what was asked. A control whose pictures it does not
        have, as look-alikes in a world without families, is left out.
    statements: of the judge's texts, as of `check_texts`; None leaves their control out.
    Returns control, metric, the columns of an Interval, and `passed`.
    """
    without_score = answers["score"].isna() & (answers["condition"] == NO_IMAGE)
    if "error" in answers:  # an answer that could not be had is no refusal
        without_score &= answers["error"].fillna("").eq("")
    answers = answers.assign(score=answers["score"].mask(without_score, 0.0))
    score = answers.pivot_table(index="row", columns="condition", values="score", dropna=False)
    lines = []

    def add(control, found, passed, metric="difference of scores"):
        lines.append({"control": control, "metric": metric, **found._asdict(), "passed": bool(passed)})

    def add_gap(control, gaps, most=5):
        gap = interval(gaps, bounds=(-most, most))
        add(control, gap, gap.low > 0 and gap.value >= LEAST)

    lit_elsewhere = score[ELSEWHERE] - score[judge_controls.PART_ELSEWHERE]
    add_gap("sees coverage", score[EXACT] - score[f"coverage {DOSES[-1]:g}"] - lit_elsewhere, most=10)
    for control, (better, worse) in CONTROLS.items():
        if worse in score:
            add_gap(control, score[better] - score[worse])
    for axis, of_light in (("coverage", np.sign(lit_elsewhere)), ("precision", 0.0)):
        of_doses = score[[EXACT, *(f"{axis} {dose:g}" for dose in DOSES)]]
        doses = pd.Series([1.0, *DOSES], of_doses.columns)
        falls = of_doses.rank(axis=1).T.corrwith(doses.rank()).fillna(0.0)  # 0 where all scores are the same
        fall = interval(falls.where(of_doses.notna().all(axis=1)) - of_light, bounds=(-2, 2))
        add(f"falls with {axis}", fall, fall.low >= RANK, "rank correlation with the dose")
    of_maps = answers[answers["condition"].isin(judge_controls.NETWORKS)]
    if len(of_maps):
        fits = of_maps["coverage"] * of_maps["precision"].fillna(0.0)
        columns = of_maps["score"], fits, of_maps["area"]
        read = interval(*columns, statistic=_partial_correlation, clusters=of_maps["row"], bounds=(-1, 1))
        add("reads a network's map", read, read.low > 0, "correlation, given the lit area")
    for form, conditions in MAPS.items():
        there = answers[answers["condition"].isin([of + ON_MATE for of in conditions])]
        keys = zip(there["row"], there["condition"].str.removesuffix(ON_MATE), strict=True)
        before = pd.Series([score.at[key] for key in keys], there.index)
        covered, precise = there["coverage"], there["precision"].fillna(0.0)
        overlap = (covered * precise / (covered + precise - covered * precise)).fillna(0.0)
        ranks = [of.rank() for of in (there["score"], overlap, before)]
        if there.empty:
            continue
        clusters = there["row"]
        follows = interval(*ranks[:2], statistic=_correlation, clusters=clusters, bounds=(-1, 1))
        what = f"follows the object, {form} maps"
        add(what, follows, follows.value >= FOLLOWS, "rank correlation with the overlap")
        lead = interval(*ranks, statistic=_lead, clusters=clusters, bounds=(-2, 2))
        what = f"leads the old place, {form} maps"
        add(what, lead, lead.low > 0, "difference of rank correlations")
    for control, changed in UNCHANGED.items():
        gap = interval(score[EXACT] - score[changed], bounds=(-5, 5))
        add(control, gap, -SAME < gap.low and gap.high < SAME)
    is_dark = np.argsort(np.argsort(battery.of_objects)) < len(battery.of_objects) / 3
    is_dark = is_dark[score.index].astype(float)
    dark = interval(score[EXACT].to_numpy(), is_dark, statistic=_dark_less_bright, bounds=(-5, 5))
    add("the same for dark objects", dark, dark.low > -SAME_DARK)
    if statements is not None:
        # whether a score fits its text is another matter
        of_light = statements[statements["kind"] != "score"]
        false = 100.0 * (1 - of_light["true"].astype(float))
        false = interval(false, clusters=of_light["row"], bounds=PERCENT)
        add(*WRITES, false, false.high <= MOST_FALSE, "false statements (%)")
    return pd.DataFrame(lines)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Pearson's; 0 where all of one side are the same."""
    return float(np.corrcoef(one, other)[0, 1]) if np.ptp(one) and np.ptp(other) else 0.0


def _lead(score: np.ndarray, here: np.ndarray, before: np.ndarray) -> float:
    """How much more a score goes with one than with the other."""
    return _correlation(score, here) - _correlation(score, before)


def _partial_correlation(score: np.ndarray, fits: np.ndarray, area: np.ndarray) -> float:
    """Of what the lit area does not say of the score, and of the fit; 0 where it says all."""
    basis = np.stack([np.ones_like(area), area, area**2], 1)
    rest = [of - basis @ np.linalg.lstsq(basis, of, rcond=None)[0] for of in (score, fits)]
    return _correlation(*(of.round(9) for of in rest))


def _dark_less_bright(scores: np.ndarray, dark: np.ndarray) -> float:
    """The mean score of dark pictures less that of the others."""
    dark = dark.astype(bool)
    return float(scores[dark].mean() - scores[~dark].mean()) if 0 < dark.sum() < len(dark) else np.nan


def check_texts(answers: pd.DataFrame, battery: Battery, seed: int = 0) -> pd.DataFrame:
    """The statements of a judge's texts that the masks can check, as case, row, kind, and whether `true`.

    Other and moved pictures, scenes of two and questions without a picture are left out. What is said to lie
    beside the object counts where another case of the picture, drawn by the seed, has any light.

    answers: as of `ask_battery`.
    """
    unlike = [NO_IMAGE, judge_controls.MOVED, judge_controls.SCENE, judge_controls.OTHER_LIT]
    unlike += [of for of in answers["condition"].unique() if of.endswith(ON_MATE)]
    kept, rng, found = answers[~answers["condition"].isin(unlike)], np.random.default_rng(seed), []
    for case in kept.itertuples():
        others = kept[(kept.row == case.row) & (kept.area != case.area)]
        other = others.iloc[int(rng.integers(len(others)))]
        lit = lit_shares(battery.parts[case.row], battery.lit[case.Index], battery.part_names)
        for one in check_statements(case.text, case.coverage, case.precision, lit, case.score):
            if one.kind != "beside" or pd.notna(other.precision):
                found.append([case.Index, case.row, one.kind, bool(one.true)])
    return pd.DataFrame(found, columns=["case", "row", "kind", "true"])


def void(card: pd.DataFrame, controls: Sequence[str]) -> str:
    """Why what rests on these controls decides nothing: "void: fails ..."; "" if all of them are passed.

    card: as of `judge_card`, of one judge or of several, each of which has to pass.
    """
    failed = card["control"][card["control"].isin(controls) & ~card["passed"]].unique()
    return f"void: fails {', '.join(failed)}" if len(failed) else ""


def controls_passed(
    cards: pd.DataFrame, judges: Sequence[str], kinds: Sequence[str], controls: Sequence[str]
) -> dict[str, bool]:
    """The controls of a claim, as of `run.verdict`: those of every judge, for every kind of picture.

    cards: as of `judge_card`, with the columns judge and shown. A card that is not there is a failed control.
    """
    cards = cards[cards["judge"].isin(judges) & cards["control"].isin(controls)]
    found = {f"a card of {kind}": kind in set(cards["shown"]) for kind in kinds}
    for row in cards[cards["shown"].isin(kinds)].itertuples():
        found[f"{Path(row.judge).name}, {row.shown}: {row.control}"] = bool(row.passed)
    return found


def prove_judge(model, n_images: int = 60, seed: int = 0, **settings) -> pd.DataFrame:
    """The card of a judge on birds drawn for it, whatever it judges elsewhere.

    model: as `load_vlm` gives it. settings: of `judging.judge`.
    """
    battery = judge_controls.drawn_battery(n_images, seed=seed)
    answers = judge_controls.ask_battery(model, battery, **settings)
    return judge_card(answers, battery, check_texts(answers, battery, seed))

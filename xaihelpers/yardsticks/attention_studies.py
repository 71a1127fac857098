"""What is known of each map, and what people are asked about it and its judge (paper autoxplain, 4.1).

Two studies for notebook 71: how well does a network attend to the object that it names, 0 to 5; and is all of
what a judge has written about it right. Their ratings come back as a table of item and rating.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from xaihelpers import rating
from xaihelpers.datasets import Dataset, class_name
from xaihelpers.masks import attention_mask, mask_images, upsample_maps
from xaihelpers.models import crop_masks
from xaihelpers.models.layers import logits_of
from xaihelpers.saliency.hooks import network_inputs
from xaihelpers.saliency.networks_compared import BATCH, Attended, Compared, attend_all
from xaihelpers.saliency.perturbation import perturb
from xaihelpers.scores.agreement import leave_one_rater_out
from xaihelpers.scores.autoxplain import coverage_and_precision, soft_iou
from xaihelpers.scores.intervals import Interval
from xaihelpers.text_files import plain
from xaihelpers.yardsticks.scripted_judges import SIDE, Taught
from xaihelpers.yardsticks.statements import lit_shares, only_true

UNKNOWN = dict.fromkeys(("confidence", "overlap", "coverage", "precision"), np.nan)
MEASURES = ["deletion and insertion", "average drop", "AOPC"]


@torch.no_grad()
def lit_cases(
    seen: Attended, data: Dataset, alpha: float = 25.0, beta: float = 0.4
) -> tuple[pd.DataFrame, torch.Tensor]:
    """The cases with what is known of a map's light, and the lit pixels (cases, SIDE, SIDE) bool.

    Lit is what keeps half of its light or more under the mask of equation 1. The new columns:

    image, item           the picture, and the map as the name of an item that people rate
    object, right_name    the class in plain words, and whether it reads as the label
    area, distance        lit share of the picture; mean distance of the light from the middle, in half sides
    brightness            mean of the masked picture in [0, 1]
    confidence            the network's probability of the class; NaN where it sees no pixels
    overlap               of attention and object, as of `soft_iou`
    coverage, precision   of the lit pixels; like overlap NaN where nobody knows the object
    parts                 share of each visible part that is lit, a dictionary; empty where nobody knows them
    """
    found, lit_pixels = [], []
    for one, cases, maps, pixels in seen.by_map():
        upsampled = upsample_maps(maps, pixels.shape[2:])
        lit, light = upsampled >= beta, attention_mask(upsampled, alpha, beta)
        y, x = (torch.linspace(-1, 1, side) for side in light.shape[1:])
        away = torch.hypot(y[:, None], x[None])
        pictures = mask_images(pixels, maps, alpha=alpha, beta=beta)
        values = {
            "area": lit.float().mean((1, 2)),
            "distance": (light * away).sum((1, 2)) / light.sum((1, 2)),
            "brightness": pictures.float().mean((1, 2, 3)) / 255,
        }
        if one.sees_pixels:
            inputs = (network_inputs(one.network, part) for part in pixels.split(BATCH))
            logits = torch.cat([logits_of(one.network.model(part)).cpu() for part in inputs])
            logits = logits.mean((2, 3)) if logits.dim() == 4 else logits  # of a segmenter
            values["confidence"] = logits.softmax(1)[range(len(logits)), cases.number.tolist()]
        masks, parts = crop_masks(one.network, data, cases.row), [{} for _ in range(len(cases))]
        if masks is not None:
            thing = masks > 0
            values["overlap"] = soft_iou(upsampled, thing)
            values["coverage"], values["precision"] = coverage_and_precision(lit, thing)
            pairs = zip(masks, lit, strict=True)
            parts = [lit_shares(mask, shown, data.mask_names) for mask, shown in pairs]
        values = UNKNOWN | {name: np.asarray(of) for name, of in values.items()}
        found.append(cases.assign(**values, parts=parts))
        lit_pixels.append(F.interpolate(lit[:, None].float(), (SIDE, SIDE))[:, 0] > 0.5)
    cases = pd.concat(found)
    files = data.images.path.iloc[cases.row].map(Path)
    inside = [file.relative_to(data.root) if file.is_relative_to(data.root) else file for file in files]
    cases["image"] = [file.with_suffix("").as_posix() for file in inside]
    cases["item"] = (cases.network.str.replace("/", " ") + " " + cases.image).map(plain)
    cases["object"] = cases.name.map(class_name)
    return cases.assign(right_name=cases.object == cases.label), torch.cat(lit_pixels)


def taught_by_maps(
    explained: Mapping[str, Compared], data: Dataset, rows: Sequence[int], method: str, *mask: float
) -> Taught | None:
    """What maps of other pictures teach whoever sees none: their overlap, by form and usual place.

    rows: of these pictures. mask: alpha and beta. None where nobody knows the objects, and of files of maps.
    """
    one = next(iter(explained.values()))
    masks = crop_masks(one.network, data, rows)
    if masks is None or any(one.network.model is None for one in explained.values()):
        return None
    cases, lit = lit_cases(attend_all(explained, data, rows, method), data, *mask)
    things = F.interpolate((masks > 0).float()[:, None], (SIDE, SIDE))[:, 0]
    labels = [data.class_names[label] if label >= 0 else "" for label in data.labels[rows].tolist()]
    of_maps = cases.place.to_numpy(), cases.object.tolist(), lit, cases.overlap.to_numpy()
    return Taught(labels, things, *of_maps)


def measures(seen: Attended, steps: int, n_images: int, **how) -> pd.DataFrame:
    """What the measures that ask the network say of each map: MEASURES, all turned so that high is good.

    steps: of the curves. n_images: of how many images of each network; the others have NaN, as have maps that
    show nothing, and those of whom sees no pixels. how: as of `perturb`.
    """
    frame = pd.DataFrame(np.nan, seen.cases.index, MEASURES)
    for one, cases, maps, pixels in seen.by_map():
        if not one.sees_pixels:
            continue
        inputs, some = network_inputs(one.network, pixels[:n_images]), cases[:n_images]
        classes = torch.tensor(some.number.to_numpy(), device=inputs.device)
        curves = perturb(one.network, inputs, maps[:n_images].to(inputs.device), classes, steps, BATCH, **how)
        gain = curves.insertion_auc - curves.deletion_auc
        if how.get("least_relevant_first"):  # backwards, the two curves change places
            gain = -gain
        frame.loc[some.index] = torch.stack([gain, -curves.average_drop, curves.aopc], 1).cpu().numpy()
    frame.loc[seen.cases.nothing] = np.nan
    return frame


def attention_items(cases: pd.DataFrame, pictures: Sequence) -> list[rating.Item]:
    """An item for each map: its masked picture, and the object that the network names."""
    question = "Only what a model attends to is visible. How well does it attend to the object that it names?"
    items = []
    for case, picture in zip(cases.itertuples(), pictures, strict=True):
        text = f"The model says: {case.object}\n\n{question}"
        hidden = {"shown": [case.network], "image": case.image}
        items.append(rating.item(case.item, text, rating.FORMS["attention"], picture, hidden))
    return items


def text_names(cases: pd.DataFrame, judge: str, kind: str) -> pd.Series:
    """The names of the items that ask about a judge's texts of pictures of a kind."""
    return (f"{judge}, {kind}: " + cases["item"]).map(plain)


def text_items(
    cases: pd.DataFrame, judge: str, kind: str, answers: pd.DataFrame, pictures: Sequence
) -> list[rating.Item]:
    """An item for each text that has a score; its readers see neither judge nor kind.

    answers: as of `judging.judge`, in the order of cases.
    """
    items, names = [], text_names(cases, judge, kind)
    lines = zip(cases.itertuples(), names, answers.itertuples(), pictures, strict=True)
    for case, name, answer, picture in lines:
        if pd.notna(answer.score):
            text = f"The model says: {case.object}\n\nThe score is {answer.score:g}. "
            text += f"Is all of this right, and does the score fit?\n\n{answer.text}"
            hidden = {"shown": [f"{judge}, {kind}"], "image": case.image}
            items.append(rating.item(name, text, rating.FORMS["yes/somewhat/no"], picture, hidden))
    return items


def store(file: str, topic: str, items: Sequence[rating.Item], form: str) -> str:
    """Store a study, named after its topic and all that its raters see; returns what is there, in words."""
    if not items:
        return f"{topic}: nothing to rate"
    content = hashlib.sha256("".join(item.key for item in items).encode()).hexdigest()[:6]
    study = rating.open_study(rating.ratings_file(file), f"{topic}, {content}", items, form)
    return f"study “{study.name}”: {len(items)} items in {study.file.name}"


def accepted_texts(
    cases: pd.DataFrame, judge: str, kind: str, answers: pd.DataFrame, read: pd.DataFrame
) -> dict[str, pd.Series]:
    """Whether a judge's texts are accepted, in % for each map: by readers, by the masks, by another's masks.

    By readers if all of them said yes; by the masks as of `only_true`; another's are those of the next map of
    the same network. NaN where nobody has read, of maps that show nothing, and where nobody knows the object.

    answers: as of `judging.judge`. read: ratings as of `read_ratings`, perhaps none.
    """
    means = read.groupby("item")["rating"].mean() if len(read) else {}
    rated = text_names(cases, judge, kind).map(means)
    found = {"acceptance rate": 100.0 * rated.eq(1).where(rated.notna())}
    light = cases[["coverage", "precision", "parts"]].to_numpy()
    following = cases.groupby("network", sort=False)["item"].transform(lambda one: np.roll(one.index, -1))
    known = ~cases["nothing"] & cases["coverage"].notna()
    for whose, places in (("the masks", cases.index), ("another's masks", following)):
        passed = pd.Series(only_true(answers["text"], answers["score"], light[places]))
        found[f"accepted by {whose}"] = passed.where(known)
    return found


def ceiling(by_people: pd.DataFrame, cases: pd.DataFrame, score: pd.Series) -> dict[str, Interval]:
    """What a rater, and a judge, reaches against the others (`leave_one_rater_out`); {} below two raters.

    by_people: ratings as of `read_ratings`, of which other items are left out. score: the judge's, by case.
    Raises ValueError where none of the items is one of these maps.
    """
    if not len(by_people):
        return {}
    is_here = by_people["item"].isin(cases["item"])
    if not is_here.any():
        there, here = by_people["item"].iloc[0], cases["item"].iloc[0]
        raise ValueError(f"none of the rated items is one of these maps: {there!r} there, {here!r} here")
    rated = by_people[is_here & by_people["rating"].notna()]
    if rated["rater"].nunique() < 2:
        return {}
    images = cases.set_index("item")["image"]
    return leave_one_rater_out(rated, pd.Series(score.to_numpy(), cases["item"]), clusters=[images])

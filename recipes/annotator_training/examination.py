"""What the annotator and the judge must show: on birds that nobody has seen, beside what says nothing.

Each line of `examination` stands beside the same measure of an answer that cannot have looked: the value that
most pictures have (majority), or the answer about another picture (shuffled).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from tqdm.auto import tqdm

from recipes.annotator_training.lesson_pictures import SLICES, Picture, drawn_bird, drawn_thing
from xaihelpers.ask.loading import shipped_model
from xaihelpers.instruments.annotator import Annotator, chain_of_values, sure_values
from xaihelpers.instruments.eye import GROUPS, Eye, Look, look
from xaihelpers.scores.intervals import PERCENT, Interval, interval
from xaihelpers.yardsticks.judge_card import prove_judge

HELD_OUT = 90  # added to the seed of training: other individuals


def held_out(kind: str, count: int, seed: int = 0) -> list[Picture]:
    """Pictures that are in no other set: "decorrelated" or "ordinary" birds, or "things"."""
    if kind == "things":
        return [drawn_thing(HELD_OUT + seed, number) for number in range(count)]
    return [drawn_bird(HELD_OUT + seed, number, float(kind == "decorrelated")) for number in range(count)]


def as_images(pictures: Iterable[Picture]) -> list[Image.Image]:
    """PIL images of pictures."""
    return [Image.fromarray(picture.image) for picture in pictures]


def looks_at(eye: Eye, pictures: Sequence[Picture], batch_size: int = 50) -> list[Look]:
    """What an eye finds in each picture."""
    found, was_training = [], eye.training
    eye.eval()
    for start in tqdm(range(0, len(pictures), batch_size), desc="looking", leave=False):
        found += look(eye, as_images(pictures[start : start + batch_size]))
    eye.train(was_training)
    return found


def attribute_rows(looks: Sequence[Look], pictures: Sequence[Picture], world: str) -> pd.DataFrame:
    """Of each group that can be seen in a picture: whether the likeliest value is there, and what is said.

    Columns picture, group, right, shuffled (the same of the next picture's answer), said (whether anything
    is), true and other: of what is said, the share that is there, and in the next picture, NaN of nothing.
    """
    rows = []
    for number, (one, picture) in enumerate(zip(looks, pictures, strict=True)):
        said = sure_values(one, world)
        other = looks[(number + 1) % len(looks)]
        other_picture = pictures[(number + 1) % len(pictures)]
        for (group, values), columns in zip(GROUPS[world].items(), SLICES[world], strict=True):
            there = dict(zip(values, picture.seen[columns], strict=True))
            there_too = dict(zip(values, other_picture.seen[columns], strict=True))
            if not any(there.values()):
                continue
            best, of_other = (
                max(of.values[world][group], key=of.values[world][group].get) for of in (one, other)
            )
            row = {"picture": number, "group": group, "right": there[best], "shuffled": there[of_other]}
            row |= {"said": bool(said[group]), "true": np.nan, "other": np.nan}
            if said[group]:
                row["true"] = np.mean([there[value] for value in said[group]])
                row["other"] = np.mean([there_too[value] for value in said[group]])
            rows.append(row)
    return pd.DataFrame(rows)


def true_chain(picture: Picture, world: str) -> dict[str, str]:
    """The chain of all that is to be seen in a picture."""
    said = {}
    for (group, values), columns in zip(GROUPS[world].items(), SLICES[world], strict=True):
        said[group] = [value for value, seen in zip(values, picture.seen[columns], strict=True) if seen]
    return chain_of_values(said)


def majority_share(pictures: Sequence[Picture], world: str) -> float:
    """How often the value is right that most pictures have, of the groups that can be seen, in %."""
    right = visible = 0.0
    for columns in SLICES[world]:
        seen = np.stack([picture.seen[columns] for picture in pictures])
        right, visible = right + seen.sum(0).max(), visible + seen.any(1).sum()
    return float(100 * right / visible)


def examination(home: Path, n_test: int = 400, seed: int = 0) -> pd.DataFrame:
    """What both show on held-out pictures: instrument, metric, the columns of an Interval, blind, shuffled.

    home: where the folders annotator and judge lie.
    blind: the same of one that has not looked: what most pictures have. shuffled: of the answer about another
        picture.
    """
    eye = Annotator(home / "annotator", torch.device("cpu")).eye
    judge = shipped_model("judge", torch.device("cpu"), home=home)
    rows = []
    for kind, world in (("decorrelated", "birds"), ("ordinary", "birds"), ("things", "things")):
        pictures = held_out(kind, n_test, seed)
        looks = looks_at(eye, pictures)
        table = attribute_rows(looks, pictures, world)
        said = table[table.said]
        for metric, some, column, blind, other in (
            ("values seen", table, "right", majority_share(pictures, world), "shuffled"),
            ("said and true", said, "true", np.nan, "other"),
        ):
            found = interval(100 * some[column].astype(float), clusters=some.picture, bounds=PERCENT)
            row = {"instrument": "annotator", "metric": f"{metric}, {kind} (%)", **found._asdict()}
            rows.append(row | {"blind": blind, "shuffled": 100 * some[other].mean()})
    card = prove_judge(judge, seed=seed, n_images=min(n_test, 60))
    passed = interval(100 * card.passed, bounds=PERCENT)
    rows.append({"instrument": "judge", "metric": "controls passed (%)", **passed._asdict()})
    for line in card.to_dict("records"):
        name = f"{line['control']}, {line['metric']} ({'passed' if line['passed'] else 'FAILED'})"
        row = {"instrument": "judge", "metric": name}
        rows.append(row | {field: line[field] for field in Interval._fields})
    return pd.DataFrame(rows)

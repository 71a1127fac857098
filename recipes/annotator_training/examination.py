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

from recipes.annotator_training.lesson_pictures import (
    NEVER,
    SLICES,
    Picture,
    drawn_bird,
    drawn_thing,
    substituted_bird,
)
from worlds import aviary
from xaihelpers.ask.loading import shipped_model
from xaihelpers.instruments.annotator import Annotator, chain_of_values, sure_values
from xaihelpers.instruments.eye import GROUPS, Eye, Look, look
from xaihelpers.scores.intervals import PERCENT, Interval, interval
from xaihelpers.yardsticks.annotator_card import answers_to, is_color, new_share
from xaihelpers.yardsticks.judge_card import prove_judge

HELD_OUT = 90  # added to the seed of training: other individuals
DRAWN_GROUPS = list(aviary.individual(0, 0, 0).values)  # the others follow from these


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


def substituted_pictures(count: int, seed: int = 0, groups: int = 1) -> list[Picture]:
    """Held-out ordinary birds with one group changed, `count` of each that is drawn; or with several."""
    numbers = [(group, n) for group in DRAWN_GROUPS for n in range(count)]
    among = [[group] if groups == 1 else DRAWN_GROUPS for group, _ in numbers]
    first = HELD_OUT + seed + 1000 * groups
    return [substituted_bird(first, number, some, groups) for number, some in enumerate(among)]


def said_of_substituted(looks: Sequence[Look], pictures: Sequence[Picture]) -> pd.DataFrame:
    """What is said of each drawn group that was changed, where both can be seen: as of `answers_to`."""
    rows = []
    for number, (one, picture) in enumerate(zip(looks, pictures, strict=True)):
        said = sure_values(one, "birds")
        for (group, values), columns in zip(GROUPS["birds"].items(), SLICES["birds"], strict=True):
            now, was = picture.seen[columns], picture.was[columns]
            new, usual = ({*np.array(values)[which]} for which in (now & ~was, was & ~now))
            if group in DRAWN_GROUPS and new and usual:
                rows.append((number, group, {*said[group]}, new, usual))
    return answers_to(rows)


def examine_substituted(eye: Eye, count: int, seed: int = 0) -> list[dict]:
    """Lines of the examination on substituted birds, as of `new_share`; and how often it says nothing."""
    one, two = (substituted_pictures(count // groups, seed, groups) for groups in (1, 2))
    table, of_two = (said_of_substituted(looks_at(eye, pictures), pictures) for pictures in (one, two))
    parts, rows = {}, []
    for changed, said in (("", table), (", two changed", of_two)):
        colors = said.group.map(is_color)
        parts |= {f"colours{changed}": said[colors], f"other groups{changed}": said[~colors]}
        parts[f"groups that no lesson substitutes{changed}"] = said[said.group.isin(NEVER)]
    parts |= {group.replace("_", " "): part for group, part in table.groupby("group")}
    for name, part in parts.items():
        found = new_share(part)
        nothing = interval(100.0 * (part.said == "nothing"), bounds=PERCENT)._asdict()
        about = {"instrument": "annotator", "blind": found["blind"], "shuffled": found["shuffled"]}
        if np.isfinite(found["value"]):
            rows.append(
                about | {"metric": f"new, not usual: {name} (%)"} | {k: found[k] for k in Interval._fields}
            )
        rows.append({"instrument": "annotator", "metric": f"nothing said: {name} (%)"} | nothing)
    return rows


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
    rows += examine_substituted(eye, max(n_test // 5, 2), seed)
    card = prove_judge(judge, seed=seed, n_images=min(n_test, 60))
    passed = interval(100 * card.passed, bounds=PERCENT)
    rows.append({"instrument": "judge", "metric": "controls passed (%)", **passed._asdict()})
    for line in card.to_dict("records"):
        name = f"{line['control']}, {line['metric']} ({'passed' if line['passed'] else 'FAILED'})"
        row = {"instrument": "judge", "metric": name}
        rows.append(row | {field: line[field] for field in Interval._fields})
    return pd.DataFrame(rows)

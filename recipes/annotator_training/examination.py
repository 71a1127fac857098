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
from worlds import aviary
from xaihelpers import datasets
from xaihelpers.ask import Answer, Request, lettered_options, prompt, request
from xaihelpers.ask.loading import shipped_model
from xaihelpers.ask.python_model import FunctionModel
from xaihelpers.fastslow import chain_prefix
from xaihelpers.instruments.annotator import Annotator, chain_of_values, seen_chain, sure_values
from xaihelpers.instruments.eye import GROUPS, NAMES, Eye, Look, look
from xaihelpers.scores.intervals import PERCENT, Interval, interval
from xaihelpers.yardsticks import judge_controls
from xaihelpers.yardsticks.annotator_card import annotator_card
from xaihelpers.yardsticks.judge_card import check_texts, judge_card

HELD_OUT = 90  # added to the seed of training: other individuals
COLORED = [group for group in GROUPS["birds"] if group.endswith("_color")]


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


def letter_requests(
    pictures: Sequence[Picture], rng: np.random.Generator
) -> tuple[list[Request], list[str], list]:
    """A question on a group of each bird of which one value is to be seen; the true letters, the values."""
    requests, letters, values = [], [], []
    for picture, image in zip(pictures, as_images(pictures), strict=True):
        known = [
            (group, columns)
            for group, columns in zip(aviary.GROUPS, SLICES["birds"], strict=False)
            if picture.seen[columns].sum() == 1
        ]
        group, columns = known[rng.integers(len(known))]
        order = rng.permutation(len(aviary.GROUPS[group]))
        options = [datasets.plain_value(aviary.GROUPS[group][k]) for k in order] + ["Other"]
        text = prompt("sub_attribute", group=group.replace("_", " "), options=lettered_options(options, ")"))
        true = int(picture.seen[columns].argmax())
        letters.append(chr(65 + int(np.flatnonzero(order == true)[0])))
        values.append((group, true))
        requests.append(request(text, [image], [chr(65 + n) for n in range(len(options))]))
    return requests, letters, values


def choice_requests(
    name: str,
    pictures: Sequence[Picture],
    chains: Sequence[dict],
    names: Sequence[str],
    usual: np.ndarray,
    rng: np.random.Generator,
) -> tuple[list[Request], list[str]]:
    """A choice among a class and four that look most like it, in any order, of which any may be right.

    name: of the prompt, "image" or "concepts". chains: of each picture. names: of the classes. usual: what
        each usually shows, (K, values).
    """
    alike, requests, letters = _alike(usual), [], []
    for picture, chain, image in zip(pictures, chains, as_images(pictures), strict=True):
        label = int(picture.label)
        centre = int(rng.choice([label, *alike[label][:4]]))
        near = [k for k in (centre, *alike[centre][:5]) if k != label]
        options = rng.permutation(
            [names[label], *(names[k] for k in rng.choice(near, 4, replace=False))]
        ).tolist()
        fields = {"options": lettered_options(options)}
        if name == "concepts":
            fields["concepts"] = chain_prefix(chain, 5)
        text = prompt(f"fse_choose_{name}", **fields)
        requests.append(request(text, [image] if name == "image" else [], list("ABCDE")))
        letters.append("ABCDE"[options.index(names[label])])
    return requests, letters


def true_chain(picture: Picture, world: str) -> dict[str, str]:
    """The chain of all that is to be seen in a picture."""
    said = {}
    for (group, values), columns in zip(GROUPS[world].items(), SLICES[world], strict=True):
        said[group] = [value for value, seen in zip(values, picture.seen[columns], strict=True) if seen]
    return chain_of_values(said)


def species_of(seed: int, number: int) -> int:
    """The species from which `held_out` begins a bird, whose attributes then say nothing of it."""
    return int(np.random.default_rng([HELD_OUT + seed, number, 93]).integers(len(NAMES["birds"])))


def _alike(shares: np.ndarray) -> np.ndarray:
    """For each class the others, those that usually show the same first, (K, K - 1); shares: (K, values)."""
    unit = shares / np.linalg.norm(shares, axis=1, keepdims=True)
    return np.argsort(-(unit @ unit.T - 2 * np.eye(len(unit))), axis=1)[:, :-1]


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
    blind: the same of one that has not looked: what most pictures have, a guess, the lit area alone.
    shuffled: of the answer about another picture.
    """
    annotator = Annotator(home / "annotator", torch.device("cpu"))
    judge = shipped_model("judge", torch.device("cpu"), home=home)
    rows = annotator_rows(annotator, n_test, seed) + judge_rows(judge, min(n_test, 60), seed)
    return pd.DataFrame(rows, columns=["instrument", "metric", *Interval._fields, "blind", "shuffled"])


def annotator_rows(annotator: Annotator, n_test: int, seed: int) -> list[dict]:
    """The lines of the annotator."""
    rng, rows = np.random.default_rng([seed, 4]), []

    def add(metric: str, found: Interval, **beside: float) -> None:
        rows.append({"instrument": "annotator", "metric": metric, **found._asdict(), **beside})

    def share(values, clusters=None) -> Interval:
        return interval(100 * np.asarray(values, float), clusters=clusters, bounds=PERCENT)

    kinds = {"decorrelated": "birds", "ordinary": "birds", "things": "things"}
    held = {kind: held_out(kind, n_test, seed) for kind in kinds}
    looks = {kind: looks_at(annotator.eye, pictures) for kind, pictures in held.items()}
    for kind, world in kinds.items():
        table = attribute_rows(looks[kind], held[kind], world)
        beside = {"blind": majority_share(held[kind], world), "shuffled": 100 * table.shuffled.mean()}
        add(f"values seen, {kind} (%)", share(table.right, table.picture), **beside)
        said = table[table.said]
        of_another = 100 * said.other.mean()
        add(f"said and true, {kind} (%)", share(said.true, said.picture), shuffled=of_another)
        add(f"said, of what can be seen, {kind} (%)", share(table.said, table.picture))
        colors = said[said.group.isin(COLORED)]
        if len(colors):
            of_another = 100 * colors.other.mean()
            add(f"colours said and true, {kind} (%)", share(colors.true, colors.picture), shuffled=of_another)
    chains = [seen_chain(one) for one in looks["decorrelated"]]
    present = np.stack([picture.seen[: len(aviary.ATTRIBUTES)] for picture in held["decorrelated"]])
    species = aviary.species_table()["name"]
    habits = np.stack([aviary.true_attributes(aviary.usual_individual(name)) for name in species])
    of_birds = habits[[species_of(seed, number) for number in range(n_test)]]
    for line in annotator_card(chains, present, of_birds, seed).to_dict("records"):
        found = Interval(*(line[name] for name in Interval._fields))
        add(f"card: {line['control']} ({'passed' if line['passed'] else 'FAILED'})", found)
    requests, letters, values = letter_requests(held["decorrelated"], rng)
    common = pd.DataFrame(values, columns=["group", "value"]).groupby("group").value.value_counts()
    blind = 100 * common.groupby("group").max().sum() / len(values)
    add(
        "attribute letters, decorrelated (%)", share(right_letters(annotator, requests, letters)), blind=blind
    )
    for kind in ("ordinary", "things"):
        world, own = kinds[kind], [seen_chain(one) for one in looks[kind]]
        true = [true_chain(picture, world) for picture in held[kind]]
        for name, chains in (("image", own), ("its words", own), ("true words", true)):
            of_prompt = "image" if name == "image" else "concepts"
            classes = NAMES[world], annotator.usual[world]
            asked = choice_requests(of_prompt, held[kind], chains, *classes, rng)
            add(f"choice from {name}, {kind} (%)", share(right_letters(annotator, *asked)), blind=20.0)
    return rows


def right_letters(
    annotator: Annotator, requests: Sequence[Request], letters: Sequence[str], batch_size: int = 32
) -> list[bool]:
    """Whether each request is answered by its letter."""
    answers: list[Answer] = []
    for start in range(0, len(requests), batch_size):
        answers += annotator.answer(requests[start : start + batch_size])
    return [answer.text == letter for answer, letter in zip(answers, letters, strict=True)]


def judge_rows(judge: FunctionModel, n_birds: int, seed: int) -> list[dict]:
    """The lines of the judge: of its battery, on birds drawn for it, and its card."""
    rows = []
    for kind in ("masked", "heat"):
        battery = judge_controls.drawn_battery(n_birds, kind, seed)
        answers = judge_controls.ask_battery(judge, battery, kind)
        lit = answers[answers.right_name & (answers.condition != judge_controls.NO_IMAGE)]
        fits = lit.coverage * lit.precision.fillna(0)
        ranks = [of.rank() for of in (lit.score, fits, lit.area)]
        found = interval(*ranks[:2], statistic="correlation", clusters=lit.row, bounds=(-1, 1))
        lines = {"rank correlation with coverage x precision": found}
        for condition in (judge_controls.LOOK_ALIKE, judge_controls.WRONG_NAME):
            high = 100.0 * (answers.score[answers.condition == condition] >= 2.5)
            lines[f"2.5 or more under a {condition} (%)"] = interval(high, bounds=PERCENT)
        said = check_texts(answers, battery, seed)
        card = judge_card(answers, battery, said)
        lines["controls passed (%)"] = interval(100 * card.passed, bounds=PERCENT)
        for line in card.to_dict("records"):
            name = f"{line['control']} ({'passed' if line['passed'] else 'FAILED'})"
            lines[name] = Interval(*(line[field] for field in Interval._fields))
        for metric, found in lines.items():
            row = {"instrument": "judge", "metric": f"{metric}, {kind}", **found._asdict()}
            row["blind"] = np.corrcoef(*ranks[1:])[0, 1] if metric.startswith("rank") else np.nan
            rows.append(row)
        said = said[said.kind != "score"]
        found = interval(100.0 * said["true"], clusters=said.row, bounds=PERCENT)
        row = {"instrument": "judge", "metric": f"statements true (%), {kind}", **found._asdict()}
        rows.append(row | {"shuffled": 100 * said["of another case"].mean()})
    return rows

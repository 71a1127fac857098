"""What people are asked about attention and its judge: studies for notebook 71 (paper autoxplain, 4.1).

Two questions: how well does a network attend to the object that it names, 0 to 5; and is all of what a judge
has written about it right. Their ratings come back as a table of item and rating.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from xaihelpers import rating
from xaihelpers.scores.agreement import leave_one_rater_out
from xaihelpers.scores.intervals import Interval
from xaihelpers.text_files import plain
from xaihelpers.yardsticks.statements import only_true


def attention_items(cases: pd.DataFrame, pictures: Sequence) -> list[rating.Item]:
    """An item for each map: its masked picture, and the object that the network names.

    cases: as of `lit_cases`.
    """
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
    """
    if not len(by_people):
        return {}
    rated = by_people[by_people["item"].isin(cases["item"]) & by_people["rating"].notna()]
    if rated["rater"].nunique() < 2:
        return {}
    images = cases.set_index("item")["image"]
    return leave_one_rater_out(rated, pd.Series(score.to_numpy(), cases["item"]), clusters=[images])

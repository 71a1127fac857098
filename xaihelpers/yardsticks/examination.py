"""The examination of an annotator or a judge: questions put through `ask`, and the marks for its answers.

A task is a kind of question by its name ("rating", "choice from an image", ...); a question is (text, true
answer, picture), the picture as (world, row) or None.
"""

import re
from collections.abc import Collection

import numpy as np
import pandas as pd

from xaihelpers.ask import ask, load_vlm, request
from xaihelpers.fastslow import STAGES, parse_chain, parse_letter, parse_list, segment_reasoning
from xaihelpers.saliency.judging import parse_judgement
from xaihelpers.scores.intervals import PERCENT, interval
from xaihelpers.worlds import aviary, everyday

SPECIES = [name.replace("_", " ") for name in aviary.species_table()["name"]]
THINGS = [name.replace("_", " ") for name in everyday.CATEGORIES]


def options_of(task: str, text: str) -> tuple[str, ...]:
    """The letters or numbers that answer a question of this task; none where it asks for a text."""
    if task.startswith("choice"):
        return tuple("ABCDE")
    if task == "rating":
        return tuple("1234")
    if task.startswith("attribute"):
        return tuple(chr(65 + number) for number in range(text.count("\n")))
    return ()


def phrases(text: str) -> list[str]:
    """What a chain, a list or a train of thought says, phrase by phrase."""
    pieces = re.split(r'[",>:{}\[\]]|</?think>', text)
    pieces = [piece.strip(" .") for piece in pieces]
    return [piece for piece in pieces if piece and piece not in STAGES]


def parse_reasoning(text: str) -> dict | None:
    """The segments of a train of thought; None where there is none."""
    reasoning = re.search("<think>(.*)</think>", text, re.S)
    return reasoning and segment_reasoning(reasoning[1])


FORMS = {
    "chain from an image": parse_chain,
    "chain from a class": parse_chain,
    "five concepts": parse_list,
    "reasoning": parse_reasoning,
}


def score_answer(task: str, text: str, truth: str, answer) -> tuple[float, bool]:
    """How right one answer is, in [0, 1], and whether it is invalid: not of the form asked for.

    text: the question. answer: as `ask` gives it. A letter, number or name is right or wrong; of a chain, a
    list or a train of thought it is the share of its phrases that are in the true one.
    """
    options = options_of(task, text)
    if options:
        letter = parse_letter(answer.text, options)
        return float(letter == truth), letter is None
    if task == "judgement":
        score = parse_judgement(answer.text).score
        return float(score == parse_judgement(truth).score), score is None
    if task == "name from an image":
        name = answer.text.strip(" .")
        return float(name == truth), name not in SPECIES + THINGS
    whole = answer.text
    if answer.reasoning:
        whole = f"<think>{answer.reasoning}</think>{answer.text}"
    if not FORMS[task](whole):
        return 0.0, True
    return float(np.mean([phrase in phrases(truth) for phrase in phrases(whole)])), False


def examine(who: str, device, asked: dict[str, list], files: dict, tasks: Collection[str]) -> pd.DataFrame:
    """Answers of one model to the questions of some tasks, marked.

    who: its name or folder, as `load_vlm` takes it. asked: task -> (question, answer, picture) each.
    files: world -> files or PIL images of its rows.
    Returns rows of task, right, invalid, answer, truth, and the confidence of a letter, NaN of a text.
    Raises AskError: no such model.
    """
    model, rows = load_vlm(who, device), []
    for task, batch in asked.items():
        if task not in tasks:
            continue
        requests = []
        for text, _, picture in batch:
            images = [files[picture[0]][picture[1]]] if picture else []
            options = options_of(task, text)
            requests.append(request(text, images, options, max_tokens=8 if options else 300))
        answers = ask(model, requests)
        for (text, truth, _), answer in zip(batch, answers, strict=True):
            right, invalid = score_answer(task, text, truth, answer)
            row = {"task": task, "right": right, "invalid": invalid}
            row |= {"answer": answer.text, "truth": truth, "confidence": np.nan}
            if answer.probabilities:
                row["confidence"] = answer.probabilities[answer.choice]
            rows.append(row)
    return pd.DataFrame(rows)


def chance_of(task: str, batch: list[tuple]) -> float:
    """What guessing among the options of its questions gives, in %; NaN of a text."""
    if task == "judgement":
        return 100 / 6
    if task == "name from an image":
        return 100 / len(SPECIES)
    counts = [len(options_of(task, text)) for text, *_ in batch]
    if len(set(counts)) == 1:
        return 100 / counts[0] if counts[0] else np.nan
    return float(100 * np.mean([1 / count for count in counts]))


def right_table(exam: pd.DataFrame, asked: dict[str, list]) -> pd.DataFrame:
    """For each task the right answers in % with their interval, what chance gives, and the invalid ones in %.

    exam: as of `examine`. asked: the questions of each task.
    """
    table = []
    for task, part in exam.groupby("task", sort=False):
        right = interval(100 * part.right, bounds=PERCENT)
        row = {"task": task, **right._asdict(), "chance": chance_of(task, asked[task])}
        table.append({**row, "invalid": 100 * part.invalid.mean()})
    return pd.DataFrame(table)


def lettered_answers(exam: pd.DataFrame) -> pd.DataFrame:
    """The answers that have a confidence, its tenth as `bin`, and `kind`: choice, attribute, rating."""
    lettered = exam.dropna(subset="confidence").copy()
    lettered["bin"] = (10 * lettered.confidence).clip(upper=9.999).astype(int)
    lettered["kind"] = "choice"
    lettered.loc[lettered.task.str.startswith("attribute"), "kind"] = "attribute"
    lettered.loc[lettered.task == "rating", "kind"] = "rating"
    return lettered


def calibration(lettered: pd.DataFrame) -> tuple[list[dict], dict[str, pd.DataFrame]]:
    """The expected calibration error of each kind in points, and the bins: confidence, right, cases.

    lettered: as of `lettered_answers`.
    """
    errors, curves = [], {}
    for kind, part in lettered.groupby("kind"):
        bins = part.groupby("bin").agg(
            confidence=("confidence", "mean"), right=("right", "mean"), cases=("right", "size")
        )
        gaps = (bins.confidence - bins.right).abs() * bins.cases
        cases = int(bins.cases.sum())
        row = {"task": kind, "metric": "expected calibration error"}
        errors.append({**row, "value": 100 * gaps.sum() / cases, "cases": cases})
        curves[kind] = bins
    return errors, curves

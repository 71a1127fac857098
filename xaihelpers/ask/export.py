"""All answers that are kept on the disk as one table, with what was asked, for others to check."""

import json
from pathlib import Path

import pandas as pd

from xaihelpers.ask.cache import AnswersOnDisk
from xaihelpers.ask.failures import failure_kind
from xaihelpers.ask.messages import Answer

COLUMNS = [
    "model",
    "seed",
    "temperature",
    "system",
    "question",
    "turns",
    "images",
    "image_names",
    "options",
    "max_tokens",
    "schema",
    "answer",
    "reasoning",
    "probabilities",
    "failure",
    "tokens_in",
    "tokens_out",
    "seconds",
    "asked_at",
    "key",
]


def answers_table() -> pd.DataFrame:
    """A row for each answer in the cache, those last asked for last.

    The columns are `COLUMNS`: model and settings; the request (`turns`, `options`, `probabilities` and
    `schema` as JSON; `images` as the sha256 of each, joined by spaces, with the files' names beside them);
    the answer; `failure`, truncated or refused as far as that can be told without a reader of the answer;
    `asked_at` in UTC; and the key under which it is kept. Answers that were kept without their request have
    none.
    """
    rows = []
    disk = AnswersOnDisk()
    try:
        for key, answer, asked in disk.all():
            rows.append(_row(key, answer, asked))
    finally:
        disk.close()
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.sort_values("asked_at", kind="stable", ignore_index=True, na_position="first")


def export_answers(file: str | Path, model: str = "") -> pd.DataFrame:
    """Write the table of answers into a Parquet file; returns it.

    model: only the answers of models whose name holds this.
    Raises ValueError: there are none, or the file's name does not end in .parquet. Raises OSError.
    """
    file = Path(file)
    if file.suffix != ".parquet":
        raise ValueError(f"{file}: answers are exported as Parquet, into a file that ends in .parquet")
    table = answers_table()
    if model:
        table = table[table.model.fillna("").str.contains(model, regex=False)]
    if table.empty:
        which = f" of {model}" if model else ""
        raise ValueError(f"there are no answers{which} in {AnswersOnDisk().folder}: ask something first")
    table.to_parquet(file, index=False)
    return table


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Answers, tokens, and shares that are truncated or refused (%), by model."""
    named = table.assign(model=table.model.fillna("(not noted)"))
    rows = []
    for model, part in named.groupby("model", sort=True):
        shares = {f"{kind} (%)": 100 * (part.failure == kind).mean() for kind in ("truncated", "refused")}
        tokens = {"tokens in": part.tokens_in.sum(), "tokens out": part.tokens_out.sum()}
        rows.append({"model": model, "answers": len(part), **tokens, **shares})
    return pd.DataFrame(rows)


def _row(key: str, answer: Answer, asked: dict) -> dict:
    turns = asked.get("turns", [])
    images = [image for turn in turns for image in turn["images"]]
    return {
        "model": asked.get("model"),
        "seed": asked.get("seed"),
        "temperature": asked.get("temperature"),
        "system": next((turn["text"] for turn in turns if turn["role"] == "system"), None),
        "question": turns[-1]["text"] if turns else None,
        "turns": json.dumps(turns, ensure_ascii=False) if turns else None,
        "images": " ".join(image["sha256"] for image in images),
        "image_names": " ".join(image["name"] for image in images),
        "options": json.dumps(asked["options"]) if asked.get("options") else None,
        "max_tokens": asked.get("max_tokens"),
        "schema": json.dumps(asked["schema"]) if asked.get("schema") else None,
        "answer": answer.text,
        "reasoning": answer.reasoning,
        "probabilities": json.dumps(answer.probabilities) if answer.probabilities else None,
        "failure": failure_kind(answer, holds=not (answer.truncated or answer.refused)),
        "tokens_in": answer.tokens_in,
        "tokens_out": answer.tokens_out,
        "seconds": answer.seconds,
        "asked_at": pd.Timestamp(asked.get("time", float("nan")), unit="s", tz="UTC"),
        "key": key,
    }

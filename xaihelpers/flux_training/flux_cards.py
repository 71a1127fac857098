"""The cards of a pipeline and of a reader: what a user should know of weights made by notebook 94."""

import hashlib
from pathlib import Path

import pandas as pd


def told_by(table: pd.DataFrame) -> dict[str, list[float]]:
    """Each measure of a table as [value, low, high], by its keys in words."""
    measures = {}
    for row in table.to_dict("records"):
        keys = [str(row[key]) for key in ("pictures", "of", "prompt", "metric") if key in row]
        measures[", ".join(keys)] = [round(row[key], 1) for key in ("value", "low", "high")]
    return measures


def checksums(path: Path) -> dict[str, str]:
    """The sha256 of a file of weights, or of each in a folder with its part, by name."""
    files = [path] if path.is_file() else sorted(path.rglob("*.safetensors"))
    hashes = {}
    for file in files:
        name = file.name if path.is_file() else f"{file.parent.name}/{file.name}"
        hashes[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return hashes


def megabytes(path: Path) -> float:
    """The size of a file, or of all files in a folder, in MB."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return round(sum(file.stat().st_size for file in files) / 1e6, 2)


def weights_card(path: Path, table: pd.DataFrame, main: str, **told) -> dict:
    """The card of the weights at a path, a file or a folder.

    table: what they were measured to do, with `metric`, `value`, `low`, `high` and `cases`. main: the metric
        that stands for all. told: what else is to be told, in its order, after the name.
    Raises IndexError if the table lacks the main metric.
    """
    first = table[table.metric == main].iloc[0]
    return {
        "name": path.name.removesuffix(".safetensors"),
        **told,
        "test accuracy": {
            "percent": round(first.value, 2),
            "interval": [round(first.low, 2), round(first.high, 2)],
            "images": int(first.cases),
            "of": main,
        },
        "held-out": told_by(table),
        "sha256": checksums(path),
        "megabytes": megabytes(path),
    }

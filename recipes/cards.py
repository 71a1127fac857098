"""The card of trained weights: a JSON file beside them that says what they are and how well they do."""

import hashlib
import json
from pathlib import Path

import pandas as pd

from xaihelpers.paths import write_whole


def accuracy_told(value: float, low: float, high: float, cases: int, of: str = "") -> dict:
    """What a card says of the measurement that stands for all; value, low, high: in %. of: what is right."""
    told = {"percent": round(value, 2), "interval": [round(low, 2), round(high, 2)], "images": int(cases)}
    return told | ({"of": of} if of else {})


def checksum(file: Path) -> dict:
    """The sha256 of a file of weights, and its size in MB."""
    content = file.read_bytes()
    return {"sha256": hashlib.sha256(content).hexdigest(), "megabytes": round(len(content) / 1e6, 2)}


def told_by(table: pd.DataFrame) -> dict[str, list[float]]:
    """Each measure of a table as [value, low, high], by its keys in words."""
    measures = {}
    for row in table.to_dict("records"):
        keys = [str(row[key]) for key in ("pictures", "of", "prompt", "metric") if key in row]
        measures[", ".join(keys)] = [round(row[key], 1) for key in ("value", "low", "high")]
    return measures


def weights_card(place: Path, table: pd.DataFrame, main: str, **told) -> dict:
    """The card of a file of weights, or of a folder with several: then with the hash of each.

    table: what they were measured to do, with `metric`, `value`, `low`, `high` and `cases`. main: the metric
        that stands for all. told: what else is to be told, in its order, after the name.
    Raises IndexError if the table lacks the main metric.
    """
    first = table[table.metric == main].iloc[0]
    hashes = {}
    for file in sorted(place.rglob("*.safetensors")) if place.is_dir() else [place]:
        name = f"{file.parent.name}/{file.name}" if place.is_dir() else file.name
        hashes[name] = checksum(file)["sha256"]
    files = [file for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file()]
    return {
        "name": place.name.removesuffix(".safetensors"),
        **told,
        "test accuracy": accuracy_told(first.value, first.low, first.high, first.cases, main),
        "held-out": told_by(table),
        "sha256": hashes,
        "megabytes": round(sum(file.stat().st_size for file in files) / 1e6, 2),
    }


def write_card(place: Path, told: dict) -> None:
    """Write `told` as the card of the weights in a file or folder, and say so."""
    card = place.with_name(f"{told['name']}.json")
    write_whole(card, (json.dumps(told, indent=1) + "\n").encode())
    print(f"{place} ({told['megabytes']} MB) and its card {card.name}")

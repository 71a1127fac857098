"""The card of trained weights: a JSON file beside them that says what they are and how well they do."""

import hashlib
import json
from pathlib import Path

import pandas as pd

from xaihelpers.paths import write_whole


def write_card(place: Path, table: pd.DataFrame, main: str, **told) -> None:
    """Write the card of a file of weights, or of a folder with several: then with the hash of each.

    table: what they were measured to do, with `metric`, `value`, `low`, `high` (in %) and `cases`. main: the
        metric that stands for all. told: what else is to be told, in its order, after the name.
    Raises IndexError if the table lacks the main metric.
    """
    first, measures, hashes = table[table.metric == main].iloc[0], {}, {}
    for row in table.to_dict("records"):
        keys = [str(row[key]) for key in ("pictures", "of", "prompt", "metric") if key in row]
        measures[", ".join(keys)] = [round(row[key], 1) for key in ("value", "low", "high")]
    for file in sorted(place.rglob("*.safetensors")) if place.is_dir() else [place]:
        hashes[f"{file.parent.name}/{file.name}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    files = [file for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file()]
    interval = [round(first.low, 2), round(first.high, 2)]
    of_main = {"percent": round(first.value, 2), "interval": interval, "images": int(first.cases), "of": main}
    megabytes = round(sum(file.stat().st_size for file in files) / 1e6, 2)
    card = {"name": place.name.removesuffix(".safetensors"), **told, "test accuracy": of_main}
    card |= {"held-out": measures, "sha256": hashes, "megabytes": megabytes}
    file = place.with_name(f"{card['name']}.json")
    write_whole(file, (json.dumps(card, indent=1) + "\n").encode())
    print(f"{place} ({megabytes} MB) and its card {file.name}")

"""What the recipes share: the command line, drawing in parallel, the card of the weights."""

import argparse
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from tqdm.auto import tqdm

from xaihelpers.devices import resolve_device
from xaihelpers.paths import write_whole


def command_line(about: str, options: dict[str, tuple]) -> argparse.ArgumentParser:
    """A recipe's options: those named, and --seed, --device and --save.

    options: default and meaning by name, and the choices where there are some. A value is of its default's
        type; a list takes as many values as its default has.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = options | {
        "seed": (0, "of all that is drawn at random"),
        "device": ("auto", "auto, cpu or cuda"),
        "save": ("trained", "folder of checkpoints, weights and cards"),
    }
    for name, (default, meaning, *choices) in options.items():
        how = {"choices": choices or None, "help": f"{meaning} (default %(default)s)"}
        if isinstance(default, list):
            how |= {"nargs": len(default), "type": type(default[0])}
        else:
            how["type"] = type(default)
        parser.add_argument(f"--{name}", default=default, **how)
    return parser


def drawn_in_parallel(draw_one: Callable, count: int) -> list:
    """What draw_one gives for the numbers 0 … count - 1, with a progress bar."""
    jobs = (delayed(draw_one)(number) for number in tqdm(range(count), "drawing", disable=not count))
    return Parallel(n_jobs=-1 if count > 500 else 1, batch_size=32)(jobs)


def group_slices(groups: dict[str, list[str]]) -> list[slice]:
    """The columns of each attribute group, whose values stand side by side."""
    ends = np.cumsum([len(values) for values in groups.values()])
    return [slice(end - len(values), end) for end, values in zip(ends, groups.values(), strict=True)]


def n_parameters(network: torch.nn.Module) -> int:
    """The number of a network's parameters."""
    return sum(weights.numel() for weights in network.parameters())


def write_card(place: Path, table: pd.DataFrame, main: str, settings: argparse.Namespace, **told) -> None:
    """Write a JSON file beside weights that says what they are, how they were made and what they can do.

    place: a file of weights, or a folder with several.
    table: what they were measured to do, with `metric`, `value`, `low`, `high` (in %) and `cases`. main: the
        metric that stands for all.
    told: what else is to be told, in its order, after the name; seed, device and versions follow.
    Raises IndexError if the table lacks the main metric.
    """
    first, measures, hashes = table[table.metric == main].iloc[0], {}, {}
    for row in table.to_dict("records"):
        keys = [str(row[key]) for key in ("pictures", "of", "prompt", "metric") if key in row]
        measures[", ".join(keys)] = [round(row[key], 1) for key in ("value", "low", "high")]
    files = [file for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file()]
    for file in sorted(file for file in files if file.suffix == ".safetensors"):
        hashes[f"{file.parent.name}/{file.name}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    interval = [round(first.low, 2), round(first.high, 2)]
    of_main = {"percent": round(first.value, 2), "interval": interval, "images": int(first.cases), "of": main}
    megabytes = round(sum(file.stat().st_size for file in files) / 1e6, 2)
    card = {"name": place.name.removesuffix(".safetensors"), **told}
    card |= {"seed": settings.seed, "learning rate": settings.learning_rate, "torch": torch.__version__}
    card |= {"device": str(resolve_device(settings.device)), "test accuracy": of_main}
    card |= {"held-out": measures, "sha256": hashes, "megabytes": megabytes}
    file = place.with_name(f"{card['name']}.json")
    write_whole(file, (json.dumps(card, indent=1) + "\n").encode())
    print(f"{place} ({megabytes} MB) and its card {file.name}")

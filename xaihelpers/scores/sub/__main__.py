"""The command: `python -m xaihelpers.scores.sub predictions.parquet [more files]` prints its scores."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets.dataset import Dataset, DatasetError
from xaihelpers.datasets.loading import load
from xaihelpers.own_model import is_python_file
from xaihelpers.paths import find, write_whole
from xaihelpers.scores.sub.image_scores import RULES, breakdown, threshold_curve
from xaihelpers.scores.sub.judged import benchmark_images, differences, judge_predictions
from xaihelpers.scores.sub.predictions import Predictions, read_predictions

EPILOG = """
A file of predictions is CSV or parquet with the columns image_id, attribute and probability, one row for each
image and attribute, or safetensors with ConceptOutputs, or a Python file with outputs_of(images), which is
asked about all images that are there, those before the change and the real ones too. Images are called by
their id (the column id of datasets.load(benchmark).images) or by their row in the benchmark, from 0. Several
files are several models; each is compared with the first, image by image.
"""


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.scores.sub",
        description="Score predictions of attributes on a substitution benchmark.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("predictions", nargs="+", help="a file of predictions for each model")
    parser.add_argument(
        "--benchmark",
        default="sub_exact",
        help="folder of the benchmark, a path or a name under XAI_DATA (default: %(default)s, which notebook "
        "53 writes)",
    )
    parser.add_argument("--data", default="aviary", help="the real birds, for the labels of their classes")
    parser.add_argument(
        "--before",
        nargs="+",
        default=[],
        help="predictions for the birds before the change, under the same ids, a file for each model",
    )
    parser.add_argument(
        "--test", nargs="+", default=[], help="predictions for the real test images, a file for each model"
    )
    parser.add_argument(
        "--rule",
        choices=RULES,
        default="threshold",
        help="what is predicted: what reaches the threshold, or the greatest of each group",
    )
    parser.add_argument("--threshold", type=float, default=0.5)
    parser.add_argument("--csv", type=Path, help="write all numbers, by pair as well, to this file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 if something is wrong with the files."""
    options = options_of(arguments)
    try:
        for name in ("before", "test"):
            files = getattr(options, name)
            if files and len(files) != len(options.predictions):
                raise DatasetError(f"--{name} has {len(files)} files for {len(options.predictions)} models")
        table = scores_of(options)
        if options.csv:
            write_whole(options.csv, table.to_csv(index=False).encode())
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    shown = table[table.by.isin(["all", "difference"]) | ((table.by == "attribute") & (table.metric == "S+"))]
    columns = ["model", "less", "scoring", "attribute", "metric", "value", "low", "high", "cases", "chance"]
    shown = shown.reindex(columns=columns).dropna(axis=1, how="all")
    print("In %, with 95 % intervals; chance: a coin, or a guess in the group")
    print(shown.to_string(index=False, na_rep="", float_format="{:.1f}".format))
    return 0


def scores_of(options: argparse.Namespace) -> pd.DataFrame:
    """The scores of all models over all images, by attribute, pair and threshold, and their differences.

    Raises DatasetError for a benchmark that is not there, and as what reads the files and the data sets does.
    """
    if find(options.benchmark) is None:
        raise DatasetError(
            f"{options.benchmark}: there is no such benchmark. Notebook 53 writes exact substitutions into "
            "sub_exact, notebook 52 makes one; the published one is Jessica-bader/SUB on Hugging Face "
            "(hf download --repo-type dataset Jessica-bader/SUB)."
        )
    world = load(options.data, attributes="class")
    images = benchmark_images(load(options.benchmark), world)
    tables, compared = [], {}
    for number, file in enumerate(options.predictions):
        held, given = held_by_files(options, number, images, world)
        rule = {"rule": options.rule, "threshold": options.threshold}
        judged = judge_predictions(images, world, held.concepts, held.values[None], **given, **rule)
        corrected = compared[file] = judged.scores["corrected"]
        parts = {
            "all": judged.rows,
            "attribute": breakdown(corrected, images, ["attribute"]),
            "pair": breakdown(corrected, images, ["attribute", "bird"]),
        }
        if options.rule == "threshold":
            more = held.values[None], images, judged.removed, held.concepts
            parts["threshold"] = threshold_curve(*more, given.get("before"))
        tables += [table.assign(model=file, by=by) for by, table in parts.items()]
    if len(compared) > 1:
        tables.append(differences(compared, images).assign(by="difference"))
    return pd.concat(tables, ignore_index=True)


def held_by_files(
    options: argparse.Namespace, number: int, images: pd.DataFrame, world: Dataset
) -> tuple[Predictions, dict[str, torch.Tensor]]:
    """The predictions of one model, and those before the change and for real images that are given."""
    file = options.predictions[number]
    held = read_predictions(file, images.id, images=images.path)
    test = ~world.train.numpy()
    test_ids, test_images = np.array(world.image_ids)[test], world.images.path[test]
    given = {}
    for name, files, ids, pictures in (
        ("before", options.before, images.id, images.get("before")),
        ("real", options.test, test_ids, test_images),
    ):
        if not files and is_python_file(file) and pictures is not None and len(pictures):
            files = options.predictions
        if files:
            pictures = () if pictures is None else pictures
            given[name] = read_predictions(files[number], ids, held.concepts, pictures).values[None]
    return held, given


if __name__ == "__main__":
    sys.exit(main())

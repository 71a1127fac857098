"""The command: `python -m xaihelpers.scores.sub predictions.parquet [more files]` prints its scores."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from xaihelpers.datasets.dataset import DatasetError
from xaihelpers.datasets.loading import load
from xaihelpers.own_model import is_python_file
from xaihelpers.paths import write_whole
from xaihelpers.scores.sub import predictions
from xaihelpers.scores.sub.image_scores import score_interval
from xaihelpers.scores.sub.judged import benchmark_images, judge_predictions
from xaihelpers.scores.sub.predictions import read_predictions
from xaihelpers.scores.sub.substitution import RULES


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 if something is wrong with the files."""
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.scores.sub",
        description="Score predictions of attributes on a substitution benchmark.",
        epilog=predictions.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("predictions", nargs="+", help="a file for each model; the first is compared with")
    parser.add_argument("--benchmark", default="sub_exact", help="its folder (default: %(default)s)")
    parser.add_argument("--data", default="aviary", help="the real birds (default: %(default)s)")
    parser.add_argument("--before", nargs="+", help="a file for each model: the birds before the change")
    parser.add_argument("--test", nargs="+", help="a file for each model: the real test images")
    parser.add_argument("--rule", choices=RULES, default=RULES[0], help="0.5, or the greatest of each group")
    parser.add_argument("--csv", type=Path, help="write the table to this file, too")
    options = parser.parse_args(arguments)
    try:
        table = table_of(options)
        if options.csv:
            write_whole(options.csv, table.to_csv(index=False).encode())
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print("In %, with 95 % intervals; chance: a coin, or a guess in the group")
    print(table.to_string(index=False, na_rep="", float_format="{:.1f}".format))
    return 0


def table_of(options: argparse.Namespace) -> pd.DataFrame:
    """The scores of all models over all images, and what each has more than the first, image by image.

    Raises DatasetError: another number of files before the change, or of real birds, than of models; and as
        what reads the files and the data sets does.
    """
    world = load(options.data, attributes="class")
    images = benchmark_images(load(options.benchmark), world)
    test = ~world.train.numpy()
    others = {
        "before": (options.before, images.id, images.get("before", [])),
        "real": (options.test, np.array(world.image_ids)[test], world.images.path[test]),
    }
    rows, first = [], None
    for number, file in enumerate(options.predictions):
        held = read_predictions(file, images.id, images=images.path)
        given = {}
        for name, (files, ids, pictures) in others.items():
            if is_python_file(file) and len(pictures):
                files = files or options.predictions
            if files and len(files) != len(options.predictions):
                raise DatasetError("--before and --test take a file for each of the models")
            if files:
                given[name] = read_predictions(files[number], ids, held.concepts, pictures).values[None]
        values = held.values[None]
        judged = judge_predictions(images, world, held.concepts, values, rule=options.rule, **given)
        rows += judged.rows.assign(model=file).to_dict("records")
        scores = judged.scores["corrected"]
        first = first or scores
        for metric in scores if number else ():
            if metric in first:
                measured = score_interval(scores[metric] - first[metric], images, "gain")._asdict()
                rows.append({"model": file, "less": options.predictions[0], "metric": metric, **measured})
    columns = ["model", "less", "scoring", "metric", "value", "low", "high", "cases", "chance"]
    return pd.DataFrame(rows).reindex(columns=columns).dropna(axis=1, how="all")


if __name__ == "__main__":
    sys.exit(main())

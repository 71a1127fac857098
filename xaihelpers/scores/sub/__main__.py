"""The command: `python -m xaihelpers.scores.sub predictions.csv` prints its scores, and guessers'."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from xaihelpers.datasets.loading import load
from xaihelpers.own_model import is_python_file
from xaihelpers.paths import write_whole
from xaihelpers.scores.sub import predictions
from xaihelpers.scores.sub.judged import benchmark_images, judge_predictions
from xaihelpers.scores.sub.predictions import read_predictions
from xaihelpers.yardsticks.sub_guessers import guessers


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 if something is wrong with the files."""
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.scores.sub",
        description="Score predictions of attributes on a substitution benchmark.",
        epilog=predictions.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("predictions", help="a file, as below")
    parser.add_argument("--before", help="the same for the birds before the change, called by the same ids")
    parser.add_argument("--benchmark", default="sub_exact", help="its folder (default: %(default)s)")
    parser.add_argument("--data", default="aviary", help="the real birds (default: %(default)s)")
    rule = "what is claimed: from 0.5 on (default), or the greatest of each group"
    parser.add_argument("--rule", choices=["threshold", "group"], default="threshold", help=rule)
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
    if "gain" not in set(table.metric):
        print("false alarms and gain need pictures before the change, and --before, the predictions for them")
    return 0


def table_of(options: argparse.Namespace) -> pd.DataFrame:
    """The scores over all images, of the file and of guessers.

    A Python file is asked about the birds before and real ones, too.

    Raises DatasetError and ValueError as what reads the files and the data sets does.
    """
    world = load(options.data, attributes="class")
    images = benchmark_images(load(options.benchmark), world)
    test = ~world.train.numpy()
    held = read_predictions(options.predictions, images.id, images=images.path)
    others = {
        "before": (images.id, images.get("before", [])),
        "real": (np.array(world.image_ids)[test], world.images.path[test]),
    }
    given = {}
    for name, (ids, pictures) in others.items():
        of_file = options.before if name == "before" else None
        if of_file or is_python_file(options.predictions) and len(pictures):
            file = of_file or options.predictions
            given[name] = read_predictions(file, ids, held.concepts, pictures).values[None]
    mine = judge_predictions(images, world, held.concepts, held.values[None], rule=options.rule, **given)
    said = guessers(images, world, held.concepts, mine.removed, images.attribute.unique().tolist())
    rows = [mine.rows.assign(model="yours")]
    for name in ("reciter", "vocabulary", "the truth"):
        places = {place: said[name][place] for place in given}
        after = said[name]["after"]
        judged = judge_predictions(images, world, held.concepts, after, rule=options.rule, **places)
        rows.append(judged.rows[judged.rows.scoring == "corrected"].assign(model=name))
    return pd.concat(rows)[["model", "scoring", "metric", "value", "low", "high", "cases", "chance"]]


if __name__ == "__main__":
    sys.exit(main())

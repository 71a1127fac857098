"""The command: `python -m xaihelpers.scorecard outputs.safetensors --data aviary` writes a model's page."""

import argparse
import logging
import sys

from xaihelpers import scorecard
from xaihelpers.bottlenecks.zoo import check_shipped
from xaihelpers.own_model import is_python_file


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for what cannot be read or written."""
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.scorecard",
        description="One page for a concept model: every verdict that what is given allows, with its 95 % "
        "interval, what something blind gets, and which lies the yardstick itself sees.",
    )
    say = parser.add_argument
    say("outputs", nargs="+", help="files of outputs with image ids, or .py with outputs_of(images)")
    say("--data", default="aviary", help="a data set by name or path (default: %(default)s)")
    say("--labels", default="auto", help="concept labels, of each image or class (default: %(default)s)")
    say("--maps", default="", help="safetensors file with concept_maps, image_ids and concepts")
    say("--texts", default="", help="CSV file with the columns image and text")
    say("--judgements", default="", help="CSV file with the columns image, score and, perhaps, control")
    say("--network-accuracy", type=float, help="0 to 1, of the network that the concepts are to explain")
    say("--scorer", default="", help="a CLIP for scores of texts, as aviary_clip; none by default")
    say("--foreign", action="store_true", help="let a scorer of drawn birds see other data")
    say("--pairs", type=int, default=120, help="probes of a .py that are pairs (default: %(default)s)")
    say("--covered", type=int, default=24, help="and those with covered parts (default: %(default)s)")
    say("--seed", type=int, default=0, help="of probes, cases and folds (default: %(default)s)")
    say("--out", default="scorecard", help="folder to write to (default: %(default)s)")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    asked = any(map(is_python_file, options.outputs))
    probing = {"n_pairs": options.pairs * asked, "n_covered": options.covered * asked, "seed": options.seed}
    given = {name: getattr(options, name) for name in ("maps", "texts", "judgements", "network_accuracy")}
    try:
        ground = scorecard.Ground(options.data, options.labels, options.scorer, **probing)
        check_shipped(ground.world, [options.scorer], options.foreign)
        cards = [scorecard.score(scorecard.Evidence(file, ground, **given)) for file in options.outputs]
        written = scorecard.write_card(cards, options.out)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(*map(scorecard.printed, cards), *written.values(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

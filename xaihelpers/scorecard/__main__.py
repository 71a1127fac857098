"""The command: `python -m xaihelpers.scorecard outputs.safetensors --data aviary` writes a model's page."""

import argparse
import logging
import sys

from xaihelpers import scorecard
from xaihelpers.bottlenecks.zoo import check_shipped
from xaihelpers.own_model import is_python_file
from xaihelpers.scorecard.page import readable


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for what cannot be read or written."""
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.scorecard",
        description="One page for a concept model: every verdict that what is given allows, with its 95 % "
        "interval, what something blind gets, and which lies the yardstick itself sees.",
    )
    say = parser.add_argument
    given = (
        "safetensors files of outputs, with image ids (xaihelpers/outputs.py), or Python files (.py) with "
    )
    say("outputs", nargs="+", help=f"{given}a function outputs_of(images)")
    say("--data", default="aviary", help="a data set by name or path (default: %(default)s)")
    say("--maps", default="", help="safetensors file with concept_maps, image_ids and concepts")
    say("--texts", default="", help="CSV file with the columns image and text")
    say("--judgements", default="", help="CSV file with the columns image, score and, perhaps, control")
    say("--network-accuracy", type=float, help="0 to 1, of the network that the concepts are to explain")
    say("--scorer", default="", help="a CLIP for scores of texts, as aviary_clip; none by default")
    say("--foreign", action="store_true", help="let a scorer of drawn birds see other data")
    say(
        "--pairs", type=int, default=120, help="probes of a Python file that are pairs (default: %(default)s)"
    )
    say("--covered", type=int, default=24, help="and those with covered parts (default: %(default)s)")
    say("--out", default="scorecard", help="folder to write to (default: %(default)s)")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        cards = _cards(options)
        written = scorecard.write_card(cards, options.out)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    for card in cards:
        e = card.evidence
        print(f"{e.name} on {e.ground.world.name}: {len(e.rows)} test images, {e.ground.kind} data")
        shown = readable(card)[card.table.verdict != scorecard.NOT_POSSIBLE]
        print(shown[["yardstick", "value", "what knows nothing", "lead", "verdict"]].to_string(index=False))
        missing = card.table[card.table.verdict == scorecard.NOT_POSSIBLE]
        for (why, give), part in missing.groupby(["why", "give"], sort=False):
            print(f"not possible: {', '.join(part.yardstick)}: {why}; give {give}")
        unseen = card.coverage.fault[card.coverage["seen by"].map(len) == 0]
        print("lies that none of these would see:", ", ".join(unseen) or "none of those tried")
        print("\n".join(e.notes))
    print("\n".join(map(str, written.values())))
    return 0


def _cards(options: argparse.Namespace) -> list[scorecard.Scorecard]:
    asked = any(map(is_python_file, options.outputs))
    probes = (
        {"n_pairs": options.pairs, "n_covered": options.covered} if asked else {"n_pairs": 0, "n_covered": 0}
    )
    ground = scorecard.ground(options.data, scorer=options.scorer, **probes)
    if options.scorer:
        check_shipped(ground.world, [options.scorer], options.foreign)
    given = {name: getattr(options, name) for name in ("maps", "texts", "judgements", "network_accuracy")}
    worth = scorecard.read_worth(ground.world.name)
    return [scorecard.score(scorecard.gather(file, ground, **given), worth) for file in options.outputs]


if __name__ == "__main__":
    sys.exit(main())

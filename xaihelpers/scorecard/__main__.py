"""The command: `python -m xaihelpers.scorecard outputs.safetensors --data aviary` writes a model's page."""

import argparse
import importlib
import logging
import sys

from xaihelpers import scorecard
from xaihelpers.bottlenecks.zoo import check_shipped
from xaihelpers.own_model import is_python_file
from xaihelpers.scorecard.card_page import worries_table


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for what cannot be read or written."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        if options.probes:
            return _write_probes(options)
        if not options.outputs:
            raise ValueError(
                "name at least one file of outputs, or --probes with a folder to draw probes into"
            )
        ground = _ground(options)
        if options.scorer:
            check_shipped(ground.world, [options.scorer], options.foreign)
        cards = [_card(file, ground, options) for file in options.outputs]
        written = scorecard.write_card(cards, options.out)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    for card in cards:
        print(_summary(card))
    print("\n".join(str(path) for path in written.values()))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.scorecard",
        description="One page for a concept model: every verdict that what is given allows, with its 95 % "
        "interval, what something blind gets, and which lies the yardstick itself sees.",
    )
    say = parser.add_argument
    given = (
        "safetensors files of outputs, with image ids (xaihelpers/outputs.py), or Python files (.py) with "
    )
    say("outputs", nargs="*", help=f"{given}a function outputs_of(images)")
    say("--data", default="aviary", help="a data set by name or path (default: %(default)s)")
    say("--labels", default="auto", choices=("auto", "image", "class"), help="whose concept labels count")
    say("--maps", default="", help="safetensors file with concept_maps, image_ids and concepts")
    say("--view", type=int, nargs=2, metavar=("RESIZE", "CROP"), help="of the pictures that the maps cover")
    say("--texts", default="", help="CSV file with the columns image and text")
    say("--judgements", default="", help="CSV file with the columns image, score and, perhaps, control")
    say("--probes", default="", metavar="FOLDER", help="write pictures with one change here, and stop")
    say("--probed", default="", help="safetensors file of outputs for these pictures, by their file names")
    say("--ask", default="", metavar="MODULE:FUNCTION", help="from a list of pictures to their outputs")
    say("--network-accuracy", type=float, help="0 to 1, of the network that the concepts are to explain")
    say("--scorer", default="", help="a CLIP for scores of texts, as aviary_clip; none by default")
    say("--scorer-weights", default="", help="one of open_clip's tags, or a file")
    say("--foreign", action="store_true", help="let a scorer of drawn birds see other data")
    say(
        "--yardsticks", default="", help="results folder with a run of notebook 62; default: the shipped ones"
    )
    say("--pairs", type=int, default=120, help="probes that are pairs (default: %(default)s)")
    say("--covered", type=int, default=24, help="probes with covered parts (default: %(default)s)")
    say("--seed", type=int, default=0, help="of probes, cases and folds (default: %(default)s)")
    say("--out", default="scorecard", help="folder to write to (default: %(default)s)")
    return parser


def _ground(options: argparse.Namespace) -> scorecard.Ground:
    asked = options.probed or options.ask or options.probes or any(map(is_python_file, options.outputs))
    n_pairs, n_covered = (options.pairs, options.covered) if asked else (0, 0)
    about = {"scorer": options.scorer, "scorer_weights": options.scorer_weights, "seed": options.seed}
    return scorecard.ground(options.data, options.labels, n_pairs=n_pairs, n_covered=n_covered, **about)


def _card(file: str, ground: scorecard.Ground, options: argparse.Namespace) -> scorecard.Scorecard:
    evidence = scorecard.gather(
        file,
        ground,
        maps=options.maps,
        texts=options.texts,
        judgements=options.judgements,
        probed=options.probed or None,
        ask=_function(options.ask) if options.ask else None,
        network_accuracy=options.network_accuracy,
        view=tuple(options.view) if options.view else None,
    )
    folders = [options.yardsticks] if options.yardsticks else ()
    return scorecard.score(evidence, scorecard.read_fault_records(ground.world.name, folders))


def _function(name: str):
    """The function that `module:function` names."""
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"--ask {name}: no such function ({error}). Write module:function, of a module that Python finds "
            "here; it takes a list of pictures and returns their ConceptOutputs"
        ) from error


def _write_probes(options: argparse.Namespace) -> int:
    ground = _ground(options)
    probes = scorecard.draw_probes(
        ground.world, options.pairs, options.covered, options.seed, folder=options.probes
    )
    print(f"{len(probes.ids)} pictures in {probes.folder}")
    print("Give your model's outputs for them by --probed, with these file names as image ids.")
    return 0


def _summary(card: scorecard.Scorecard) -> str:
    """A model's page in a few lines."""
    table = card.table()
    lines = [f"{card.model} on {card.data}: {card.n_images} test images, {card.kind} data"]
    for verdict in (*scorecard.VERDICTS, "not possible"):
        names = table.yardstick[table.verdict == verdict]
        lines.append(f"  {verdict} ({len(names)}): {', '.join(names) or 'none'}")
    unseen = worries_table(card)
    unseen = unseen.fault[unseen["seen by"] == "none of these"]
    lines += [f"  lies that none of these would see: {', '.join(unseen) or 'none of those tried'}"]
    return "\n".join([*lines, *(f"  {note}" for note in card.notes)])


if __name__ == "__main__":
    sys.exit(main())

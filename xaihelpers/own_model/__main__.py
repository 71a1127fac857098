"""The command: `python -m xaihelpers.own_model FILE --out outputs.safetensors` writes a model's outputs."""

import argparse
import sys

from xaihelpers.datasets import DatasetError, load
from xaihelpers.outputs import save_outputs
from xaihelpers.own_model import OwnModelError, outputs_of_data


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for what cannot be run, read or written."""
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.own_model",
        description="Write the outputs of your own bottleneck for the images of a data set to a file that "
        "every notebook takes.",
    )
    parser.add_argument("file", help="a Python file with outputs_of(images)")
    parser.add_argument("--data", default="aviary", help="a data set by name or path (default: %(default)s)")
    parser.add_argument("--split", default="test", help="test (default), train or all")
    parser.add_argument("--out", required=True, help="safetensors file to write")
    options = parser.parse_args(arguments)
    try:
        outputs = outputs_of_data(options.file, load(options.data, attributes="class"), options.split)
        save_outputs(outputs, options.out)
    except (OwnModelError, DatasetError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    shape = f"{len(outputs.values)} images, {len(outputs.concepts)} concepts, {len(outputs.classes)} classes"
    print(f"{options.out}: {shape}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

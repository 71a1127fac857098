"""Lessons from the notebooks, as `python -m xaihelpers.teaching`: routes, map, student, teacher, slides."""

import argparse
import sys

from xaihelpers.paths import PROJECT
from xaihelpers.teaching.routes import read_routes, readme_section, with_section


def main(arguments: list[str] | None = None) -> int:
    """Make what is asked for and print where it lies. Returns 1, and prints why, where it cannot be made."""
    asked = _parser().parse_args(arguments)
    try:
        asked.make(asked)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m xaihelpers.teaching", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    routes = commands.add_parser("routes", help="print README's section on routes")
    routes.add_argument("--write", action="store_true", help="put it into the README")
    routes.set_defaults(make=_routes)
    return parser


def _routes(asked: argparse.Namespace) -> None:
    section = readme_section(read_routes())
    if not asked.write:
        print(section, end="")
        return
    readme = PROJECT / "README.md"
    readme.write_text(with_section(readme.read_text(), section))


if __name__ == "__main__":
    sys.exit(main())

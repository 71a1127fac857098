"""Lessons from the notebooks, as `python -m xaihelpers.teaching`: routes, map, student, teacher, slides."""

import argparse
import sys
from pathlib import Path

from xaihelpers.paths import PROJECT
from xaihelpers.teaching.idea_map import write_map
from xaihelpers.teaching.lessons import write_lesson
from xaihelpers.teaching.route_tables import readme_section, with_section
from xaihelpers.teaching.routes import find_route, read_routes
from xaihelpers.teaching.slide_pages import write_pdf, write_slides
from xaihelpers.teaching.slides import slides_of


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
    drawn = commands.add_parser("map", help="draw notebooks/map.png")
    drawn.set_defaults(make=lambda asked: print(write_map()))
    slides = commands.add_parser("slides", help="slides of a route")
    slides.add_argument("--pdf", action="store_true", help="a PDF of them as well, printed by Chromium")
    slides.set_defaults(make=_slides)
    student = commands.add_parser("student", help="notebooks of a route without answers, and its plan")
    teacher = commands.add_parser("teacher", help="the same with answers and notes on every discussion")
    for command in (student, teacher):
        command.set_defaults(make=_lesson)
    for command in (slides, student, teacher):
        command.add_argument("route", help="a name of data/teaching/routes.yaml")
        command.add_argument("--out", type=Path, help="folder; lessons/ROUTE-COMMAND without it")
        command.set_defaults(command=command.prog.split()[-1])
    return parser


def _slides(asked: argparse.Namespace) -> None:
    route = find_route(asked.route)
    index = write_slides(slides_of(route), route.title, _folder(asked))
    print(index)
    if asked.pdf:
        print(write_pdf(index))


def _lesson(asked: argparse.Namespace) -> None:
    print(write_lesson(find_route(asked.route), asked.command, _folder(asked)))


def _folder(asked: argparse.Namespace) -> Path:
    return asked.out or PROJECT / "lessons" / f"{asked.route}-{asked.command}"


def _routes(asked: argparse.Namespace) -> None:
    section = readme_section(read_routes())
    if not asked.write:
        print(section, end="")
        return
    readme = PROJECT / "README.md"
    readme.write_text(with_section(readme.read_text(), section))


if __name__ == "__main__":
    sys.exit(main())

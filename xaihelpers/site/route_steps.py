"""The routes through the notebooks, from data/teaching/routes.yaml, as the site shows them."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Stop:
    """A notebook, or a part of one, on a route."""

    number: str
    minutes: int = 0
    why: str = ""


@dataclass(frozen=True)
class Part:
    """A session of a route."""

    stops: list[Stop]
    title: str = ""


@dataclass(frozen=True)
class Route:
    """An order in which to read notebooks."""

    title: str
    about: str
    parts: list[Part] = field(default_factory=list)


def read_routes(file: Path) -> list[Route]:
    """The routes of a file, in its order; none if it is not there."""
    if not file.exists():
        return []
    raise NotImplementedError

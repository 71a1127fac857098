"""The letter that an answer chooses among lettered options."""

from collections.abc import Sequence

from xaihelpers.ask.reading import named_option

LETTERS = tuple("ABCDE")


def parse_letter(text: str, names: Sequence[str] = (), cut: bool = False) -> str | None:
    """The letter, A to E, of the option that an answer (without the reasoning before it) names.

    names, cut, and what is read: as of `ask.reading.named_option`.
    """
    return named_option(text, LETTERS, names, cut)

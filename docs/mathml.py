"""Equations as MathML, which browsers draw without a script: for the site and for slides."""

import re

from latex2mathml.converter import convert

# what the converter does not know, or not everywhere, in words that it does
KNOWN = {
    r"\arg": r"\operatorname{arg}",
    r"\operatorname*": r"\operatorname",
    r"\lVert": "‖",
    r"\rVert": "‖",
    r"\tag": r"\qquad\tag",
}


def mathml(latex: str, display: bool = False) -> str:
    """An equation of LaTeX as MathML; display: whether it stands on a line of its own.

    Raises ValueError for what cannot be turned into MathML.
    """
    equation = " ".join(latex.split())
    for name, known in KNOWN.items():
        equation = equation.replace(name, known)
    try:
        drawn = convert(equation, display="block" if display else "inline")
    except Exception as error:  # the converter has errors of many kinds
        raise ValueError(f"No MathML for {latex!r}: {type(error).__name__} {error}") from error
    unknown = re.search(r">\s*(?:\\|&#92;)([A-Za-z]+)", drawn)
    if unknown:
        raise ValueError(f"No MathML for {latex!r}: \\{unknown[1]} is not known")
    return drawn

"""Equations of markdown as MathML, which browsers draw without a script."""

import re

from latex2mathml.converter import convert

DISPLAY = r"\$\$(.+?)\$\$"
INLINE = r"(?<![\\$])\$(?![\s$])((?:\\.|[^$\\])+?)(?<!\s)\$(?![\d$])"
# what the converter does not know, in words that it does
KNOWN = {
    r"\tfrac": r"\frac",
    r"\dfrac": r"\frac",
    r"\lVert": r"\Vert ",
    r"\rVert": r"\Vert ",
    r"\lvert": r"\vert ",
    r"\rvert": r"\vert ",
    r"\arg": r"\operatorname{arg}",
    r"\operatorname*": r"\operatorname",
    r"\bigl": "",
    r"\bigr": "",
    r"\Bigl": "",
    r"\Bigr": "",
    r"\&": "&amp;",
}


def with_mathml(text: str) -> str:
    """Markdown with its equations, between $ or $$, as MathML; code between ` stays as it is."""
    parts = re.split(r"(```.*?```|`[^`\n]+`)", text, flags=re.DOTALL)
    for place in range(0, len(parts), 2):
        shown = re.sub(DISPLAY, lambda found: mathml(found[1], "block"), parts[place], flags=re.DOTALL)
        parts[place] = re.sub(INLINE, lambda found: mathml(found[1], "inline"), shown)
    return "".join(parts)


def mathml(equation: str, display: str) -> str:
    """One equation of LaTeX as MathML.

    display: `block` for a line of its own, `inline` within a line.
    """
    for name, known in KNOWN.items():
        whole = r"(?![a-zA-Z])" if name[-1].isalpha() else ""
        equation = re.sub(re.escape(name) + whole, lambda _, known=known: known, equation)
    drawn = convert(" ".join(equation.split()), display=display)
    # Markdown would read these within the tags
    return re.sub(r">([^<]+)<", lambda text: f">{_escaped(text[1])}<", drawn)


def display_equations(text: str) -> list[str]:
    """The equations of markdown that stand on lines of their own, with their $$."""
    return [f"$${found}$$" for found in re.findall(DISPLAY, text, flags=re.DOTALL)]


def _escaped(text: str) -> str:
    return re.sub(r"[*_\[\]`~\\$|!]", lambda sign: f"&#{ord(sign[0])};", text)

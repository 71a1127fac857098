"""Equations as MathML, made when the site is built: browsers show them without a script."""

import html
import re
from functools import lru_cache

from docutils import nodes
from latex2mathml.converter import convert

RENDERER = "mathml"
# what the converter does not know, in what it does
SPELLINGS = [
    (re.compile(r"\\[lr]?Vert\b ?"), "‖"),
    (re.compile(r"\\[lr]?vert\b ?"), "|"),
    (re.compile(r"\\arg\b"), r"\\operatorname{arg}"),
    (re.compile(r"\\text\{([^{}]*)\\&([^{}]*)\}"), r"\\text{\1&\2}"),
]


@lru_cache(maxsize=4096)
def mathml(latex: str, display: bool = False) -> str:
    """An equation as MathML, with its LaTeX in `alttext`.

    display: whether it stands on a line of its own.
    Raises ValueError for what the converter cannot turn into MathML.
    """
    spelled = latex.strip()
    for pattern, other in SPELLINGS:
        spelled = pattern.sub(other, spelled)
    try:
        text = convert(spelled, display="block" if display else "inline")
    except Exception as error:  # the converter has errors of many kinds
        raise ValueError(f"No MathML for {latex!r}: {type(error).__name__} {error}") from error
    unknown = re.search(r">\s*\\[A-Za-z]+", text)
    if unknown:
        raise ValueError(f"No MathML for {latex!r}: it does not know {unknown[0][1:].strip()}")
    alternative = html.escape(" ".join(latex.split()), quote=True)
    return text.replace("<math ", f'<math alttext="{alternative}" ', 1)


def visit_inline(self, node) -> None:
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(self, node) -> None:
    self.body.append(f'<div class="math">{mathml(node.astext(), True)}</div>\n')
    raise nodes.SkipNode


def setup(app) -> dict:
    app.add_html_math_renderer(RENDERER, (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

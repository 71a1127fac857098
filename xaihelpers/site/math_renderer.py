"""Equations as MathML, made when the site is built: browsers show them without a script."""

import html
import re
from functools import lru_cache

from docutils import nodes

from xaihelpers.teaching.mathml import mathml

RENDERER = "mathml"


@lru_cache(maxsize=4096)
def equation_html(latex: str, display: bool = False) -> str:
    """An equation as MathML, with its LaTeX in `alttext`.

    display: whether it stands on a line of its own.
    Raises ValueError for what cannot be turned into MathML.
    """
    try:
        text = mathml(latex.strip(), "block" if display else "inline")
    except Exception as error:  # the converter has errors of many kinds
        raise ValueError(f"No MathML for {latex!r}: {type(error).__name__} {error}") from error
    unknown = re.search(r">\s*(?:\\|&#92;)([A-Za-z]+)", text)
    if unknown:
        raise ValueError(f"No MathML for {latex!r}: \\{unknown[1]} is not known")
    alternative = html.escape(" ".join(latex.split()), quote=True)
    return text.replace("<math ", f'<math alttext="{alternative}" ', 1)


def visit_inline(self, node) -> None:
    self.body.append(equation_html(node.astext()))
    raise nodes.SkipNode


def visit_block(self, node) -> None:
    self.body.append(f'<div class="math">{equation_html(node.astext(), True)}</div>\n')
    raise nodes.SkipNode


def setup(app) -> dict:
    app.add_html_math_renderer(RENDERER, (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

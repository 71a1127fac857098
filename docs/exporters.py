"""Copies of notebooks for a lesson, and slides that need no network: exporters of nbconvert.

`make student`, `make teacher` and `make slides` call them, as in
`PYTHONPATH=docs python -m nbconvert --to exporters.Student --output-dir lessons notebooks/13_*.ipynb`.
"""

import ast
import re
import textwrap

from jinja2 import pass_context
from mathml import mathml
from nbconvert import NotebookExporter, SlidesExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import ClearOutputPreprocessor, Preprocessor
from nbformat.v4 import new_markdown_cell

HIDDEN_FROM_STUDENTS = {"answer", "teacher"}
TEXTS = ast.Constant, ast.JoinedStr


class OpenExercises(Preprocessor):
    """Takes answers and teachers' notes out; a check then says what is open, and stops nothing.

    Raises ValueError if a check has a text over several lines, which cannot be moved to the right.
    """

    def preprocess(self, notebook, resources):
        notebook.cells = [cell for cell in notebook.cells if not HIDDEN_FROM_STUDENTS & tags_of(cell)]
        checks = [cell for cell in notebook.cells if "check" in tags_of(cell)]
        for number, cell in enumerate(checks, 1):
            texts = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, TEXTS)]
            if any(node.lineno != node.end_lineno for node in texts):
                raise ValueError(f"the check of exercise {number} has a text over several lines")
            begin = f"from xaihelpers import teaching\n\nwith teaching.checking({number}):\n"
            cell.source = begin + textwrap.indent(cell.source, "    ")
        return notebook, resources


class UnfoldedCells(Preprocessor):
    """Shows the code of answers and checks."""

    def preprocess_cell(self, cell, resources, index):
        cell.metadata.pop("jupyter", None)
        return cell, resources


class MarkedCells(Preprocessor):
    """Leaves out each cell without a `slide_type`, and names the section above what code has shown.

    Of a notebook that marks none, titles with their text, figures and tables are slides.
    """

    def preprocess(self, notebook, resources):
        cells, section = [], ""
        if not any("slideshow" in cell.metadata for cell in notebook.cells):
            for cell in filter(is_shown, notebook.cells):
                cell.metadata.slideshow = {"slide_type": "slide"}
        for cell in notebook.cells:
            if cell.cell_type == "markdown" and (headings := re.findall(r"(?m)^## .+", cell.source)):
                section = headings[-1]
            if "slideshow" not in cell.metadata:
                continue
            if cell.cell_type == "code" and section:
                cells.append(new_markdown_cell(section, metadata={"slideshow": cell.metadata.slideshow}))
                cell.metadata.slideshow = {"slide_type": "-"}  # on the slide of its heading
            cells.append(cell)
        notebook.cells = cells
        return notebook, resources


class Student(NotebookExporter):
    """A notebook without answers and outputs, which runs from top to end with every exercise open."""

    preprocessors = [OpenExercises, ClearOutputPreprocessor(enabled=True)]


class Teacher(NotebookExporter):
    """A notebook as committed, with its answers unfolded."""

    preprocessors = [UnfoldedCells]


class Slides(SlidesExporter):
    """A page of reveal.js, which lies beside it in the folder `reveal`; it loads nothing from elsewhere."""

    preprocessors = [MarkedCells]
    exclude_input = exclude_output_prompt = exclude_input_prompt = exclude_anchor_links = True
    reveal_url_prefix, reveal_theme = "reveal", "white"  # other themes fetch fonts
    raw_template = """\
{% extends 'reveal/index.html.j2' %}
{% block html_head_js %}{% endblock %}
{% block html_head_js_mathjax %}<style>
:root { --jp-content-font-size1: 24px; --jp-ui-font-size1: 24px; }
.reveal .slides :is(h1, h2, h3) { text-transform: none; font-size: 40px; }
.reveal .slides section section { max-height: 700px; overflow-y: auto; }
.reveal .slides img { width: 1220px; max-height: 590px; object-fit: contain; }
.reveal .slides table { font-size: 20px; }
</style>{% endblock %}
{% block footer_js %}<script src="reveal/dist/reveal.js"></script>
<script src="reveal/plugin/notes/notes.js"></script>
<script>Reveal.initialize({ width: 1280, height: 720, hash: true, plugins: [RevealNotes] });</script>
{% endblock %}"""

    @pass_context
    def markdown2html(self, context, source):
        renderer = Equations(escape=False, embed_images=True, exclude_anchor_links=True)
        renderer.path = context["resources"]["metadata"]["path"]
        return MarkdownWithMath(renderer=renderer).render(source)


class Equations(IPythonRenderer):
    """Renders markdown with equations as MathML."""

    def inline_math(self, body):
        return mathml(body)

    def block_math(self, body):
        return mathml(body, display=True)


def tags_of(cell) -> set[str]:
    return set(cell.metadata.get("tags", []))


def is_shown(cell) -> bool:
    """Whether a cell begins a section, or has shown a figure or a table."""
    if cell.cell_type == "markdown":
        return cell.source.startswith(("# ", "## "))
    return any({"image/png", "text/html"} & set(output.get("data", {})) for output in cell.outputs)

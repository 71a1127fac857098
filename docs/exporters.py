"""Copies of notebooks for a lesson, and slides that need no network: exporters of nbconvert.

`make student`, `make teacher` and `make slides` call them, as in
`PYTHONPATH=docs python -m nbconvert --to exporters.Student --output-dir lessons notebooks/13_*.ipynb`.
"""

import ast
import re
import textwrap

from jinja2 import pass_context
from mathml import mathml
from nbconvert import HTMLExporter, NotebookExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import ClearOutputPreprocessor, Preprocessor
from nbformat.v4 import new_code_cell, new_markdown_cell

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


class SlideCells(Preprocessor):
    """Turns cells with a `slide_type` into one cell a slide: a section's text, or a figure or a table.

    Of a notebook that marks none, titles with their text, figures and tables are slides. What code has
    shown stands under the heading of its section.
    """

    def preprocess(self, notebook, resources):
        slides, section = [], ""
        marked = any("slideshow" in cell.metadata for cell in notebook.cells)
        for cell in notebook.cells:
            kind = cell.metadata.get("slideshow", {}).get("slide_type", "skip" if marked else "slide")
            parts = re.split(r"(?m)^(?=## )", cell.source) if cell.cell_type == "markdown" else []
            if kind == "notes":
                for slide in slides[-1:]:
                    slide.metadata.notes = slide.metadata.get("notes", "") + "".join(parts)
                continue
            for part in filter(str.strip, parts):
                begins = part.startswith(("# ", "## "))
                section = part.splitlines()[0] if begins else section
                is_shown = marked or (begins and "\n" in part.strip())  # more than a title
                if kind != "skip" and is_shown:
                    slides.append(new_markdown_cell(part if begins else f"{section}\n\n{part}"))
            if kind != "skip":
                for output in figures_and_tables(cell):
                    slides.append(new_code_cell(section, outputs=[output]))
        notebook.cells = slides
        return notebook, resources


class Student(NotebookExporter):
    """A notebook without answers and outputs, which runs from top to end with every exercise open."""

    preprocessors = [OpenExercises, ClearOutputPreprocessor(enabled=True)]


class Teacher(NotebookExporter):
    """A notebook as committed, with its answers unfolded."""

    preprocessors = [UnfoldedCells]


class Slides(HTMLExporter):
    """A page of reveal.js, which lies beside it in the folder `reveal`; it loads nothing from elsewhere.

    What does not fit on a slide of 1280 x 800 is written smaller, or goes on on the next one.
    """

    preprocessors = [SlideCells]
    file_extension = ".slides.html"
    raw_template = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{{ resources.metadata.name }}</title>
<link rel="stylesheet" href="reveal/dist/reveal.css">
<style>
.reveal .slides section { box-sizing: border-box; width: 1280px; padding: 24px 40px 36px; }
.reveal .slides { text-align: left; font-family: sans-serif; line-height: 1.35; }
:is(h1, h2) { margin: 0 0 12px; font-size: 36px; line-height: 48px; white-space: nowrap; }
:is(p, ul, ol, table, pre) { margin: 0 0 0.6em; }
table { border-collapse: collapse; }
:is(th, td) { padding: 0.2em 0.6em; border-bottom: 1px solid #bbb; text-align: left; vertical-align: top; }
:is(th, td, small) { font-size: inherit !important; }
caption { padding-bottom: 0.4em; text-align: left; }
figure { display: flex; flex-direction: column; height: 680px; margin: 0; }
figcaption { font-size: 22px; }
figure img { flex: 1; min-height: 0; object-fit: contain; }
p img { max-width: 100%; max-height: 600px; }
code { font-size: max(0.9em, 18px); }
.reveal .slide-number { font-size: 18px; }
</style>
<div class="reveal"><div class="slides">
{% for cell in nb.cells %}
<section>{{ cell.source | markdown2html }}
{% for output in cell.outputs %}
{% if "text/html" in output.data %}{{ output.data["text/html"] }}
{% else %}<figure><figcaption>{{ output.metadata.caption | e }}</figcaption>
<img alt="" src="data:image/png;base64,{{ output.data["image/png"] }}"></figure>
{% endif %}
{% endfor %}
{% if cell.metadata.notes %}<aside class="notes">{{ cell.metadata.notes | markdown2html }}</aside>{% endif %}
</section>
{% endfor %}
</div></div>
<script src="reveal/dist/reveal.js"></script>
<script src="reveal/plugin/notes/notes.js"></script>
<script>
const SIZES = [30, 26, 23, 20, 18];  // pixels of text
const PIECES = ["> :not(h1, h2, ul, ol, table, style, aside)", "> * > li", "> table > tbody > tr"];
const tooWide = element => element.scrollWidth > element.clientWidth;
const tooHigh = page => page.offsetHeight > 800;
const pieces = page => [...page.querySelectorAll(PIECES.map(one => ":scope " + one))];
const written = (page, size) => { page.style.fontSize = size + "px"; return page; };

function layOut(page, sizes) {
  page.style.display = "block";
  const heading = page.firstElementChild;
  for (let size = 36; tooWide(heading); size--) heading.style.fontSize = size + "px";
  if (sizes.some(size => !tooWide(written(page, size)) && !tooHigh(page))) return;
  const next = page.cloneNode(true), total = pieces(page).length;
  page.after(next);
  let kept = pieces(page).filter(piece => piece.getBoundingClientRect().bottom <= 764).length || 1;
  kept = Math.ceil(total / Math.ceil(total / kept));  // about as many on each slide
  pieces(page).slice(kept).forEach(piece => piece.remove());
  while (tooHigh(page) && kept > 1) pieces(page)[--kept].remove();
  pieces(next).slice(0, kept).forEach(piece => piece.remove());
  for (const part of document.querySelectorAll("ul, ol, table"))
    if (!part.querySelector("li, td")) part.remove();
  pieces(next).length ? layOut(next, sizes.slice(-1)) : next.remove();
}

function shorten(table) {  // a result of very many rows is shown by its first ones
  const rows = [...table.tBodies[0].rows];
  if (rows.length <= 20 || !table.caption) return;
  rows.slice(6).forEach(row => row.remove());
  table.caption.append(`: the first 6 of ${rows.length} rows`);
}

onload = () => {
  document.querySelectorAll("section > table").forEach(shorten);
  document.querySelectorAll("section").forEach(page => layOut(page, SIZES));
  Reveal.initialize({ width: 1280, height: 800, margin: 0, center: false, transition: "none",
    controls: false, slideNumber: "c/t", hash: true, plugins: [RevealNotes] });
};
</script>
"""

    @pass_context
    def markdown2html(self, context, source):
        renderer = Equations(escape=False, embed_images=True, exclude_anchor_links=True)
        renderer.path = context["resources"]["metadata"]["path"]
        return MarkdownWithMath(renderer=renderer).render(source)


class Equations(IPythonRenderer):
    """Renders markdown with equations as MathML."""

    def link(self, text, url, title=None):
        return text  # what a notebook links to does not lie beside the slides

    def inline_math(self, body):
        return mathml(body)

    def block_math(self, body):
        return mathml(body, display=True)


def tags_of(cell) -> set[str]:
    return set(cell.metadata.get("tags", []))


def figures_and_tables(cell) -> list:
    """What code has shown. A figure's caption is the sentence printed before it; a table holds its own."""
    found, without_caption = [], []
    for output in reversed(cell.get("outputs", [])):
        if output.output_type == "stream":
            lines = re.sub(r"\n(?=[a-z])", " ", output.text).splitlines()
            lines = [line for line in lines if line.endswith(".")] or lines
            while without_caption and lines:
                without_caption.pop(0).metadata.caption = lines.pop()
        elif "text/html" in output.get("data", {}):
            text = re.sub(r"</?div.*?>", "", output.data["text/html"])
            output.data["text/html"] = re.sub(r"(\[[^\s<]+,) ", r"\1&nbsp;", text)  # intervals are not broken
            found.insert(0, output)
        elif "image/png" in output.get("data", {}):
            found.insert(0, output)
            without_caption.append(output)
    return found

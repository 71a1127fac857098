"""The site: README, documents and the notebooks as committed, as pages that need no network.

`make site` calls `sphinx-build -W -c docs . docs/_build`. No notebook is executed.
"""

import json
import re
import shutil
import sys
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from mathml import mathml  # noqa: E402

CAPTIONS = {
    "notebooks/0": "Start here",
    "notebooks/1": "Alignment: what a bottleneck calls important",
    "notebooks/2": "ConceptScore: concepts without labels",
    "notebooks/3": "Fast and slow: do words suffice?",
    "notebooks/4": "AutoXplain: where a model looks",
    "notebooks/5": "SUB: one attribute changed",
    "notebooks/6": "The yardsticks themselves",
    "notebooks/7": "People",
    "notebooks/8": "Costs",
    "notebooks/9": "How the shipped models were made, and the report",
    "notebooks/appendix/": "Appendices",
    "docs/": "How to use the collection",
    "data/": "Data of the papers and of runs",
}

project = "Can concept explanations be trusted?"
extensions = ["myst_nb"]
root_doc = "README"
include_patterns = ["README.md", "docs/*.md", "notebooks/**.ipynb", "data/papers/README.md"]
include_patterns += ["data/real_runs/README.md"]
exclude_patterns = [".*", "**/.*", "docs/_build", "lessons", "results", "tests", "xaihelpers"]
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}  # no script of another host
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
myst_update_mathjax = False
html_math_renderer = "mathml"
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_search_summary = False  # which a browser does not fetch from files
html_show_copyright = False


def add_contents(app, document, source):
    """Below the README stand the lists of all pages, hidden, since they are beside every page."""
    if document != root_doc:
        return
    for begin, caption in CAPTIONS.items():
        pages = [name for name in sorted(app.env.found_docs) if name.startswith(begin)]
        if pages:
            lines = [
                "",
                "```{toctree}",
                ":hidden:",
                f":caption: {caption}",
                "",
                *(f"/{name}" for name in pages),
            ]
            source[0] += "\n".join([*lines, "```", ""])


def fold(app, document, source):
    """A notebook's page begins with prose and what code has shown.

    Folded are parameters, all that is loaded, and notes for teachers; lines on what came from a cache are
    left out.
    """
    if app.env.doc2path(document).suffix != ".ipynb":
        return
    notebook = json.loads(source[0])
    loads = False
    for cell in notebook["cells"]:
        tags = set(cell["metadata"].get("tags", []))
        if cell["cell_type"] == "markdown":
            loads = False
            if "teacher" in tags:
                note = "".join(cell["source"])
                cell["source"] = f"<details>\n<summary>For teachers</summary>\n\n{note}\n\n</details>"
            continue
        loads = loads or "parameters" in tags
        if loads:
            cell["metadata"]["tags"] = [*(tags | {"hide-cell"})]
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                lines = "".join(output["text"])
                output["text"] = re.sub(r"(?m)^.*( from the cache|: trained \().*\n", "", lines)
        cell["outputs"] = [output for output in cell["outputs"] if output.get("text") != ""]
    source[0] = json.dumps(notebook)


def inline_equation(translator, node):
    translator.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def displayed_equation(translator, node):
    translator.body.append(f'<div class="math">{mathml(node.astext(), display=True)}</div>')
    raise nodes.SkipNode


def name_as_index(app, error):
    if error is None:
        shutil.copyfile(Path(app.outdir, "README.html"), Path(app.outdir, "index.html"))


def setup(app):
    app.add_html_math_renderer("mathml", (inline_equation, None), (displayed_equation, None))
    app.connect("source-read", add_contents)
    app.connect("source-read", fold)
    app.connect("build-finished", name_as_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

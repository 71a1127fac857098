"""A small made-up notebook with all that lessons are made from; names in code. Shared by several tests."""

import ast
import base64
import builtins
import io
import symtable

from matplotlib.figure import Figure

TOLD = {
    "goals": ["Say what a crown is.", "Read a table of crowns.", "Tell a crown from a hat."],
    "before": "What a bird is (notebook 00).",
    "reading": 1,
    "running": 2,
    "learnt": ["Crowns differ.", "Whether hats do is open."],
}
OPENING = """# 13 · Crowns

**Question.** Is there a crown
in the picture?

**Goals.** After this notebook you can

1. Say what a crown is.
2. Read a table of crowns.
3. Tell a crown from a hat.

**Before.** What a bird is (notebook 00).

**Minutes.** 1 to read, 2 to run on two cores.

Paper **crowns** (section 3)."""
CLOSING = "## What was learnt\n\n- Crowns differ.\n- Whether hats do is open."
ASKED = """my_guess = None
guess = guesses.ask("13-crowns", "How many birds have a crown?", "%", 0, 100, my_guess)"""
CHECK = """assert crowns is not None, "crowns is not set"
assert crowns == x, "crowns is another number"
print("Exercise 1: right")"""
TABLE = "<style>td {color: red}</style><table id='T_1'><caption>Birds</caption><thead><tr><th>bird</th></tr>"
TABLE += "</thead><tbody>" + "<tr><td>A bird with a long name</td></tr>" * 40 + "</tbody></table>"


def markdown(source, *tags, **more):
    return {"cell_type": "markdown", "metadata": {"tags": [*tags], **more}, "source": source}


def code(source, *tags, printed="", outputs=(), **more):
    """A code cell; folded where it is an answer or a check."""
    outputs = [*outputs]
    if printed:
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed})
    if {"answer", "check"} & set(tags):
        more["jupyter"] = {"source_hidden": True}
    cell = {"cell_type": "code", "metadata": {"tags": [*tags], **more}, "source": source}
    return cell | {"outputs": outputs, "execution_count": 1 if outputs else None}


def slide(title, *points, code=False):
    return {"xaihelpers": {"slide": {"title": title, "points": [*points], "code": code}}}


def shown(kind, data):
    return {"output_type": "display_data", "data": {kind: data, "text/plain": "shown"}, "metadata": {}}


def figure(width, height):
    """A drawn figure as a notebook keeps it."""
    drawn = Figure(figsize=(width, height))
    drawn.subplots().plot([0, 1])
    file = io.BytesIO()
    drawn.savefig(file, format="png", dpi=50)
    return base64.b64encode(file.getvalue()).decode()


def notebook():
    """Notebook 13 · Crowns: two sections, a prediction, slides of each kind, an exercise."""
    equation = "### Shares\n\nBy hand, with $r_i$ crowns of bird $i$,\n\n"
    equation += "$$s=\\frac{1}{N}\\sum_i r_i,\\qquad t=1-s.$$\n\nNo more."
    point = "Look for a bar that lies below the line of chance"
    cells = [
        markdown(OPENING),
        code("x = 3", printed="three\n"),
        markdown("## 1 · Crowns\n\nHow many `birds` cost $5 and have $c_i$?"),
        code(ASKED, "predict"),
        code("print(x)", "reveals", printed="shown too early\n"),
        code("print(x)", "reveal", printed="revealed\n"),
        markdown("What to see: *bars*."),
        code(
            "plot()", "slide", outputs=[shown("image/png", figure(8, 3))], **slide("Wide bars", point, point)
        ),
        code("plot()", "slide", outputs=[shown("image/png", figure(4, 4))], **slide("Square bars", point)),
        markdown("## 2 · Hats"),
        markdown(equation, "slide", **slide("The share of crowns", "Say what each letter stands for")),
        code(
            "table()", "slide", outputs=[shown("text/html", TABLE)], **slide("All birds", point, point, point)
        ),
        code(
            "x = 3\nprint('<' * 100)",
            "slide",
            printed="<" * 100 + "\n" + "line\n" * 60,
            **slide("Code", code=True),
        ),
        markdown("## 3 · More\n\nA picture: ![a hat](hat.png)"),
        code("plot()", outputs=[shown("image/png", figure(3, 6))]),
        markdown("## Exercises"),
        markdown("### Exercise 1 · look\n\nSet `crowns` to $x$, the number of section 1.", "exercise"),
        code("crowns = None  # your code", "stub", printed="stub's output\n"),
        code("# Answer 1: it is x\ncrowns = x\nprint('the secret')", "answer", printed="the secret\n"),
        code(CHECK, "check", printed="Exercise 1: right\n"),
        code("print('behind')", printed="behind\n"),
        markdown(CLOSING),
    ]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "xaihelpers": {"needs": ["00"], **TOLD}}
    return {"metadata": metadata, "nbformat": 4, "nbformat_minor": 5, "cells": cells}


def names_set(source):
    """The names that code sets outside of its functions, or fills, as in `found[name] = 1`."""
    names = symtable.symtable(source, "cell", "exec").get_symbols()
    found = {name.get_name() for name in names if name.is_assigned() or name.is_imported()}
    places = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Subscript, ast.Attribute))
    ]
    filled = {ast.unparse(node.value) for node in places if isinstance(node.ctx, ast.Store)}
    return found | {name for name in filled if name.isidentifier()}


def names_read(source):
    """The names that code reads from outside of its functions, those of Python itself aside."""
    found, waiting = set(), [symtable.symtable(source, "cell", "exec")]
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        for name in scope.get_symbols():
            outer = name.is_global() or scope.get_type() == "module"
            found |= {name.get_name()} if outer and name.is_referenced() else set()
    return found - vars(builtins).keys()

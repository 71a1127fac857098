"""README's section on routes, written from their plans."""

from pathlib import Path

from xaihelpers.teaching.routes import NOTEBOOKS, Route, clock, left_out_line, notebook_path, where

HEADING = "## Routes\n"
INTRODUCTION = f"""{HEADING}
Ways through the notebooks, planned by the minute; the plans are data, `data/teaching/routes.yaml`.
`git clone` and `make slides` lead to the first projected slide.

```
make slides ROUTE=45               # slides that need no network: arrows move, S shows the speaker's notes
make slides ROUTE=45 PDF=1         # and a PDF of them
make student ROUTE=sub             # the plan, and notebooks without answers, whose checks say what is wrong
make teacher ROUTE=sub OUT=/where  # with answers, and notes on every discussion, in another folder
```
"""


MAP = """What needs what, what each notebook lets you do, and which yardstick asks what:

![The notebooks in lanes by paper: what each needs, lets you do, and asks](notebooks/map.png)"""


def readme_section(routes: dict[str, Route], folder: Path = NOTEBOOKS) -> str:
    """README's section on routes: what there is, and each plan, folded."""
    lines = [INTRODUCTION, "| route | | minutes | for | notebooks |", "|---|---|---|---|---|"]
    for name, route in routes.items():
        numbers = ", ".join(_linked(number, folder) for number in route.notebooks)
        lines.append(f"| `{name}` | {route.title} | {route.minutes} | {route.audience} | {numbers} |")
    for name, route in routes.items():
        lines += ["", f"<details><summary>The plan of <code>{name}</code></summary>", ""]
        lines += [f"{text}\n" for text in (f"Goal: {route.goal}", route.start) if text]
        lines += ["| min | | where | |", "|---|---|---|---|", *_rows(route), "", left_out_line(route, folder)]
        lines += ["", "</details>"]
    return "\n".join([*lines, "", MAP]) + "\n"


def _linked(number: str, folder: Path) -> str:
    return f"[{number}](notebooks/{notebook_path(number, folder).name})"


def _rows(route: Route) -> list[str]:
    rows = []
    for step, (begin, end) in zip(route.steps, clock(route), strict=True):
        minutes = f"{begin}–{end}" if step.minutes else "–"
        rows.append(f"| {minutes} | {step.kind} | {where(step)} | {step.told} |")
    return rows


def with_section(readme: str, section: str) -> str:
    """The README with its section on routes exchanged, or put in behind the notebooks."""
    if HEADING in readme:
        before, rest = readme.split(HEADING, 1)
        after = "## " + rest.split("\n## ", 1)[1]
    else:
        before, rest = readme.split("\n## Bring your own model", 1)
        before, after = before + "\n", "## Bring your own model" + rest
    return f"{before}{section}\n{after}"

"""How the committed outputs of a notebook were made: values, versions, and the command for it."""

import importlib.metadata
import json
import re
import sys
from functools import cache
from pathlib import Path

from xaihelpers.site.notebook_set import Notebook, source_of

ANCHOR = "how-this-was-run"  # of the block of a page


def settings_cell(notebook: Notebook, constraints: Path) -> str:
    """The markdown of the block that every results table of a page links to."""
    name = notebook.run_name
    lines = [
        f"({ANCHOR}-{notebook.number})=",
        "## How this was run",
        "",
        "All tables, numbers and figures of this page are outputs of one run of the notebook at its "
        f"defaults, as committed: **run {name}**. The digits are a hash of the parameters below; another "
        "setting is another run with another name.",
        "",
        "| parameter | value of this run | meaning |",
        "|---|---|---|",
    ]
    for parameter, value in notebook.parameters.items():
        meaning = notebook.meanings[parameter].replace("|", "\\|")
        lines.append(f"| `{parameter}` | `{_shown(value)}` | {_plain(meaning)} |")
    seed = notebook.parameters.get("seed", 0)
    lines += [
        "",
        f"Everything that is drawn at random follows from the seed, `{seed}`, the notebook's own parameter.",
        "",
        "To make them again, from a checkout with the environment that `make` sets up:",
        "",
        "```sh",
        f"papermill notebooks/{notebook.path.name} out.ipynb {_options(notebook)}".rstrip(),
        "```",
        "",
        f"or, with whatever must run before it, `make run ONLY={notebook.number}`. Other settings go behind "
        f"`-p` or, for lists, `-y`{_presets(notebook)}.",
        "",
        f"Made with Python {_python(notebook)} and the exact versions of "
        '<a href="../constraints.txt">constraints.txt</a>; of the libraries that the cells import: '
        f"{', '.join(versions(notebook, constraints))}.",
    ]
    return "\n".join(lines)


def versions(notebook: Notebook, constraints: Path) -> list[str]:
    """The pinned versions of the libraries that the cells of a notebook import, and of torch in any case."""
    source = "\n".join(source_of(cell) for cell in notebook.cells if cell["cell_type"] == "code")
    libraries = set(re.findall(r"(?m)^\s*(?:import|from) (\w+)", source)) | {"torch"}
    pins = read_pins(constraints.read_text())
    found = set()
    for library in libraries - sys.stdlib_module_names:
        for name in distributions().get(library, [library]):
            pin = pins.get(canonical(name))
            if pin:
                found.add(pin)
    return sorted((f"{name} {version}" for name, version in found), key=str.lower)


def read_pins(text: str) -> dict[str, tuple[str, str]]:
    """Name of a distribution in one spelling -> its name as written and its version."""
    pairs = re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    return {canonical(name): (name, version) for name, version in pairs}


def canonical(name: str) -> str:
    """One spelling of the name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def distributions() -> dict[str, list[str]]:
    """Top-level import name -> the distributions that bring it, of this environment."""
    return dict(importlib.metadata.packages_distributions())


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (str, list)) else repr(value)
    return text.replace("|", "\\|").replace("`", "'")


def _plain(text: str) -> str:
    """A comment as markdown that shows it as it is."""
    return re.sub(r"([*_$<\[\]{}#~^])", r"\\\1", text)


def _options(notebook: Notebook) -> str:
    return f"-p seed {notebook.parameters['seed']}" if "seed" in notebook.parameters else ""


def _presets(notebook: Notebook) -> str:
    files = sorted(notebook.path.parent.glob(f"{notebook.path.stem}.*.yaml"))
    if not files:
        return ""
    return "; whole settings come with " + ", ".join(f"`-f notebooks/{file.name}`" for file in files)


def _python(notebook: Notebook) -> str:
    return notebook.content["metadata"].get("language_info", {}).get("version", "3.11")

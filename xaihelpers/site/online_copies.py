"""Copies of the notebooks for Colab, and the addresses of Colab and Binder, for a repository on GitHub."""

import json
import re
import subprocess
from pathlib import Path

from xaihelpers.site.notebook_set import Notebook

BRANCH = "gh-pages"  # that the site is published on; Colab opens the copies from it
REMOTE = re.compile(r"github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")
FIRST_CELL = """# Colab: fetch the collection, and the packages as constraints.txt pins them (some minutes).
# If Colab asks for it, restart the runtime and run this cell again before the others.
import os, sys
if not os.path.isdir("/content/{name}"):
    !git clone --quiet --depth 1 https://github.com/{repository} /content/{name}
%cd -q /content/{name}
!pip install --quiet -c constraints.txt -e .
sys.path.insert(0, "/content/{name}")"""


def repository_of(checkout: Path) -> str:
    """owner/name of the checkout's remote on GitHub; "" if it has none, or is no checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), "remote", "get-url", "origin"], capture_output=True, text=True
        )
    except OSError:
        return ""
    match = REMOTE.search(done.stdout.strip())
    return match[1] if match else ""


def checked_repository(text: str) -> str:
    """The repository as it was given; raises ValueError if it is not of the form owner/name."""
    if text and not re.fullmatch(r"[\w.-]+/[\w.-]+", text):
        raise ValueError(f"{text!r} is no repository: give it as owner/name.")
    return text


def colab_copy(notebook: Notebook, repository: str) -> str:
    """The notebook as JSON with a first cell that fetches the project and installs its packages."""
    copied = json.loads(json.dumps(notebook.content))
    source = FIRST_CELL.format(repository=repository, name=repository.split("/")[1])
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": "colab-set-up",
        "metadata": {},
        "outputs": [],
        "source": source.splitlines(keepends=True),
    }
    copied["cells"].insert(0, cell)
    return json.dumps(copied, indent=1, ensure_ascii=False) + "\n"


def addresses(notebook: Notebook, repository: str) -> dict[str, str]:
    """Name of a service -> the address under which it opens the notebook; empty without a repository."""
    if not repository:
        return {}
    name = notebook.path.name
    return {
        "Colab": f"https://colab.research.google.com/github/{repository}/blob/{BRANCH}/colab/{name}",
        "Binder": f"https://mybinder.org/v2/gh/{repository}/HEAD?labpath=notebooks%2F{name}",
    }

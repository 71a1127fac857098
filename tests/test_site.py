"""The static site: built from the committed notebooks without running them; it stands alone."""

import os
import re
import subprocess
import sys

import pytest

from xaihelpers.paths import PROJECT
from xaihelpers.site import math_renderer, online_copies
from xaihelpers.site.build import SiteError, build_site

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|embed|audio|video)\b[^>]*\bsrc\s*=\s*["']?(?:https?:)?//"""
    r"""|<link\b[^>]*\bhref\s*=\s*["']?(?:https?:)?//|<object\b|@import\s+(?:url\()?["']?(?:https?:)?//"""
    r"""|url\(\s*["']?(?:https?:)?//|<base\b""",
    re.IGNORECASE,
)


@pytest.mark.notebooks  # it executes none, but takes a minute
def test_it_is_built_without_a_warning_shows_every_notebook_and_loads_nothing_from_elsewhere(tmp_path):
    folder = tmp_path / "site"
    command = [sys.executable, "-m", "xaihelpers.site", "--out", str(folder), "--repository", ""]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    pages = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.html")}
    front = pages["index.html"]
    for path in sorted((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        address = f"notebooks/{path.stem}.html"
        assert f'href="{address}"' in front
        assert "</h1>" in pages[address] and "<img" in pages[address]
        assert "<details open" not in pages[address], "answers stay folded"
    for name, text in pages.items():
        assert not LOADED.search(text), (name, LOADED.search(text)[0])


def test_another_folder_is_not_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(SiteError, match="name another folder"):
        build_site(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_a_repository_goes_by_owner_and_name():
    with pytest.raises(ValueError, match="owner/name"):
        online_copies.checked_repository("https://github.com/a/b")


def test_an_equation_that_cannot_be_shown_is_an_error():
    assert 'alttext="\\frac a b"' in math_renderer.equation_html(r"\frac a b")
    with pytest.raises(ValueError, match="notacommand"):
        math_renderer.equation_html(r"\notacommand{x}")

"""Fingerprints of code: what a computed file depends on, whatever its comments and layout."""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path


def code_hash(files: Iterable[Path]) -> str:
    """The sha256 of files: of Python its syntax tree without docstrings, of anything else its bytes.

    A changed comment, docstring or line break leaves it as it was, and so does another order of the files.
    """
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: (file.name, str(file))):
        content = file.read_bytes()
        is_python = file.name.endswith(".py")
        of_file = _bare_hash(content) if is_python else hashlib.sha256(content).digest()
        digest.update(f"{file.name}\0".encode() + of_file)
    return digest.hexdigest()


@cache
def _bare_hash(content: bytes) -> bytes:
    return hashlib.sha256(_bare(content.decode()).encode()).digest()


def _bare(source: str) -> str:
    """The syntax tree of Python source as text, without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                body[0] = ast.Pass()
    return ast.dump(tree)

"""Prompts as files: those of data/prompts by name, or any file with the same placeholders."""

import re
from collections.abc import Sequence
from pathlib import Path

from xaihelpers import paths
from xaihelpers.ask.messages import AskError
from xaihelpers.text_files import TextFileError, read_text

FOLDER = paths.PROJECT / "data" / "prompts"
PLACEHOLDER = re.compile(r"\{(\w+)\}")


def prompt(name: str | Path, **fields: str) -> str:
    """The text of a prompt, its placeholders {…} filled in.

    name: "fse_chain" for data/prompts/fse_chain.txt, or a file.
    fields: a value for each placeholder; other braces, as of a JSON example, stay as they are.
    Raises AskError: a file that cannot be read, or lacks the placeholder of a field.
    """
    file = paths.find(f"{name}.txt", FOLDER) or paths.find(name) or Path(name)
    try:
        text = read_text(file).strip()
    except TextFileError as error:
        known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.txt")))
        raise AskError(f"{name}: no prompt that can be read ({error}), nor one of {known}") from error
    for field in fields:
        if f"{{{field}}}" not in text:
            raise AskError(f"{file}: the prompt has no place for {{{field}}}; it needs {', '.join(fields)}")
    return PLACEHOLDER.sub(lambda match: str(fields.get(match[1], match[0])), text)


def lettered_options(options: Sequence[str], mark: str = ".") -> str:
    """Options as lines "A. …", "B. …"; mark ")" gives "A) …"."""
    return "\n".join(f"{chr(65 + i)}{mark} {option}" for i, option in enumerate(options))

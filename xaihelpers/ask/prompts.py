"""Prompts as files: a name of data/prompts, or any file of the user's own with the same placeholders."""
import re
from pathlib import Path

from .. import paths
from .chats import AskError

FOLDER = paths.PROJECT / "data" / "prompts"
PLACE = re.compile(r"\{(\w+)\}")


def prompt(name: str | Path, **fields: str) -> str:
    """The text of a prompt with its placeholders {…} filled in.

    name: "fse_chain" for data/prompts/fse_chain.txt, or a file. Every field must have its place in the file, other braces stay as they are (a JSON example, say).
    Raises AskError naming the file and what is amiss.
    """
    file = FOLDER / f"{name}.txt" if (FOLDER / f"{name}.txt").is_file() else Path(name).expanduser()
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.txt")))
        raise AskError(f"{name}: no prompt that can be read ({type(error).__name__}); name a text file, or one of {known}") from error
    if missing := [field for field in fields if f"{{{field}}}" not in text]:
        raise AskError(f"{file}: the prompt has no place for {{{missing[0]}}}; it needs {', '.join(f'{{{field}}}' for field in fields)}")
    return PLACE.sub(lambda found: str(fields.get(found[1], found[0])), text)


def lettered(options, mark: str = ".") -> str:
    """Options as lines "A. …", "B. …" (mark ")" gives "A) …")."""
    return "\n".join(f"{chr(65 + i)}{mark} {option}" for i, option in enumerate(options))

"""Notes about the batches that have been handed in to a provider and whose answers have not been kept.

They lie in `open_batches/` under XAI_DATA, which is no cache: the batches are ordered, and will be paid for.
"""

import contextlib
import json
import time
import uuid
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path

from xaihelpers import paths

KEPT_FOR = 30 * 24 * 3600.0  # seconds for which providers keep a batch's files


@dataclass
class Note:
    """A batch: whose it is, the provider's ids of its file and of itself, and which requests it holds.

    batch: empty until the provider has accepted it. turn: how often its requests had been handed in before.
    refused: parameters that were left out or renamed, as of `RequestBody`. keys: of the requests.
    """

    identity: str
    base: str
    file: str
    keys: list[str]
    refused: dict[str, str]
    turn: int = 0
    batch: str = ""
    made: float = field(default_factory=time.time)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)


def folder() -> Path:
    """Where the notes lie."""
    return paths.data_home() / "open_batches"


def write_note(note: Note) -> None:
    """Put a note on the disk; it is there on return. Raises OSError."""
    paths.write_whole(_file(note), json.dumps(asdict(note)).encode())


def remove_note(note: Note) -> None:
    """Take a note from the disk."""
    _file(note).unlink(missing_ok=True)


def forget(note: Note, keys: Collection[str]) -> None:
    """Take requests out of a note, and the note from the disk where none is left."""
    note.keys = [key for key in note.keys if key not in keys]
    if note.keys:
        write_note(note)
    else:
        remove_note(note)


def notes_of(identity: str, base: str) -> list[Note]:
    """The notes about batches of one model at one server; those that are too old are removed."""
    notes = []
    for file in sorted(folder().glob("*.json")):
        with contextlib.suppress(ValueError, TypeError, OSError):  # of another version
            note = Note(**json.loads(file.read_text()))
            if time.time() - note.made > KEPT_FOR:
                remove_note(note)
            elif (note.identity, note.base) == (identity, base):
                notes.append(note)
    return notes


def _file(note: Note) -> Path:
    return folder() / f"{note.token}.json"

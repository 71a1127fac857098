"""Recorded answers in a model's place: `record:FILE:MODEL` writes them, `replay:FILE` gives them again.

A line of the file is one answer as JSON: the key of what was asked, the answer's fields, the model's name,
and the beginning of the question for people to read. A table with these columns as parquet is read as well.
The key is a hash of the request alone (texts, contents of the images, options, limit) and of seed and
temperature where the temperature is not 0, so that answers of a large model serve on a machine that could not
run it. Neither key nor line holds an address or a key of a server.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd
from filelock import FileLock

from xaihelpers import paths
from xaihelpers.ask.messages import Answer, AskError, Request, request_keys

FIELDS = (
    "text",
    "reasoning",
    "probabilities",
    "tokens_in",
    "tokens_out",
    "seconds",
    "truncated",
    "refused",
)
SHOWN = 200  # characters of a question that a line holds


class ReplayedModel:
    """Answers from a file; a request without one is an error.

    file: JSON lines, or parquet (.parquet): a name under XAI_DATA, or a path.
    Raises AskError: no such file, a line that is no recorded answer.

    Attributes: `identity` is of the file's content. `warnings` is empty.
    """

    def __init__(self, file: str):
        place = paths.find(file) or Path(file)
        self.answers, _ = read_answers(place, file)
        digest = hashlib.sha256(place.read_bytes()).hexdigest()[:16]
        self.file, self.name, self.identity = file, f"replay:{file}", f"replay {digest}"
        self.warnings: Counter[str] = Counter()

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request, in order.

        Raises AskError before the first answer where a request has none.
        """
        keys = answer_keys(requests, seed, temperature)
        missing = [n for n, key in enumerate(keys) if key not in self.answers]
        if missing:
            first = requests[missing[0]]
            raise AskError(
                f"replay:{self.file}: {len(missing)} of {len(requests)} requests have no recorded answer, "
                f"the first with {len(first.images)} images: {_shown(first)!r} (seed {seed}, temperature "
                f"{temperature:g}). Answers are recorded for the very texts, images and parameters: run the "
                f"same with record:{self.file}:MODEL as the model's name where MODEL can be asked"
            )
        for position, key in enumerate(keys):
            yield position, self.answers[key]


class RecordedModel:
    """A model whose answers are written to a file as well, by `ask`, those from its cache among them.

    file: JSON lines to go on with, or to begin: a name under XAI_DATA, or a path.
    model: as `load_vlm` gives it; everything but `keep` is its own.
    Raises AskError: a file of another kind, or with answers of another model.
    """

    def __init__(self, file: str, model):
        self.model, self.file = model, paths.where_to_write(file)
        if self.file.suffix == ".parquet":
            raise AskError(f"record:{file}: answers are written as JSON lines: name a file as answers.jsonl")
        self.known: set[str] = set()
        if self.file.is_file():
            answers, names = read_answers(self.file, file)
            self.known = set(answers)
            others = names - {model.name}
            if others:
                raise AskError(
                    f"record:{file} holds answers of {min(others)}, not of {model.name}: name another file"
                )

    def __getattr__(self, name: str):
        return getattr(self.model, name)

    def keep(
        self, requests: Mapping[str, Request], answers: Mapping[str, Answer], seed: int, temperature: float
    ) -> None:
        """Append the answers that the file has not, by any keys that requests and answers share.

        Answers that could not be had are left out. Raises OSError where the file cannot be written.
        """
        had = [key for key, answer in answers.items() if not answer.error]
        keys = answer_keys([requests[key] for key in had], seed, temperature)
        lines = []
        for key, own_key in zip(had, keys, strict=True):
            if own_key not in self.known:
                about = {"model": self.model.name, "asked": _shown(requests[key])}
                fields = {field: getattr(answers[key], field) for field in FIELDS}
                line = json.dumps({"key": own_key} | about | fields, ensure_ascii=False)
                lines.append(_without_secret(line))
                self.known.add(own_key)
        if lines:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self.file}.lock"):
                _end_last_line(self.file)
                with self.file.open("a", encoding="utf-8") as target:
                    target.write("".join(f"{line}\n" for line in lines))


def answer_keys(requests: Sequence[Request], seed: int, temperature: float) -> list[str]:
    """What recorded answers are found by: hashes of the requests, whatever the model.

    Raises AskError as `request_keys`.
    """
    settings = {"seed": seed, "temperature": temperature} if temperature else {}
    return request_keys(requests, "", settings)


def read_answers(place: Path, name: str) -> tuple[dict[str, Answer], set[str]]:
    """Recorded answers by key, and the names of the models that gave them.

    Of two with one key the last counts. Half a line at the end, as a killed run leaves it, is passed over.
    Raises AskError, naming the file and the line: no such file, no recorded answer.
    """
    try:
        if place.suffix == ".parquet":
            rows = pd.read_parquet(place).to_dict("records")
        else:
            content = place.read_text(encoding="utf-8")
            rows = [line for line in content[: _whole_lines(content)].splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise AskError(
            f"replay:{name}: no recorded answers can be read there ({reason}). record:{name}:MODEL as a "
            "model's name writes such a file"
        ) from error
    answers, names = {}, set()
    for number, row in enumerate(rows, 1):
        try:
            row = json.loads(row) if isinstance(row, str) else row
            answers[row["key"]] = Answer(**{field: _plain(row[field]) for field in FIELDS if field in row})
            names.add(row["model"])
        except (ValueError, TypeError, KeyError) as error:
            raise AskError(
                f"{name}, line {number}: no recorded answer ({type(error).__name__}: {error}); each has a "
                "key, a model and a text"
            ) from error
    return answers, names


def _plain(value: object) -> object:
    """A value as JSON has it; parquet gives all options to every row, and NaN where there is nothing."""
    if isinstance(value, Mapping):
        return {option: share for option, share in value.items() if share is not None} or None
    return None if isinstance(value, float) and value != value else value


def _whole_lines(content: str) -> int:
    """The length of what remains without half a line at the end."""
    start = content.rfind("\n") + 1
    try:
        json.loads(content[start:] or "0")
    except ValueError:
        return start
    return len(content)


def _end_last_line(file: Path) -> None:
    """Cut off half a line at the end, and end a whole one."""
    content = file.read_text(encoding="utf-8") if file.is_file() else ""
    if content and not content.endswith("\n"):
        whole = content[: _whole_lines(content)]
        paths.write_whole(file, (whole.rstrip("\n") + "\n" if whole.strip() else "").encode())


def _shown(request: Request) -> str:
    return request.turns[-1].text[:SHOWN]


def _without_secret(line: str) -> str:
    secret = os.environ.get("OPENAI_API_KEY", "")
    return line.replace(secret, "…") if len(secret) > 4 else line

"""A provider's batches: files of requests that are answered within a day, at half the price.

What is handed in is noted on the disk before and after it is (`ask.open_batches`), and the note stays until
the answers have been kept: a run that was ended goes on with the batches that it finds, and hands in nothing
twice.
"""

import contextlib
import json
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import openai
from filelock import FileLock

from xaihelpers.ask import open_batches
from xaihelpers.ask.chat_completions import UnusableReply, read_reply, to_messages
from xaihelpers.ask.messages import Answer, AskError, Request, by_images, request_keys
from xaihelpers.ask.open_batches import Note
from xaihelpers.ask.request_body import RequestBody
from xaihelpers.ask.server_model import FILTERED, LOCAL_HOSTS, ServerModel

log = logging.getLogger(__name__)
MOST_REQUESTS = 50_000  # in one file, by the interface
MOST_BYTES = 150_000_000  # of 200 MB that it allows
MOST_TURNS = 3  # in which requests are handed in again without a parameter that was refused
POLL = 30.0  # seconds between two looks at the open batches
RUNNING = ("validating", "in_progress", "finalizing", "cancelling")


class Asked(NamedTuple):
    """A request, where it stands, and what of it does not depend on its images."""

    request: Request
    positions: list[int]
    parameters: dict


class BatchModel(ServerModel):
    """A model behind an OpenAI-compatible server, asked by its batch interface.

    It has the server model's identity, so that neither asks what the other has been answered.

    timeout: of an exchange with the server, in seconds. poll: seconds between two looks at the batches.
    Raises AskError: neither address nor key is set.

    Attribute: `is_batch`, by which the price of a token is the batch's.
    """

    kind = "batch"
    is_batch = True

    def __init__(self, name: str, timeout: float = 300.0, poll: float = POLL):
        super().__init__(name, timeout=timeout)
        self.poll = poll

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request, a batch at a time as it ends.

        Batches of an earlier run that hold some of the requests are waited for, the rest is handed in.

        Raises AskError: an image cannot be read; the server refuses key, name or file, or has no batches, or
            cannot be reached. What was handed in goes on meanwhile, and the next run collects it.
        """
        self.warnings = self.body.warnings = Counter()
        keys = request_keys(requests, self.identity, {"seed": seed, "temperature": temperature})
        asked: dict[str, Asked] = {}
        for position in by_images(requests):
            request = requests[position]
            new = Asked(request, [], self.body.parameters(request, [], seed, temperature))
            asked.setdefault(keys[position], new).positions.append(position)
        try:
            with self._connected() as client:
                yield from self._answers(client, asked)
        except openai.NotFoundError as error:
            self._give_up("has no such batch, or no batches at all (then name server:…)", error)
        except openai.OpenAIError as error:
            self._raise_if_hopeless(error)
            self._give_up("did not do what a batch needs", error)

    def _answers(self, client: openai.OpenAI, asked: dict[str, Asked]) -> Iterator[tuple[int, Answer]]:
        notes = self._take_up(client, asked)
        while notes:
            for note in list(notes):
                batch = client.batches.retrieve(note.batch)
                if batch.status in RUNNING:
                    continue
                notes.remove(note)
                if batch.status == "failed":
                    open_batches.remove_note(note)
                    raise AskError(f"batch:{self.name}: {self.base} refuses {batch.id}: {_reason(batch)}")
                again = []
                for key, answer in self._collect(client, batch, note, asked):
                    if answer is None:
                        again.append(key)
                    else:
                        yield from ((position, answer) for position in asked[key].positions)
                # whoever takes these answers has kept the last one before asking for the next
                notes += self._hand_in(client, again, asked, note.turn + 1)
                open_batches.forget(note, asked)
            if notes:
                time.sleep(self.poll)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[openai.OpenAI]:
        base = urlsplit(self.base)
        options = {"timeout": self.timeout, "trust_env": base.hostname not in LOCAL_HOSTS}
        if base.scheme == "http":
            options["verify"] = False  # reading TLS certificates takes 0.1 s
        http_client = openai.DefaultHttpxClient(**options)
        settings = {"base_url": self.base, "api_key": self._key(), "max_retries": self.tries - 1}
        with openai.OpenAI(**settings, http_client=http_client) as client:
            yield client

    def _take_up(self, client: openai.OpenAI, asked: dict[str, Asked]) -> list[Note]:
        """The notes of all batches that hold the requests: found open, or handed in now."""
        open_batches.folder().mkdir(parents=True, exist_ok=True)
        with FileLock(open_batches.folder() / "lock"):  # two runs do not hand in the same
            notes = []
            for note in open_batches.notes_of(self.identity, self.base):
                if not asked.keys().isdisjoint(note.keys) and self._is_open(client, note):
                    notes.append(note)
                    self.body.refused |= note.refused
            taken = {key for note in notes for key in note.keys}
            if notes:
                n_taken = len(taken & asked.keys())
                log.info("batch:%s: %d requests are in %d open batches", self.name, n_taken, len(notes))
            return notes + self._hand_in(client, [key for key in asked if key not in taken], asked)

    def _is_open(self, client: openai.OpenAI, note: Note) -> bool:
        """Whether a noted batch is there and was not refused; else its note is removed."""
        if not note.batch:  # ended between handing it in and noting that
            for batch in islice(client.batches.list(limit=100), 1000):
                if batch.input_file_id == note.file:
                    note.batch = batch.id
                    open_batches.write_note(note)
        with contextlib.suppress(openai.NotFoundError):
            if note.batch and client.batches.retrieve(note.batch).status != "failed":
                return True
        open_batches.remove_note(note)
        return False

    def _hand_in(
        self, client: openai.OpenAI, keys: Sequence[str], asked: dict[str, Asked], turn: int = 0
    ) -> list[Note]:
        """The notes of new batches with these requests."""
        notes, waiting = [], list(keys)
        while waiting:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "requests.jsonl"
                held = self._write_requests(file, waiting, asked)
                waiting = waiting[len(held) :]
                with file.open("rb") as opened:
                    uploaded = client.files.create(file=opened, purpose="batch")
            note = Note(self.identity, self.base, uploaded.id, held, dict(self.body.refused), turn)
            open_batches.write_note(note)
            # sent once: if the reply is lost, the next run looks for a batch of this file
            batch = client.with_options(max_retries=0).batches.create(
                input_file_id=uploaded.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
            note.batch = batch.id
            open_batches.write_note(note)
            notes.append(note)
            log.info(
                "batch:%s: %d requests are handed in (%s). It takes up to a day: wait, or end this and run "
                "it again later, and it goes on from here.",
                self.name,
                len(held),
                batch.id,
            )
        return notes

    def _write_requests(self, file: Path, keys: Sequence[str], asked: dict[str, Asked]) -> list[str]:
        """Write requests into a file, a line each, as many as it may hold; returns their keys."""
        held: list[str] = []
        with file.open("w") as opened:
            for key in keys[:MOST_REQUESTS]:
                messages = to_messages(asked[key].request.turns)
                body = self.body.accepted(asked[key].parameters | {"messages": messages})
                line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
                text = json.dumps(line) + "\n"
                if held and opened.tell() + len(text) > MOST_BYTES:
                    break
                opened.write(text)
                held.append(key)
        return held

    def _collect(
        self, client: openai.OpenAI, batch, note: Note, asked: dict[str, Asked]
    ) -> Iterator[tuple[str, Answer | None]]:
        """(key, answer) of each request of an ended batch that is asked; None is to be handed in again."""
        left = dict.fromkeys(key for key in note.keys if key in asked)
        sent = RequestBody(self.name)
        sent.refused = note.refused
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            for text in client.files.content(file).text.splitlines():
                try:
                    line = json.loads(text)
                    key = line["custom_id"]
                except (ValueError, TypeError, KeyError):
                    continue  # of another form: its request counts as not answered
                if key in left:
                    del left[key]
                    body = sent.accepted(asked[key].parameters) if note.turn < MOST_TURNS else {}
                    yield key, self._read(line, asked[key].request, body)
        for key in left:
            yield key, Answer(error=f"batch {batch.id} is {batch.status}, without this answer")

    def _read(self, line: dict, request: Request, body: dict) -> Answer | None:
        """The answer in a line of a batch's results; None if it can be had without a refused parameter."""
        response = line.get("response") or {}
        status, content = response.get("status_code"), response.get("body") or {}
        if status == 200:
            try:
                return read_reply(content, request.options)
            except UnusableReply as error:
                return Answer(error=f"UnusableReply: {error}"[:300])
        error = content.get("error") or line.get("error") or {}
        text = f"{error.get('message')} ({error.get('code')})"
        if status in (400, 422) and self.body.adapt(text, error.get("param"), body):
            return None
        if error.get("code") in FILTERED:
            return Answer(text[:300], refused=True)
        return Answer(error=f"{status or 'not sent'}: {text}"[:300])


def _reason(batch) -> str:
    """Why a batch failed, by the provider."""
    problems = (batch.errors.data if batch.errors else None) or []
    first = problems[0].message if problems else "no reason is given"
    return f"{first} ({len(problems)} problems). Nothing of it was asked: mend that, and run again."

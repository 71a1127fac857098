"""A model of your own as a Python file with the function `answer(requests)`: `python:FILE`."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from xaihelpers.ask.messages import Answer, AskError, Request, open_image
from xaihelpers.own_model import OwnModelError, file_hash, load_function

ANSWER_FIELDS = [one.name for one in fields(Answer) if one.name not in ("cost", "cached")]


class PythonModel:
    """A user's function in a model's place.

    file: with `answer(requests)`, which is given a list of requests (`turns` with role, text and RGB images;
        `options`; `max_tokens`) and returns for each a text, an `Answer`, or a dict of its fields. Without
        probabilities the options are read from the text, as of any model that gives none.
    batch_size: requests at a time; 0 stands for 16.
    Raises AskError as `own_model.load_function` does.

    Attributes: `identity` is of the file's content, and of the environment variable XAI_MODEL_LABEL where it
        is set: answers are kept by it, so change the label where other files, as weights, have changed.
        `warnings` is empty.
    """

    def __init__(self, file: str, batch_size: int = 0):
        self.file, self.name, self.batch_size = file, f"python:{file}", batch_size or 16
        self.warnings: Counter[str] = Counter()
        try:
            self.function = load_function(file, "answer")
            label = os.environ.get("XAI_MODEL_LABEL", "")
            self.identity = f"python {file_hash(file)} {label}".strip()
        except OwnModelError as error:
            raise AskError(str(error)) from error

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request, batch by batch; seed and temperature are not passed on.

        Raises AskError: an exception of the function, with its line; another number of answers, or answers of
            another kind; an image that cannot be read.
        """
        for start in range(0, len(requests), self.batch_size):
            batch = requests[start : start + self.batch_size]
            started = time.perf_counter()
            try:
                returned = list(self.function([_with_opened_images(one) for one in batch]))
            except OwnModelError as error:
                raise AskError(str(error)) from error
            except TypeError as error:
                raise AskError(f"{self.file}: answer returned no list ({error})") from error
            if len(returned) != len(batch):
                raise AskError(
                    f"{self.file}: answer returned {len(returned)} answers for {len(batch)} requests: one "
                    "for each is wanted, in their order"
                )
            seconds = (time.perf_counter() - started) / len(batch)
            for position, one in enumerate(returned, start):
                answer = self._as_answer(one, requests[position])
                answer.seconds = answer.seconds or seconds
                yield position, answer

    def _as_answer(self, returned: object, asked: Request) -> Answer:
        if isinstance(returned, str):
            returned = Answer(returned)
        elif isinstance(returned, Mapping):
            unknown = [name for name in returned if name not in ANSWER_FIELDS]
            if unknown:
                raise AskError(
                    f"{self.file}: an answer has the field {unknown[0]!r}; there are "
                    f"{', '.join(ANSWER_FIELDS)}"
                )
            returned = Answer(**returned)
        if not isinstance(returned, Answer) or not isinstance(returned.text, str):
            raise AskError(
                f"{self.file}: answer returned an object of type {type(returned).__name__} for a request: "
                "return a text, or a dict with text and, perhaps, probabilities"
            )
        chances = returned.probabilities
        if chances is not None and (
            set(chances) != set(asked.options)
            or not all(isinstance(chance, int | float) and 0 <= chance <= 1 for chance in chances.values())
        ):
            raise AskError(
                f"{self.file}: probabilities are {chances}: a number from 0 to 1 for each of the options "
                f"{', '.join(asked.options) or '(there are none)'} is wanted, or none at all"
            )
        return replace(returned)


def _with_opened_images(request: Request) -> Request:
    turns = [replace(turn, images=tuple(map(open_image, turn.images))) for turn in request.turns]
    return replace(request, turns=tuple(turns))

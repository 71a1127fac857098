"""A function in a model's place: of your own Python file (`python:FILE`), or a shipped instrument's."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from xaihelpers.ask.messages import Answer, AskError, Request, open_image
from xaihelpers.own_model import OwnModelError, file_hash, load_function


class FunctionModel:
    """A function in a model's place.

    function: is given a list of requests (`text`, `images` in RGB, `options`, `max_tokens`) and returns for
        each a text, an `Answer`, or a dict of its fields. Without probabilities the options are read from the
        text, as of any model that gives none.
    identity: by which its answers are kept. batch_size: requests at a time; 0 stands for 16.
    """

    def __init__(self, name: str, identity: str, function: Callable[[list], list], batch_size: int = 0):
        self.name, self.identity, self.function, self.batch_size = name, identity, function, batch_size or 16

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request, batch by batch; seed and temperature are not passed on.

        Raises AskError: an exception of the function, with its line; another number of answers, or answers of
            another kind. Raises ValueError for an image that cannot be read.
        """
        for start in range(0, len(requests), self.batch_size):
            batch = []
            for one in requests[start : start + self.batch_size]:
                batch.append(replace(one, images=tuple(map(open_image, one.images))))
            try:
                returned = list(self.function(batch))
                if len(returned) != len(batch):
                    raise ValueError(f"{len(returned)} answers for {len(batch)} requests")
                answers = [_as_answer(one, asked) for one, asked in zip(returned, batch, strict=True)]
            except AskError:
                raise
            except (OwnModelError, TypeError, ValueError) as error:
                raise AskError(
                    f"{self.name.removeprefix('python:')}: {error}. answer has to return a list with an "
                    f"answer for each request: a text, or a dict with text and, perhaps, probabilities"
                ) from error
            yield from enumerate(answers, start)


def _as_answer(returned: object, asked: Request) -> Answer:
    answer = Answer(**returned) if isinstance(returned, Mapping) else returned
    answer = Answer(answer) if isinstance(answer, str) else answer
    if not isinstance(answer, Answer) or not isinstance(answer.text, str):
        raise TypeError(f"an object of type {type(returned).__name__} is no answer")
    chances = answer.probabilities
    if chances is not None and set(chances) != set(asked.options):
        raise ValueError(f"probabilities are {chances}, the options {', '.join(asked.options) or 'none'}")
    return replace(answer)  # a function may give one object twice


def python_model(file: str, batch_size: int = 0) -> FunctionModel:
    """The function `answer(requests)` of a user's file in a model's place.

    Answers are kept by the file's content, and by the environment variable XAI_MODEL_LABEL where it is set:
    change it where other files, as weights, have changed.

    Raises AskError as `own_model.load_function` does.
    """
    try:
        function = load_function(file, "answer")
    except OwnModelError as error:
        raise AskError(str(error)) from error
    identity = f"python {file_hash(file)} {os.environ.get('XAI_MODEL_LABEL', '')}".strip()
    return FunctionModel(f"python:{file}", identity, function, batch_size)

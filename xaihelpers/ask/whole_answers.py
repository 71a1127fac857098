"""Answers that max_tokens ended are asked for once more, with more tokens."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from xaihelpers.ask.cache import ask
from xaihelpers.ask.messages import Answer, Request

LONGER = 4  # times as many tokens the second time


def ask_whole(
    model, requests: Sequence[Request], is_whole: Callable[[Answer], bool] | None = None, **settings
) -> list[Answer]:
    """The answer to each request, in order; one that max_tokens ended is asked for once more.

    model, settings: as of `ask.ask`.
    is_whole: whether an answer that was cut off holds all that is wanted of it; without it none does.
    Raises AskError as `ask.ask` does.
    """
    answers = ask(model, requests, **settings)
    cut = []
    for n, answer in enumerate(answers):
        if answer.truncated and not (is_whole and is_whole(answer)):
            cut.append(n)
    longer = [replace(requests[n], max_tokens=LONGER * requests[n].max_tokens) for n in cut]
    for n, answer in zip(cut, ask(model, longer, **settings) if cut else (), strict=True):
        answers[n] = answer
    return answers

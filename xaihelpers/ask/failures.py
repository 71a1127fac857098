"""Why an answer does not hold what was asked for: four kinds, which are counted apart.

| kind | what happened | counts as |
|---|---|---|
| failed | the answer could not be had: the server, the network | left out |
| truncated | max_tokens ended it | wrong |
| refused | the model says that it will not, or cannot, or a filter of its server does | wrong |
| unparsable | anything else that the reader of answers cannot read | wrong |
"""

import re

from xaihelpers.ask.messages import Answer

KINDS = ("failed", "truncated", "refused", "unparsable")
MARKED = 2.0  # % of failed answers from which on a result is marked
REFUSAL = re.compile(
    r"\b(?:i['’]?m|i am|we are|we['’]re) (?:sorry|unable|not able)\b"
    r"|\b(?:i|we) (?:can ?not|can['’]?t|won['’]?t|must decline|am afraid)\b"
    r"|\bunable to (?:help|assist)\b",
    re.I,
)


def failure_kind(answer: Answer, holds: bool) -> str:
    """Which of `KINDS` an answer is, empty where it holds what was asked for.

    holds: whether the answer's reader found what it wants.
    """
    if answer.error:
        return "failed"
    if holds:
        return ""
    if answer.refused:
        return "refused"
    if answer.truncated:
        return "truncated"
    return "refused" if REFUSAL.search(answer.text) else "unparsable"

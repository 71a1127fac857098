"""The letter that an answer chooses among lettered options, and the letters that a model favours."""

import re
import unicodedata
from collections.abc import Sequence

import pandas as pd

from xaihelpers.fastslow.chains import WITHOUT_SPACES

LETTERS = tuple("ABCDE")
# "A" and "I" are words, too. None of these follows the article or the pronoun: before one, they are letters.
AFTER_I = "is seems looks appears has shows fits matches describes because since".split()
AFTER_A = [*AFTER_I, *"was would as for with and or".split()]
BEFORE_LETTER = re.compile(r"\b(?:option|choice|letter)s?:?\s*[\W_]*\Z", re.I)
NOT_BEFORE = re.compile(
    r"(?:\bnot|n['’]t|\bcannot|\bnever|\bneither|\bnor|\bexcept|\bexclude|\brules? out|\bthan)"
    r"(?: be| choose| select| pick| say)?(?: the)?(?: (?:option|choice|letter|answer))?\s*[\W_]*\Z",
    re.I,
)
NOT_AFTER = re.compile(
    r"[)\]*\"']*\s+(?:(?:is|was|does|do|did|has|would|could|can|seems)\s?)?"
    r"(?:not\b|n['’]t\b|clearly not\b|wrong\b|incorrect\b|ruled out\b|excluded\b)",
    re.I,
)
# in a Chinese, Japanese or Thai answer: what it rejects is not looked for
REJECTS = re.compile("[不非没]|ない|ません|ไม่")


def parse_letter(text: str, letters: Sequence[str] = LETTERS) -> str | None:
    """The letter of the option that an answer names.

    What is read is a letter alone, or at the beginning before a mark ("B", "(B)", "**B**", "B. House"), and
    otherwise the one capital letter that stands by itself ("Answer: B", "I select B.", "B is the correct
    answer", "Option B is best").

    An "A" before a lower-case word is an article ("A bird"), unless "option" stands before it or a verb after
    it ("A is correct"). An "I" is the letter only at the end of a sentence, in brackets, before a verb in the
    third person, or after "option". Around the letters of a script without spaces ("答案是B") a letter stands
    by itself, and a wide one ("Ｂ") is the same.

    text: the answer, without the reasoning before it. letters: the capitals of the options.
    Returns None where no letter is named, several are ("A or B"), or one is only rejected ("not B", "B is
        wrong", "不是B").
    """
    if REJECTS.search(text):
        return None
    text = WITHOUT_SPACES.sub(" ", unicodedata.normalize("NFKC", text)).strip()
    letter = f"[{''.join(map(re.escape, letters))}]"
    leading = re.match(rf"\W*({letter})(?:\W*$|\s*[.):])", text)
    if leading and not _other_label(text, letter, leading[1]):
        return leading[1]
    named, rejected = set(), set()
    for match in re.finditer(rf"(?<![\w'’-])({letter})(?![\w'’]|-\w)", text):
        if _is_word(match):
            continue
        named.add(match[1])
        if NOT_BEFORE.search(text[: match.start()]) or NOT_AFTER.match(text[match.end() :]):
            rejected.add(match[1])
    return named.pop() if len(named) == 1 and not rejected else None


def position_table(answers: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """How often the true option is chosen at each place, and how often each letter is chosen, in %.

    answers: one row a case, with `position`, `letter`, `correct`, `failure` and `invalid`, as `choose`
        returns them. Answers that could not be had are left out; others that hold no letter are wrong.
    keys: the columns by which the table is split.
    Returns the keys, `right at A` … `right at E` (NaN where the true option never stands),
        `says A` … `says E` (of the valid answers; 0 where there is none), `invalid` (%) and `cases`.
    """
    rows = []
    had = answers[answers["failure"] != "failed"]
    for key, part in had.groupby(list(keys), sort=False):
        row = dict(zip(keys, key, strict=True))
        right = part.groupby("position")["correct"].mean().reindex(range(len(LETTERS)))
        for letter, share in zip(LETTERS, right, strict=True):
            row[f"right at {letter}"] = 100 * share
        chosen = part["letter"].value_counts(normalize=True).reindex(LETTERS, fill_value=0)
        for letter, share in chosen.items():
            row[f"says {letter}"] = 100 * share
        rows.append(row | {"invalid": 100 * part["invalid"].mean(), "cases": len(part)})
    return pd.DataFrame(rows)


def _other_label(text: str, letter: str, first: str) -> bool:
    """Whether a second option is named with its mark, as in "A. House or B. Car" and in a repeated list."""
    labels = re.findall(rf"(?:^|\bor|\band|[,;/])\W*({letter})\s*[.):]", text, flags=re.M)
    return any(label != first for label in labels)


def _is_word(match: re.Match) -> bool:
    """Whether an "A" or "I" is the article or the pronoun, and not the letter of an option."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    if match[1] not in "AI" or BEFORE_LETTER.search(before):
        return False
    following = re.match(r" ([a-z]+)", after)
    if match[1] == "A":
        return following is not None and following[1] not in AFTER_A
    if following is not None:
        return following[1] not in AFTER_I
    return not re.match(r"[)\]*\"]*(?:[.;:]|\Z|[)\]*\"])", after)

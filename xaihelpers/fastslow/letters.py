"""The letter that an answer chooses among lettered options."""

import re
import unicodedata

from xaihelpers.fastslow.chains import WITHOUT_SPACES

LETTERS = tuple("ABCDE")
LETTER = "([A-E])"
# "A" is a word, too. None of these follows the article: before one, it is the letter.
AFTER_A = "is seems looks appears has shows fits matches describes because since was would as for with and or"
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


def parse_letter(text: str) -> str | None:
    """The letter, A to E, of the option that an answer (without the reasoning before it) names.

    That is a letter alone, or at the beginning before a mark ("B", "(B)", "**B**", "B. House"), and otherwise
    the one capital letter that stands by itself ("I select B.", "Option B is best", "答案是B"). An "A" before
    a lower-case word is an article ("A bird"), unless "option" stands before it or a verb after it.

    None where no letter is named, several are ("A or B"), or one is only rejected ("not B", "不是B").
    """
    if REJECTS.search(text):
        return None
    text = WITHOUT_SPACES.sub(" ", unicodedata.normalize("NFKC", text)).strip()
    leading = re.match(rf"\W*{LETTER}(?:\W*$|\s*[.):])", text)
    # a second option with its mark, as in "A. House or B. Car" and in a repeated list
    labels = re.findall(rf"(?:^|\bor|\band|[,;/])\W*{LETTER}\s*[.):]", text, flags=re.M)
    if leading and not set(labels) - {leading[1]}:
        return leading[1]
    named, rejected = set(), set()
    for match in re.finditer(rf"(?<![\w'’-]){LETTER}(?![\w'’]|-\w)", text):
        before, after = text[: match.start()], text[match.end() :]
        following = re.match(r" ([a-z]+)", after)
        is_article = match[1] == "A" and following is not None and following[1] not in AFTER_A.split()
        if is_article and not BEFORE_LETTER.search(before):
            continue
        named.add(match[1])
        if NOT_BEFORE.search(before) or NOT_AFTER.match(after):
            rejected.add(match[1])
    return named.pop() if len(named) == 1 and not rejected else None

"""BLEU, METEOR and ROUGE-L of the model's text against that of the labels, through NLTK and RapidFuzz.

Paper conceptscore, section 3.4, eq. 4–12. By the standard definitions, of the text's tokens:

    (4)-(6)    BLEU    = BP · exp(¼ Σ_n log P_n) with n = 1 to 4,  BP = min(1, exp(1 - len(c) / len(ĉ)))
    (7)-(10)   METEOR  = F · (1 − γ (chunks / matches)^β),  F = P R / (α P + (1 − α) R)
    (11)-(12)  ROUGE-L = (1 + β²) P R / (R + β² P)

| symbol | name | shape |
|---|---|---|
| P(ĉ), the model's text | `candidate` | text |
| P(c), the labels' texts | `references` | one text or more |
| P_n, precision of n-grams | inside NLTK | scalar |
| P, R of matched words (METEOR) or the longest common subsequence (ROUGE) | `precision`, `recall` | scalars |
| β of ROUGE-L | `beta` | scalar |

Where the printed equations differ, they are misprints or simplifications. Eq. 5 prints the brevity
penalty's fraction upside down, which would reward short texts; eq. 9 weighs precision and recall alike,
where METEOR weighs recall 9 : 1; eq. 11–12 are recall alone, where ROUGE-L is usually F with β = 1.2.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

import numpy as np
import pandas as pd
from joblib import Parallel, cpu_count, delayed
from nltk.corpus import wordnet
from nltk.stem.porter import PorterStemmer
from nltk.translate import bleu_score, meteor_score
from rapidfuzz.distance import LCSseq

METRICS = ["BLEU", "METEOR", "ROUGE"]
PARALLEL_FROM = 4000  # pairs; fewer are done sooner than a second process has started
CHUNK = 2000  # pairs that a process computes at a time
_NIST = bleu_score.SmoothingFunction().method3


@lru_cache(200_000)
def tokenize(text: str) -> tuple[str, ...]:
    """Lower-cased words and numbers of a text, without punctuation; "-0.53" is one token, in any script.

    A number is no part of a word: "crown:0.43" and "crown=0.43" are two tokens each.
    """
    tokens = re.findall(r"[^\s,;:=/|()\[\]{}\"“”!?<>]+", text.lower())
    stripped = [token.strip(".*%–—_'’") for token in tokens]
    return tuple(token for token in stripped if token.strip("-"))


def text_scores(
    candidates: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], jobs: int = 2
) -> pd.DataFrame:
    """BLEU, METEOR and ROUGE of N pairs of a candidate and its references.

    BLEU counts up to 4-grams within each pair, with NIST's smoothing of n-grams that never match. METEOR's
    α is 0.9, β 3 and γ 0.5; `meteor_matching` says what counts as a match. ROUGE is ROUGE-L with β = 1.2.
    Equal pairs are computed once.

    candidates: N texts.
    references: one text for each, or several: BLEU takes the best count of each n-gram, METEOR the best
        score, ROUGE the best precision and the best recall.
    jobs: processes at most.
    Returns a table with one row for each pair and the three columns, in [0, 1].
    Raises ValueError: another number of references than candidates, a candidate without a reference.
    """
    if len(candidates) != len(references):
        raise ValueError(f"{len(candidates)} candidates, but {len(references)} references")
    pairs = []
    for candidate, reference in zip(candidates, references, strict=True):
        pairs.append((candidate, (reference,) if isinstance(reference, str) else tuple(reference)))
    without = [number for number, (_, texts) in enumerate(pairs) if not texts]
    if without:
        raise ValueError(f"candidate {without[0]} has no reference ({len(without)} such in all)")
    distinct = list(dict.fromkeys(pairs))
    row_of = {pair: row for row, pair in enumerate(distinct)}
    chunks = [distinct[start : start + CHUNK] for start in range(0, len(distinct), CHUNK)]
    jobs = min(jobs, cpu_count()) if len(distinct) >= PARALLEL_FROM else 1
    scores = Parallel(n_jobs=jobs)(delayed(_scores)(chunk) for chunk in chunks)
    table = np.concatenate(scores) if scores else np.zeros((0, len(METRICS)))
    return pd.DataFrame(table[[row_of[pair] for pair in pairs]], columns=METRICS)


def _scores(pairs: list[tuple[str, tuple[str, ...]]]) -> np.ndarray:
    """The three scores of each pair, (len(pairs), 3)."""
    return np.array([(bleu(*pair), meteor(*pair), rouge_l(*pair)) for pair in pairs])


def bleu(candidate: str, references: Sequence[str]) -> float:
    """BLEU of one text: up to 4-grams, NIST's smoothing, the closest reference's length."""
    known = [tokenize(text) for text in references]
    return float(bleu_score.sentence_bleu(known, tokenize(candidate), smoothing_function=_NIST))


def rouge_l(candidate: str, references: Sequence[str], beta: float = 1.2) -> float:
    """ROUGE-L of one text: F_β of the longest common subsequence.

    Precision (its share of the candidate) and recall (of the reference) are each best over the references.
    """
    tokens, known = tokenize(candidate), [tokenize(text) for text in references]
    common = [LCSseq.similarity(tokens, reference) for reference in known]
    if not any(common):
        return 0.0
    precision = max(common) / len(tokens)
    recall = max(
        length / len(reference) for length, reference in zip(common, known, strict=True) if reference
    )
    return (1 + beta**2) * precision * recall / (recall + beta**2 * precision)


def meteor(candidate: str, references: Sequence[str]) -> float:
    """METEOR of one text, best over the references."""
    return max(
        meteor_score.single_meteor_score(
            tokenize(reference),
            tokenize(candidate),
            preprocess=str,
            stemmer=_stemmer(),
            wordnet=_synonyms(),
        )
        for reference in references
    )


def meteor_matching() -> str:
    """What METEOR takes for equal here: "exact and stem", or "exact, stem and WordNet".

    WordNet is used where NLTK finds its files (`nltk.download("wordnet")`).
    """
    return "exact, stem and WordNet" if _has_wordnet() else "exact and stem"


@cache
def _has_wordnet() -> bool:
    try:
        wordnet.ensure_loaded()
    except LookupError:
        return False
    return True


class _CachedLookup:
    """An object whose one method, `name`, is a slow function of a word, each word looked up once."""

    def __init__(self, name: str, function: Callable):
        setattr(self, name, lru_cache(100_000)(function))


def _no_synonyms(word: str) -> list:
    return []


@cache
def _stemmer() -> _CachedLookup:
    return _CachedLookup("stem", PorterStemmer().stem)


@cache
def _synonyms() -> _CachedLookup:
    return _CachedLookup("synsets", wordnet.synsets if _has_wordnet() else _no_synonyms)

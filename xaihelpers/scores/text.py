"""BLEU, METEOR and ROUGE of P(ĉ) against P(c): how many words of the labels' text does the model's text hold? Offline, through NLTK and RapidFuzz.

Paper conceptscore, section 3.4, by the standard definitions. Where the printed ones differ, they are misprints or simplifications: eq. 5's brevity penalty
exp(1 − len(ĉ)/len(c)) would reward short texts and punish long ones (the fraction is upside down, and it must be 1 from equal length on); eq. 9 weighs
precision and recall alike, where METEOR weighs recall 9 : 1; eq. 11–12 are recall alone, where ROUGE-L is usually reported as F with β = 1.2.
"""
import re
import warnings
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
import pandas as pd
from joblib import Parallel, cpu_count, delayed
from nltk.corpus import wordnet
from nltk.stem.porter import PorterStemmer
from nltk.translate import bleu_score, meteor_score
from rapidfuzz.distance import LCSseq

METRICS = ["BLEU", "METEOR", "ROUGE"]
PARALLEL_FROM = 4000  # fewer pairs are done sooner than a second process has started
_NIST = bleu_score.SmoothingFunction().method3
_FOUR = [tuple(1 / n for _ in range(n)) for n in range(1, 5)]


@lru_cache(200_000)
def words(text: str) -> tuple[str, ...]:
    """Lower-cased words and numbers of a text, without punctuation; "-0.53" is one, letters of any script stay together."""
    found = (token.strip(".*=–—_'’") for token in re.findall(r"[^\s,;:|()\[\]{}\"“”!?<>]+", text.lower()))
    return tuple(token for token in found if token.strip("-"))


def text_scores(candidates: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], jobs: int = 2) -> pd.DataFrame:
    """BLEU, METEOR and ROUGE in [0, 1] of N pairs: a table with these three columns and one row per pair.

    BLEU: up to 4-grams, of each pair, with NIST's smoothing of n-grams that never match. METEOR: α 0.9, β 3, γ 0.5; `meteor_matching` says what counts as
    equal. ROUGE: ROUGE-L, F with β = 1.2. `references`: one text a candidate, or several (BLEU takes each n-gram's best, METEOR the best, ROUGE the best
    precision and recall). Equal pairs are computed once, on up to `jobs` processes. Raises ValueError for lengths that differ, and for a candidate without
    a reference.
    """
    if len(candidates) != len(references):
        raise ValueError(f"{len(candidates)} candidates, but {len(references)} references")
    pairs = [(candidate, (reference,) if isinstance(reference, str) else tuple(reference)) for candidate, reference in zip(candidates, references)]
    if bare := [n for n, (_, texts) in enumerate(pairs) if not texts]:
        raise ValueError(f"candidate {bare[0]} has no reference ({len(bare)} such in all)")
    row_of = {pair: row for row, pair in enumerate(dict.fromkeys(pairs))}
    distinct = list(row_of)
    jobs = min(jobs, cpu_count()) if len(distinct) >= PARALLEL_FROM else 1
    parts = [distinct[start:start + 2000] for start in range(0, len(distinct), 2000)]
    scores = Parallel(n_jobs=jobs)(delayed(_scores)(part) for part in parts)
    table = np.concatenate(scores) if scores else np.zeros((0, 3))
    return pd.DataFrame(table[[row_of[pair] for pair in pairs]], columns=METRICS)


def _scores(pairs: list[tuple[str, tuple[str, ...]]]) -> np.ndarray:
    rows = []
    for candidate, texts in pairs:
        said, known = words(candidate), [words(text) for text in texts]
        rows.append((_bleu(said, known), max(_meteor(reference, said) for reference in known), _rouge(said, known)))
    return np.array(rows)


def _bleu(said: tuple[str, ...], known: Sequence[tuple[str, ...]]) -> float:
    return float(bleu_score.sentence_bleu(known, said, smoothing_function=_NIST))


def corpus_bleu(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """BLEU-1 … BLEU-4 of a whole set, unsmoothed, with the closest reference's length: as captioning reports it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that no 4-gram matches is a result
        known, said = [[words(text) for text in texts] for texts in references], [words(text) for text in candidates]
        return [float(score) for score in bleu_score.corpus_bleu(known, said, weights=_FOUR)]


def rouge_l(candidate: str, references: Sequence[str], beta: float = 1.2) -> float:
    """ROUGE-L: F_β of the longest common subsequence's share of the candidate (precision) and of the reference (recall), each best over the references."""
    return _rouge(words(candidate), [words(text) for text in references], beta)


def _rouge(said: tuple[str, ...], known: Sequence[tuple[str, ...]], beta: float = 1.2) -> float:
    common = [LCSseq.similarity(said, reference) for reference in known]
    if not any(common):
        return 0.0
    precision, recall = max(common) / len(said), max(length / len(reference) for length, reference in zip(common, known) if reference)
    return (1 + beta**2) * precision * recall / (recall + beta**2 * precision)


def meteor(candidate: str, references: Sequence[str]) -> float:
    """METEOR of one text, best over the references."""
    return max(_meteor(words(text), words(candidate)) for text in references)


def _meteor(reference: tuple[str, ...], said: tuple[str, ...]) -> float:
    return meteor_score.single_meteor_score(reference, said, preprocess=str, stemmer=_stemmer(), wordnet=_synonyms())


def meteor_matching() -> str:
    """What METEOR takes for equal here: "exact and stem", or "exact, stem and WordNet" where NLTK finds WordNet's files (`nltk.download("wordnet")`)."""
    return "exact, stem and WordNet" if _has_wordnet() else "exact and stem"


@cache
def _has_wordnet() -> bool:
    try:
        wordnet.ensure_loaded()
    except LookupError:
        return False
    return True


class _Cached:
    """Remembers what a slow look-up of single words gave: `method` of `source` under its own name; nothing at all without a source."""

    def __init__(self, method: str, source=None):
        setattr(self, method, lru_cache(100_000)(getattr(source, method)) if source is not None else lambda word: [])


@cache
def _stemmer() -> _Cached:
    return _Cached("stem", PorterStemmer())


@cache
def _synonyms() -> _Cached:
    return _Cached("synsets", wordnet if _has_wordnet() else None)

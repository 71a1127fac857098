"""BLEU, METEOR and ROUGE-L of the model's text against that of the labels, through NLTK and RapidFuzz.

Paper conceptscore, section 3.4, eq. 4–12. By the standard definitions, of the text's tokens:

    (4)-(6)    BLEU    = BP · exp(¼ Σ_n log P_n) with n = 1 to 4,  BP = min(1, exp(1 - len(c) / len(ĉ)))
    (7)-(10)   METEOR  = F · (1 − γ (chunks / matches)^β),  F = P R / (α P + (1 − α) R)
    (11)-(12)  ROUGE-L = (1 + β²) P R / (R + β² P)

ĉ is the model's text (`candidate`), c the labels' (`reference`), P_n the precision of n-grams, P and R those
of matched words (METEOR) or of the longest common subsequence (ROUGE).

Where the printed equations differ, they are misprints or simplifications. Eq. 5 prints the brevity
penalty's fraction upside down, which would reward short texts; eq. 9 weighs precision and recall alike,
where METEOR weighs recall 9 : 1; eq. 11–12 are recall alone, where ROUGE-L is usually F with β = 1.2.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from types import SimpleNamespace

import pandas as pd
from nltk.corpus import wordnet
from nltk.stem.porter import PorterStemmer
from nltk.translate import bleu_score, meteor_score
from rapidfuzz.distance import LCSseq

NIST = bleu_score.SmoothingFunction().method3
BETA = 1.2  # of ROUGE-L
STEMMER = SimpleNamespace(stem=cache(PorterStemmer().stem))  # each word is stemmed once


@lru_cache(200_000)
def tokenize(text: str) -> tuple[str, ...]:
    """Lower-cased words and numbers of a text, without punctuation; "-0.53" is one token, in any script.

    A number is no part of a word: "crown:0.43" and "crown=0.43" are two tokens each.
    """
    tokens = re.findall(r"[^\s,;:=/|()\[\]{}\"“”!?<>]+", text.lower())
    stripped = [token.strip(".*%–—_'’") for token in tokens]
    return tuple(token for token in stripped if token.strip("-"))


def text_scores(candidates: Sequence[str], references: Sequence[str]) -> pd.DataFrame:
    """BLEU, METEOR and ROUGE of N texts, each against one reference; equal pairs are computed once.

    Returns a table of N rows in [0, 1]. Raises ValueError for another number of references.
    """
    pairs = list(zip(candidates, references, strict=True))
    found = {pair: [score(*pair) for score in (bleu, meteor, rouge_l)] for pair in set(pairs)}
    return pd.DataFrame([found[pair] for pair in pairs], columns=["BLEU", "METEOR", "ROUGE"])


def bleu(candidate: str, reference: str) -> float:
    """BLEU of one text: up to 4-grams, NIST's smoothing."""
    known = [tokenize(reference)]
    return float(bleu_score.sentence_bleu(known, tokenize(candidate), smoothing_function=NIST))


def rouge_l(candidate: str, reference: str) -> float:
    """ROUGE-L of one text: F_β of the longest common subsequence's share of both texts."""
    tokens, known = tokenize(candidate), tokenize(reference)
    common = LCSseq.similarity(tokens, known)
    if not common:
        return 0.0
    precision, recall = common / len(tokens), common / len(known)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def meteor(candidate: str, reference: str) -> float:
    """METEOR of one text: α = 0.9, β = 3, γ = 0.5; matched are equal words, stems and WordNet's synonyms.

    WordNet is used where NLTK finds its files (`nltk.download("wordnet")`).
    """
    how = {"preprocess": str, "stemmer": STEMMER, "wordnet": _synonyms()}
    return meteor_score.single_meteor_score(tokenize(reference), tokenize(candidate), **how)


@cache
def _synonyms() -> SimpleNamespace:
    """WordNet's synonyms of a word, each looked up once; none where its files are missing."""
    try:
        wordnet.ensure_loaded()
    except LookupError:
        return SimpleNamespace(synsets=lambda word: [])
    return SimpleNamespace(synsets=cache(wordnet.synsets))

"""The annotator's reader of words: which class does a text describe?

A linear classifier of the words and pairs of words of a text (multinomial logistic regression), which knows
no order beyond pairs and no picture. `recipes/annotator.py` fits it.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

# of CountVectorizer; a question without concepts has none but stop words that are known
WORDS = {"ngram_range": (1, 2), "binary": True, "token_pattern": r"[^\W\d_]+", "stop_words": "english"}


class WordReader:
    """weights: (K, W) float32 and bias (K,), of K names and the W words and pairs of `terms`."""

    def __init__(self, names: Sequence[str], terms: Sequence[str], weights: np.ndarray, bias: np.ndarray):
        self.names, self.terms, self.weights, self.bias = list(names), list(terms), weights, bias
        self.counter = CountVectorizer(vocabulary=self.terms, **WORDS)

    @classmethod
    def fitted(cls, texts: Sequence[str], names: Sequence[str], least: int = 10, C: float = 1.0):
        """Fitted to texts and the name that each describes; least: texts that a word must stand in."""
        counter = CountVectorizer(min_df=least, **WORDS)
        counts = counter.fit_transform(texts)
        model = LogisticRegression(C=C, max_iter=300).fit(counts, names)
        return cls(model.classes_, counter.get_feature_names_out(), model.coef_, model.intercept_)

    @classmethod
    def load(cls, file: Path):
        """As `save` wrote it. Raises OSError where there is none."""
        tensors = load_file(file)
        told = json.loads(tensors["told"].tobytes())
        weights, bias = (tensors[name].astype(np.float32) for name in ("weights", "bias"))
        return cls(told["names"], told["terms"], weights, bias)

    def save(self, file: Path) -> None:
        """Write a safetensors file in half precision."""
        told = json.dumps({"names": self.names, "terms": self.terms}).encode()
        # "C": safetensors writes an array of another order as it lies in memory
        tensors = {
            "weights": self.weights.astype(np.float16, order="C"),
            "bias": self.bias.astype(np.float16),
        }
        save_file(tensors | {"told": np.frombuffer(told, np.uint8)}, file)

    def read(self, text: str) -> dict[str, float]:
        """How probable each name is, by a text; all alike where it has no word that is known."""
        counts = self.counter.transform([text])
        if not counts.nnz:
            return dict.fromkeys(self.names, 1 / len(self.names))
        logits = counts @ self.weights.T + self.bias
        chances = np.exp(logits[0] - logits[0].max())
        return dict(zip(self.names, (chances / chances.sum()).tolist(), strict=True))

"""BLEU, METEOR and ROUGE by hand."""

from math import exp

import pytest

from xaihelpers.scores import text


def test_tokens():
    for said, tokens in (
        ("Red crown: -0.53, (long bill)\t1\nFlügel: 2.00.", "red crown -0.53 long bill 1 flügel 2.00"),
        ("Concept | Weight\n--- | ---\nbird’s hooked-bill!", "concept weight bird’s hooked-bill"),
        ("翅膀: 1, पंख: 2", "翅膀 1 पंख 2"),
        ("- red/crown=0.43;", "red crown 0.43"),
        (" ,.- ", ""),
    ):
        assert text.tokenize(said) == tuple(tokens.split())


def test_scores_by_hand():
    """Of 5 words 4 match, of 4 pairs 3, of 3 triples 2, of 2 quadruples 1; 4 for 5 words pay exp(1 - 5/4)."""
    pairs = {"a b c d x": "a b c d e", "a b c d": "a b c d e", "a b x c d": "a b y c d", "": "a", "a": ""}
    scores = text.text_scores([*pairs, "a b c d x"], [*pairs.values(), "a b c d e"])
    found = scores["BLEU"].tolist()
    assert found[:2] == pytest.approx([(4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25, exp(1 - 5 / 4)])
    # No triple and no quadruple matches: NIST counts 1/2 and 1/4 of a match instead.
    assert found[2] == pytest.approx((4 / 5 * 2 / 4 * 1 / 2 / 3 * 1 / 4 / 2) ** 0.25)
    assert (scores.iloc[3:5] == 0).all(axis=None) and (scores.iloc[5] == scores.iloc[0]).all()
    # p 3/4, R 3/5, F 10PR/(R + 9P); two chunks of three matches cost ½ (2/3)³
    score = 10 * 0.75 * 0.6 / (0.6 + 9 * 0.75) * (1 - 0.5 * (2 / 3) ** 3)
    assert text.meteor("a b x d", "a b c d e") == pytest.approx(score)
    # by their stem
    stemmed, whole = (text.meteor(wings, "spotted wing") for wings in ("spotted wings", "spotted wing"))
    assert stemmed == whole
    # the longest common subsequence is a c d: P 3/4, R 3/5
    b2 = 1.2**2
    assert text.rouge_l("a c x d", "a b c d e") == pytest.approx((1 + b2) * 0.45 / (0.6 + b2 * 0.75))

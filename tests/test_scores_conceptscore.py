"""ConceptScore: texts and scores worked out by hand, bounds, and bad input."""
import json
from math import nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xaihelpers.bottlenecks import ConceptOutputs
from xaihelpers.scores import conceptscore as S

PAIRS = S.Template(1, "pairs", "Concepts: ", "{concept}: {weight}", ", ", ".")
TABLE = S.Template(2, "table", "Concept\tWeight\n", "{concept}\t{weight}", "\n", "")
CONTRIBUTIONS = torch.tensor([[0.5, -2.0, 0.004, 1.255], [-1.0, 1.0, 0.0, -0.001]])
CONCEPTS = ["red crown", "long bill", "Flügel, weiß", "斑点"]


# Templates

def test_the_five_templates():
    found = S.templates()
    assert [template.id for template in found] == [1, 2, 3, 4, 5] and len({template.name for template in found}) == 5
    for template in found:
        text = S.describe(["red crown", "long bill"], [0.5, -1.0], template)
        assert text.startswith(template.head) and text.endswith(template.tail)
        assert text.index("red crown") < text.index("0.50") < text.index("long bill") < text.index("-1.00")
    assert [bool(template.tail) for template in found] == [False, False, True, True, True]  # the rule of ranking ends 3 to 5


def test_one_template_by_its_number():
    assert S.template(3) == S.templates()[2]
    with pytest.raises(ValueError, match="there is no template 6: choose one of 1, 2, 3, 4, 5"):
        S.template(6)


def write(folder, entries):
    file = folder / "mine.json"
    file.write_text(json.dumps(entries))
    return file


def test_templates_of_a_file(tmp_path):
    entry = {"id": 7, "name": "mine", "head": "", "pair": "{weight} of {concept}", "between": "; ", "tail": "!"}
    (mine,) = S.templates(write(tmp_path, [entry]))
    assert S.describe(["red crown", "long bill"], [1, 0.5], mine) == "1 of red crown; 0.50 of long bill!"
    for fault, message in (([entry, entry], "every id once"), ([], "at least one"), ([{"id": 1}], "mine.json is not a list of templates"), (["x"], "mine.json"),
                           ([entry | {"pair": "{concept}"}], "must hold {concept} and"), ([entry | {"pair": "{concept} {weight} {rank}"}], "must hold")):
        with pytest.raises(ValueError, match=message):
            S.templates(write(tmp_path, fault))
    with pytest.raises(ValueError, match="nowhere.json"):
        S.templates(tmp_path / "nowhere.json")


# Texts

def test_descriptions_by_hand():
    assert S.descriptions((CONTRIBUTIONS, CONCEPTS), 2, PAIRS) == ["Concepts: long bill: -2.00, 斑点: 1.25.", "Concepts: red crown: -1.00, long bill: 1.00."]
    assert S.descriptions((CONTRIBUTIONS[:1], CONCEPTS), 4, TABLE) == ["Concept\tWeight\nlong bill\t-2.00\n斑点\t1.25\nred crown\t0.50\nFlügel, weiß\t0.00"]
    assert S.describe(["a"], [-0.001], PAIRS) == "Concepts: a: 0.00."  # not -0.00


def test_outputs_and_contributions_give_the_same_text():
    plain = ["red crown", "long bill", "white wing", "spotted"]
    outputs = ConceptOutputs(torch.zeros(2, 4), CONTRIBUTIONS, None, torch.zeros(2, 3), plain, list("abc"))
    assert S.descriptions(outputs, 3, PAIRS) == S.descriptions((CONTRIBUTIONS, plain), 3, PAIRS)


def test_top_weighted():
    indices, weights = S.top_weighted((CONTRIBUTIONS, CONCEPTS), 4)
    assert indices.tolist() == [[1, 3, 0, 2], [0, 1, 3, 2]]  # by absolute value, equal ones in concept order
    torch.testing.assert_close(weights, CONTRIBUTIONS.gather(1, indices))
    assert S.top_weighted((torch.zeros(1, 300), [str(j) for j in range(300)]), 300)[0].tolist() == [list(range(300))]


def test_references_by_hand():
    present = torch.tensor([[1, 0, 0, 1], [0, 0, 1, 0]])
    assert S.references(present, CONCEPTS, PAIRS) == ["Concepts: red crown: 1, 斑点: 1.", "Concepts: Flügel, weiß: 1."]
    assert S.references(present.bool(), CONCEPTS, PAIRS) == S.references(present.float(), CONCEPTS, PAIRS) == S.references(present, CONCEPTS, PAIRS)


def test_bad_concepts():
    with pytest.raises(ValueError, match="list of concepts is empty"):
        S.top_weighted((torch.zeros(2, 0), []), 1)
    with pytest.raises(ValueError, match="'ß' stands twice, at places 0 and 2"):
        S.top_weighted((torch.zeros(2, 3), ["ß", "b", "ß"]), 1)
    with pytest.raises(ValueError, match="concept 1 has an empty name"):
        S.descriptions((torch.zeros(2, 2), ["a", " "]), 1, PAIRS)
    with pytest.raises(ValueError, match="'long bill' stands twice"):
        S.references(torch.ones(1, 2), ["long bill", "long bill"], PAIRS)
    for k in (0, 5):
        with pytest.raises(ValueError, match=f"{k} most important concepts: the model has 4; choose k from 1 to 4"):
            S.descriptions((CONTRIBUTIONS, CONCEPTS), k, PAIRS)


def test_bad_values():
    with pytest.raises(ValueError, match="1 contributions are NaN"):
        S.descriptions((torch.tensor([[nan, 1.0]]), ["a", "b"]), 1, PAIRS)
    with pytest.raises(ValueError, match=r"contributions are \(2, 4\), but there are 2 concepts"):
        S.top_weighted((CONTRIBUTIONS, ["a", "b"]), 1)
    with pytest.raises(ValueError, match=r"present is \(1, 3\), but there are 4"):
        S.references(torch.ones(1, 3), CONCEPTS, PAIRS)
    with pytest.raises(ValueError, match="must be 0 or 1"):
        S.references(torch.full((1, 4), 0.5), CONCEPTS, PAIRS)
    with pytest.raises(ValueError, match=r"2 images have no concept .* \(rows 1, 2\): leave them out"):
        S.references(torch.tensor([[1, 0], [0, 0], [0, 0]]), ["a", "b"], PAIRS)
    with pytest.raises(ValueError, match="2 concepts, but 1 weights"):
        S.describe(["a", "b"], [1], PAIRS)
    with pytest.raises(ValueError, match="is empty"):
        S.describe([], [], PAIRS)
    with pytest.raises(ValueError, match="a weight is nan"):
        S.describe(["a"], [nan], PAIRS)


@given(st.lists(st.lists(st.integers(-300, 300), min_size=6, max_size=6), min_size=1, max_size=4), st.integers(1, 6), st.integers(1, 6))
def test_more_concepts_only_add(rows, k, other):
    """The text of fewer concepts begins that of more; the order of the concepts does not matter where the weights' sizes differ."""
    weights, names = torch.tensor(rows) / 100, list("uvwxyz")
    few, many = (S.descriptions((weights, names), n, PAIRS) for n in sorted((k, other)))
    assert all(b.startswith(a[:-1]) for a, b in zip(few, many))
    distinct = [n for n, row in enumerate(rows) if len(set(map(abs, row))) == 6]
    turned = S.descriptions((weights.flip(1), names[::-1]), k, PAIRS)
    assert [turned[n] for n in distinct] == [S.descriptions((weights, names), k, PAIRS)[n] for n in distinct]


# Scores

def test_scores_by_hand():
    cosine = torch.tensor([0.2, -0.3, 0.0, 1.0])
    torch.testing.assert_close(S.concept_score(cosine), torch.tensor([0.5, 0.0, 0.0, 2.5]))
    torch.testing.assert_close(S.concept_score(cosine, 1.0), torch.tensor([0.2, 0.0, 0.0, 1.0]))
    # 2 · ½ · ¾ / (½ + ¾) = 0.6
    reference = torch.tensor([0.75, 0.9, 0.9, -0.5])
    torch.testing.assert_close(S.ref_concept_score(S.concept_score(cosine), reference), torch.tensor([0.6, 0.0, 0.0, 0.0]))
    several = torch.tensor([[0.1, 0.75], [0.9, 0.2], [0.9, -1.0], [-0.5, -0.7]])
    torch.testing.assert_close(S.ref_concept_score(S.concept_score(cosine), several), torch.tensor([0.6, 0.0, 0.0, 0.0]))


def test_the_papers_example_is_such_a_mean():
    """Both pairs of numbers of its Figure 2 are what the harmonic mean with a cosine in [0, 1] can give."""
    for score, both in ((0.5625, 0.6958), (0.3811, 0.5297), (0.5136, 0.6513)):
        cosine = score * both / (2 * score - both)
        assert 0.85 < cosine < 0.92
        assert S.ref_concept_score(torch.tensor([score]), torch.tensor([cosine])).item() == pytest.approx(both, abs=1e-6)


def test_scores_of_bad_input():
    with pytest.raises(ValueError, match="1 cosines are NaN"):
        S.concept_score(torch.tensor([0.1, nan]))
    for score, reference in (([0.1, 0.2], [0.1]), ([-0.1], [0.1]), ([0.1], [nan]), ([nan], [0.1])):
        with pytest.raises(ValueError, match="a cosine for each of the"):
            S.ref_concept_score(torch.tensor(score), torch.tensor(reference))


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=20))
def test_scores_are_bounded_and_monotone(pairs):
    """0 … ω; the harmonic mean lies between its two terms (not below both, as the paper's appendix B.2 says) and below twice the smaller."""
    cosine, reference = torch.tensor(pairs, dtype=torch.float64).T
    score = S.concept_score(cosine)
    assert ((0 <= score) & (score <= 2.5)).all()
    mean, best = S.ref_concept_score(score, reference), reference.clamp(min=0)
    low, high = torch.minimum(score, best), torch.maximum(score, best)
    assert ((mean >= low - 1e-9) | (low == 0)).all() and (mean <= torch.minimum(high, 2 * low) + 1e-9).all()
    assert (mean[low == 0] == 0).all()
    order = cosine.argsort()
    assert (score[order].diff() >= 0).all()
    assert (S.ref_concept_score(score, (reference + 0.1).clamp(max=1)) >= mean - 1e-9).all()

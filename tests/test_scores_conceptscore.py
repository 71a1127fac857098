"""ConceptScore: texts and scores worked out by hand, bounds, and bad input."""

import dataclasses
import json
from math import nan

import pytest
import torch

from xaihelpers.outputs import ConceptOutputs
from xaihelpers.scores import conceptscore

PAIRS = conceptscore.Template(1, "pairs", "Concepts: ", "{concept}: {weight}", ", ", ".")
TABLE = conceptscore.Template(2, "table", "Concept\tWeight\n", "{concept}\t{weight}", "\n", "")
CONTRIBUTIONS = torch.tensor([[0.5, -2.0, 0.004, 1.255], [-1.0, 1.0, 0.0, -0.001]])
CONCEPTS = ["red crown", "long bill", "Flügel, weiß", "斑点"]


def test_the_five_templates():
    templates = conceptscore.load_templates()
    assert [template.id for template in templates] == [1, 2, 3, 4, 5]
    # the rule of ranking ends 3 to 5
    assert [bool(template.tail) for template in templates] == [False, False, True, True, True]
    assert conceptscore.load_template(3) == templates[2]
    with pytest.raises(ValueError, match="there is no template 6: choose one of 1, 2, 3, 4, 5"):
        conceptscore.load_template(6)


def test_templates_of_a_file(tmp_path):
    file, entry = tmp_path / "mine.json", {"id": 7, "name": "mine", "head": "", "between": "; ", "tail": "!"}
    entry["pair"] = "{weight} of {concept}"
    file.write_text("\ufeff" + json.dumps([entry]))
    (mine,) = conceptscore.load_templates(file)
    said = conceptscore.describe(["red crown", "long bill"], [1, 0.5], mine)
    assert said == "1 of red crown; 0.50 of long bill!" and not conceptscore.are_of_table3(file)
    file.write_bytes((conceptscore.PROMPTS / conceptscore.PRINTED).read_bytes())
    assert conceptscore.are_of_table3(file) and conceptscore.are_of_table3()
    for fault in ([entry, entry], [], [{"id": 1}], [entry | {"pair": "{concept} {weight} {rank}"}]):
        file.write_text(json.dumps(fault))
        with pytest.raises(ValueError, match="mine.json"):
            conceptscore.load_templates(file)
    with pytest.raises(ValueError, match="nowhere.json"):
        conceptscore.load_templates(tmp_path / "nowhere.json")


def outputs_of(contributions, concepts=CONCEPTS):
    """Outputs of which only contributions and names matter."""
    logits = torch.zeros(len(contributions), 2)
    return ConceptOutputs(torch.zeros_like(contributions), contributions, None, logits, concepts, ["x", "y"])


def test_texts_by_hand():
    assert conceptscore.concept_texts(outputs_of(CONTRIBUTIONS), 2, PAIRS, "magnitude") == [
        "Concepts: long bill: -2.00, 斑点: 1.25.",
        "Concepts: red crown: -1.00, long bill: 1.00.",
    ]
    assert conceptscore.concept_texts(outputs_of(CONTRIBUTIONS[:1]), 4, TABLE, "magnitude") == [
        "Concept\tWeight\nlong bill\t-2.00\n斑点\t1.25\nred crown\t0.50\nFlügel, weiß\t0.00"
    ]
    assert conceptscore.describe(["a"], [-0.001], PAIRS) == "Concepts: a: 0.00."  # not -0.00
    present = torch.tensor([[1, 0, 0, 1], [0, 0, 1, 0]])
    assert conceptscore.reference_texts(present, CONCEPTS, PAIRS) == [
        "Concepts: red crown: 1, 斑点: 1.",
        "Concepts: Flügel, weiß: 1.",
    ]


def test_labels_that_are_no_reference_are_named():
    with pytest.raises(ValueError, match="must be 0 or 1"):
        conceptscore.reference_texts(torch.full((1, 4), nan), CONCEPTS, PAIRS)
    with pytest.raises(ValueError, match=r"2 images have no concept .* \(rows 1, 2, …\): leave them out"):
        conceptscore.reference_texts(torch.tensor([[1, 0], [0, 0], [0, 0]]), ["a", "b"], PAIRS)


def test_scores_by_hand():
    cosine = torch.tensor([0.2, -0.3, 0.0, 1.0])
    score = conceptscore.concept_score(cosine)
    torch.testing.assert_close(score, torch.tensor([0.5, 0.0, 0.0, 2.5]))
    torch.testing.assert_close(conceptscore.concept_score(cosine, 1.0), torch.tensor([0.2, 0.0, 0.0, 1.0]))
    # 2 · ½ · ¾ / (½ + ¾) = 0.6
    one, several = torch.tensor([0.75, 0.9, 0.9, -0.5]), [[0.1, 0.75], [0.9, 0.2], [0.9, -1.0], [-0.5, -0.7]]
    for reference in (one, torch.tensor(several)):
        both = conceptscore.ref_concept_score(score, reference)
        torch.testing.assert_close(both, torch.tensor([0.6, 0.0, 0.0, 0.0]))


def named_outputs():
    """Two images, four concepts; the model calls those above .5 present."""
    values = torch.tensor([[0.9, 0.1, 0.8, 0.2], [0.4, 0.3, 0.2, 0.1]])
    contributions = torch.tensor([[1.0, -3.0, 0.0, 2.0], [4.0, 3.0, 2.0, 1.0]])
    names, thresholds = list("abcd"), torch.full((4,), 0.5)
    return ConceptOutputs(values, contributions, None, torch.eye(2), names, ["x", "y"], thresholds=thresholds)


def test_naming_rules_by_hand():
    present = torch.tensor([[1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]])
    for naming, indices, negated, true in (
        ("magnitude", [[1, 3], [0, 1]], [[0, 0], [0, 0]], [[0, 1], [1, 0]]),
        ("signed", [[1, 3], [0, 1]], [[1, 1], [1, 1]], [[1, 0], [0, 1]]),
        ("present", [[0, 2], [-1, -1]], [[0, 0], [0, 0]], [[1, 0], [nan, nan]]),
        ("value", [[0, 2], [0, 1]], [[0, 0], [0, 0]], [[1, 0], [1, 0]]),
        ("non-zero", [[1, 3], [0, 1]], [[0, 0], [0, 0]], [[0, 1], [1, 0]]),
    ):
        named = conceptscore.named_concepts(named_outputs(), 2, naming)
        assert named.indices.tolist() == indices and named.negated.int().tolist() == negated
        torch.testing.assert_close(named.is_true(present), torch.tensor(true).float(), equal_nan=True)


def test_texts_of_what_is_named():
    outputs = named_outputs()
    signed = conceptscore.concept_texts(outputs, 2, PAIRS, "signed", decimals=0)
    assert signed == ["Concepts: not b: -3, not d: 2.", "Concepts: not a: 4, not b: 3."]
    present = conceptscore.concept_texts(outputs, 2, PAIRS, "present")
    assert present == ["Concepts: a: 1.00, c: 0.00.", "Concepts: ."]
    outputs = dataclasses.replace(outputs, thresholds=None)
    with pytest.raises(ValueError, match="these outputs have no thresholds"):
        conceptscore.named_concepts(outputs, 2, "present")
    with pytest.raises(ValueError, match="naming must be one of value, magnitude"):
        conceptscore.named_concepts(outputs, 2, "all")
    with pytest.raises(ValueError, match="cannot name 5 concepts of an image: choose 1 to 4"):
        conceptscore.named_concepts(outputs, 5)

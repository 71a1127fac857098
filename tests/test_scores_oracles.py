"""Scores and outputs beside PyC (pytorch-concepts): the same numbers where it has the same measure."""

import contextlib
import re

import nbformat
import pytest
import torch
from torch_concepts.nn import LinearConceptToConcept, LinearEmbeddingToConcept
from torch_concepts.nn.functional import (
    cace_score,
    completeness_score,
    intervention_score,
    number_of_effective_concepts,
)

from xaihelpers import outputs
from xaihelpers.paths import PROJECT
from xaihelpers.scores import causal, interventions

N, L, K = 200, 6, 4


@pytest.fixture
def bottleneck():
    """Values, truth, weights, offset and labels that follow from the truth, of a linear bottleneck."""
    draw = torch.Generator().manual_seed(3)
    truth = (torch.rand(N, L, generator=draw) < 0.4).float()
    weights, offset = torch.randn(L, K, generator=draw), torch.randn(K, generator=draw)
    # each value is wrong by an amount of its own column, so that the oracle's order is one for all images
    sign = (torch.rand(N, L, generator=draw) < 0.5).float() * 2 - 1
    values = truth + sign * torch.arange(L, 0, -1) / 2
    return values, truth, weights, offset, (truth @ weights + offset).argmax(1)


def accuracy(labels, scores, average=None):
    """Share of right decisions, as PyC's functions take a scorer."""
    return (scores.argmax(1) == labels).mean()


def test_curve_of_corrections(bottleneck):
    values, truth, weights, offset, labels = bottleneck
    shares = [number / L for number in range(L + 1)]
    curve = interventions.intervention_curve(values, truth, weights, offset, labels, "oracle", shares=shares)
    groups = [list(range(number)) for number in range(L + 1)]
    theirs = intervention_score(
        lambda concepts: concepts @ weights + offset,
        values,
        truth,
        labels,
        groups,
        activation=torch.nn.Identity(),
        scorer=accuracy,
        auc=False,
    )
    assert curve.mean(1).tolist() == pytest.approx([float(one) for one in theirs])
    assert curve[0].mean() < 0.9 and curve[-1].mean() == 1  # there was something to correct


def test_completeness_is_theirs_of_accuracy_less_chance(bottleneck):
    values, truth, weights, offset, labels = bottleneck
    concept_logits = values @ weights + offset
    network_logits = torch.where(torch.arange(N)[:, None] % 5 == 0, concept_logits, truth @ weights + offset)
    theirs = completeness_score(
        labels, network_logits, concept_logits, lambda *given, **kinds: accuracy(*given) - 1 / K
    )
    of_concepts, of_network = (
        float((logits.argmax(1) == labels).double().mean()) for logits in (concept_logits, network_logits)
    )
    assert interventions.completeness(of_concepts, of_network, K) == pytest.approx(float(theirs))


def test_mean_own_response_is_the_causal_concept_effect(bottleneck):
    before, after = bottleneck[0], bottleneck[1]
    for column in range(L):
        own = causal.own_response(before, after, torch.full((N,), column))
        assert float(own.mean()) == pytest.approx(float(cace_score(before, after)[column]), abs=1e-5)


def test_a_pruned_head_has_as_many_effective_concepts(bottleneck):
    values, _, weights, offset, _ = bottleneck
    for n in (1, 3, L):
        found = interventions.effective_concepts_logits(values, weights, offset, n)
        # what the pruned head multiplies each value by
        kept = torch.linalg.lstsq(values - values.mean(0), found - found.mean(0)).solution
        assert number_of_effective_concepts(kept.T, threshold=1e-4) == n


def lines_of_notebook_61(contain, folder, **given):
    """Run the block of code of notebook 61 that holds a text, as it stands there, in a folder."""
    notebook = nbformat.read(PROJECT / "notebooks" / "61_scorecard.ipynb", as_version=4)
    blocks = [
        block for cell in notebook.cells for block in re.findall(r"```python\n(.*?)```", cell.source, re.S)
    ]
    (code,) = [block for block in blocks if contain in block]
    given |= {
        "torch": torch,
        "ConceptOutputs": outputs.ConceptOutputs,
        "save_outputs": outputs.save_outputs,
        "concept_names": [f"concept {number}" for number in range(L)],
        "class_names": [f"class {number}" for number in range(K)],
        "file_names": [f"{number}.png" for number in range(N)],
    }
    with contextlib.chdir(folder):
        exec(compile(code, contain, "exec"), given)
    return outputs.read_outputs(folder / contain)


def of_predicted(read, rows):
    """What each image's predicted class has of (N, K) or (K,) numbers."""
    return rows[read.predictions] if rows.ndim == 1 else rows.gather(1, read.predictions[:, None])[:, 0]


def test_the_lines_for_this_library_run(tmp_path):
    embeddings = torch.randn(N, 8, generator=torch.Generator().manual_seed(0))
    encoder = LinearEmbeddingToConcept(in_embeddings=8, out_concepts=L)
    predictor = LinearConceptToConcept(in_concepts=L, out_concepts=K)
    given = {"embeddings": embeddings, "encoder": encoder, "predictor": predictor}
    read = lines_of_notebook_61("pyc.safetensors", tmp_path, **given)
    assert torch.allclose(read.logits, predictor(encoder(embeddings)))
    claimed = read.contributions.sum(1) + of_predicted(read, predictor.predictor.bias)
    assert torch.allclose(claimed, of_predicted(read, read.logits), atol=1e-5)


class StandIn:
    """What the authors' CEM gives: probabilities, mixed embeddings side by side, class logits."""

    def __init__(self, width=5):
        self.c2y_model = torch.nn.Sequential(torch.nn.Linear(L * width, K))
        self.width = width

    def __call__(self, x):
        probabilities = torch.sigmoid(x)
        ends = torch.randn(2, L, self.width, generator=torch.Generator().manual_seed(1))
        mixed = probabilities[..., None] * ends[0] + (1 - probabilities[..., None]) * ends[1]
        return probabilities, mixed.flatten(1), self.c2y_model(mixed.flatten(1))


def test_the_lines_for_concept_embeddings_run(tmp_path):
    model, x = StandIn(), torch.randn(N, L, generator=torch.Generator().manual_seed(0))
    read = lines_of_notebook_61("cem.safetensors", tmp_path, model=model, x=x)
    assert torch.allclose(read.values, torch.sigmoid(x)) and read.class_weights is None
    claimed = read.contributions.sum(1) + of_predicted(read, model.c2y_model[-1].bias)
    assert torch.allclose(claimed, of_predicted(read, read.logits), atol=1e-5)

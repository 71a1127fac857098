"""Pinned verdicts: of each a liar that must not get it, and an honest case that must not be refused it.

A case goes through the functions that its notebook calls. "The rule" is that of `claims`, "the ledger" that
of notebook 99, and 61 to 63 are the notebooks on yardsticks and on printed tables.
"""

import json
from dataclasses import replace
from math import nan

import numpy as np
import pandas as pd
import pytest
import torch
from notebook_nets import BASE, run_cells
from test_scores_exchange import draw_world, headed, ladder_of, misread, usual_of

from xaihelpers import claims, datasets, ledger, models, printed_readings
from xaihelpers.bottlenecks import concept_dataset, fit_head
from xaihelpers.outputs import ConceptOutputs, save_outputs
from xaihelpers.scores import Interval, alignment, validity
from xaihelpers.yardsticks.card import _rungs
from xaihelpers.yardsticks.reading import YARDSTICKS

T = next(YARDSTICKS[YARDSTICKS.yardstick == "T"].itertuples())
ABOVE = claims.Claim("a-b", "a", "1", "b", "c", "points", "above", 0, 5, nan, "11", "method", (), (), ())
HOLDS, FAILS = Interval(8, 6, 10, 100, 40.0), Interval(-8, -10, -6, 100, 40.0)


def decided(**asked):
    """What the rule says of a quantity that holds by its interval."""
    return claims.decide(ABOVE, HOLDS, **asked).outcome


def about_picture(liar):
    """Of what the line T of a page speaks: of one who recites by its class scores, or an honest reader."""
    world = draw_world(5)
    generator, labels, present, train, scores = world
    values = misread(present, 0.1, generator)
    if liar:
        values = usual_of(present[train], labels[train])[scores.argmax(1)]
        values = values + 0.1 * torch.randn(values.shape, generator=generator)
    else:
        scores = headed(values, labels, train)
    return _rungs(T, ladder_of(values, scores, world))["about"]


def seen_fault(liar):
    """The outcome of a yardstick under a fault: one that falls with quality alone, or with the fault."""
    doses, draws = np.tile([0, 0.5, 1.0], 8), np.arange(24) // 3
    quality = np.random.default_rng(0).normal(0, 0.05, 8)[draws]
    score = quality + np.random.default_rng(1).normal(0, 0.05, 24) - (0 if liar else doses)
    rows = {"yardstick": "y", "fault": "f", "dose": doses, "draw": draws, "score": score, "rank": 2}
    return validity.judge_yardsticks(pd.DataFrame(rows)).verdict.item()


def printed(liar):
    """What a table supports: one reading of two that holds, or both."""
    return printed_readings.own_table(ABOVE, [HOLDS, FAILS if liar else HOLDS])


def in_ledger(liar):
    """Two models of one column that differ, or agree."""
    verdicts = [{"outcome": claims.HOLDS, "model": "a", "data": "d"}]
    verdicts.append({"outcome": claims.FAILS if liar else claims.HOLDS, "model": "b", "data": "d"})
    return ledger.settled([(verdict, {}) for verdict in verdicts])[0]["outcome"]


behind, ahead = Interval(1, -1, 3, 100, 40.0), Interval(2, 1, 3, 100, 40.0)
CASES = {  # what it is of -> the verdict, what the liar and the honest case get
    "the rule, a rival": (claims.HOLDS, lambda liar: decided(rivals={"x": behind if liar else ahead})),
    "the rule, a reading": (claims.HOLDS, lambda liar: decided(readings={"x": FAILS if liar else HOLDS})),
    "the rule, a writing": (claims.HOLDS, lambda liar: decided(rewritten={"x": FAILS if liar else HOLDS})),
    "the rule, a control": (claims.HOLDS, lambda liar: decided(controls={"x": not liar})),
    "the rule, room": (claims.HOLDS, lambda liar: decided(room={"x": not liar})),
    "the rule, who answered": (
        claims.HOLDS,
        lambda liar: decided(needs=claims.needed_of("annotator" if liar else "server:x")),
    ),
    "the ledger": (claims.HOLDS, in_ledger),
    "61": ("the picture", about_picture),
    "62": (validity.SEES, seen_fault),
    "63": (claims.SUPPORTED, printed),
}


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_is_refused_to_a_liar_and_given_to_the_honest(name):
    verdict, said = CASES[name]
    assert said(liar=False) == verdict
    assert said(liar=True) != verdict


def test_what_several_verdicts_of_a_column_come_to():
    def settled(*said):
        found = [({"model": m, "data": d, "outcome": o}, {"run": n}) for n, (m, d, o) in enumerate(said)]
        verdict, run = ledger.settled(found)
        assert run == {"run": 0}
        return verdict["outcome"]

    assert settled(("a", "d", "holds"), ("b", "d", "holds")) == "holds"
    assert settled(("a", "d", "holds"), ("b", "d", "too few cases")) == claims.OF_MODEL
    assert settled(("a", "d", "holds"), ("a", "e", "fails")) == claims.OF_DATA
    assert settled(("a", "d", "holds"), ("b", "d", "holds"), ("a", "e", "fails")) == claims.OF_DATA
    assert settled(("a", "d", "holds"), ("a", "d", "fails")) == claims.TOO_FEW  # of another seed


# Alignment: planted models, through notebooks 13 and 14


@pytest.fixture(scope="module")
def birds():
    return concept_dataset.load_concept_dataset(clip="")


@pytest.fixture(scope="module")
def reader(birds):
    """Outputs of one who reads all labels of the aviary's test birds, with a head that was fitted to them."""
    theta, bias = fit_head(birds.truth[birds.train], birds.labels[birds.train], len(birds.classes))
    values = birds.truth[~birds.train]
    logits = values @ theta + bias
    given = values, values * theta.T[logits.argmax(1)], theta, logits, birds.concepts, birds.classes
    return ConceptOutputs(*given, birds.test_ids, thresholds=torch.full((values.shape[1],), 0.5))


def verdicts_of(notebook, outputs, place):
    """The outcome of each claim of a notebook that is run on a file of these outputs."""
    model = str(save_outputs(outputs, place / "planted.safetensors"))
    given = BASE[notebook] | {"first": [1, 3], "model": model} | ({"rival": ""} if notebook == "13" else {})
    run_cells(notebook, given, place / "results")
    (run,) = (place / "results").glob(f"{notebook}-*/run.json")
    verdicts = json.loads(run.read_text())["verdicts"]
    return {one["claim"].removeprefix("alignment-"): one["outcome"] for one in verdicts}


def explained(outputs, how):
    """The reader's outputs, explained otherwise by the same decisions."""
    species, seen = outputs.predictions, outputs.values
    if how == "recites":  # what the species that it names usually has
        usual = torch.stack([seen[species == k].mean(0) for k in range(len(outputs.classes))])
        seen = (usual[species] > 0.5).float()
    if how == "misnamed":
        seen = seen.roll(1, dims=1)
    contributions = seen * outputs.class_weights.T[species]
    return replace(outputs, values=seen, contributions=contributions)


@pytest.mark.notebooks
@pytest.mark.parametrize("how", ["reads", "recites", "misnamed"])
def test_whose_list_shows_a_look_at_the_picture(reader, how, tmp_path):
    outcome = verdicts_of("13", explained(reader, how), tmp_path)["existence-beyond-species"]
    assert (outcome == claims.HOLDS) == (how == "reads"), outcome


@pytest.mark.notebooks
def test_without_a_head_no_writing_can_be_asked(reader, tmp_path):
    verdicts = verdicts_of("13", replace(reader, class_weights=None), tmp_path)
    assert verdicts.pop("existence-beyond-species") != claims.FAILS
    assert set(verdicts.values()) == {claims.NOT_APPLICABLE}


@pytest.fixture(scope="module")
def maps_of(birds, reader):
    """Concept maps (N, L, 7, 7) of one who knows each part's place, and of liars."""
    world, network = datasets.load("aviary"), models.load_backbone("aviary_resnet")
    test = (~birds.train).nonzero()[:, 0].numpy()
    points = datasets.part_points(world, test, network.resize, network.crop)
    attributes = datasets.find_attributes(birds.concepts, world.attributes.name)
    parts = [
        [world.parts.index(part) for part in datasets.parts_of(name, world.parts)] for name in attributes
    ]
    size = network.crop, network.crop
    places = alignment.near_points(alignment.concept_points(points, parts), (7, 7), size)
    features = models.extract_features(network, birds.images.path.iloc[test]).maps
    energy = torch.nn.functional.adaptive_avg_pool2d(features.square().sum(1).sqrt(), 7)
    sign = (reader.values - reader.values.mean(0)).sign()
    found = {"knows the place": places * sign[..., None, None]}
    found["the whole object"] = energy[:, None] * sign[..., None, None]
    usual = (places / 20).exp().mean(0, keepdim=True).expand_as(places)
    found["the usual place"] = usual * sign[..., None, None]
    found["the centre"] = alignment.near_points(torch.full((2, 2), size[0] / 2), (7, 7), size)
    found["the centre"] = found["the centre"].expand_as(places) * sign[..., None, None]
    return found


@pytest.mark.notebooks
@pytest.mark.parametrize("who", ["knows the place", "the whole object", "the usual place", "the centre"])
def test_whose_maps_refute_that_parts_are_missed(reader, maps_of, who, tmp_path):
    """Three claims say that maps miss the part; only who finds it in this picture makes them fail."""
    verdicts = verdicts_of("14", replace(reader, concept_maps=maps_of[who].float()), tmp_path)
    asked = ["maps-not-specific", "part-outside-hottest-region-gauge-free"]
    for claim in asked:
        assert (verdicts[claim] == claims.FAILS) == (who == "knows the place"), (claim, verdicts)

"""The generator that draws: it does what prompts ask for, and fails as it is told to."""

import logging
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from xaihelpers import substitute
from xaihelpers.substitute import (
    FAILURES,
    GOOD,
    DrawnPipeline,
    GenerationJob,
    SubstituteError,
    generation,
    read_drawn,
)
from xaihelpers.worlds import aviary

BLUE = "has_breast_color::blue"
COLUMN = aviary.ATTRIBUTES.index(BLUE)
PROMPTS = substitute.pair_prompts("Cardinal", BLUE)


def always(failure):
    return DrawnPipeline({failure: 1.0} if failure != GOOD else {}, size=64)


def drawn(pipe, prompts, seeds):
    return [read_drawn(image) for image in substitute.generate(pipe, prompts, seeds)]


def of_group(truth, group):
    columns = [k for k, name in enumerate(aviary.ATTRIBUTES) if substitute.group_of(name) == group]
    return truth[columns]


@pytest.mark.parametrize("failure", [GOOD, *FAILURES])
def test_each_fate_is_what_it_says(failure):
    """A cardinal with a blue breast: is the breast blue, is it a cardinal, what else changed?"""
    for one in drawn(always(failure), [PROMPTS[0]] * 3, [1, 2, 3]):
        assert one.fate == failure
        assert one.truth[COLUMN] == (failure not in ("nothing changed", "wrong part"))
        assert (one.bird == "Cardinal") == (failure != "wrong species")
        if failure == "wrong part":  # blue is on another part
            blue = [name for name, there in zip(aviary.ATTRIBUTES, one.truth, strict=True) if there]
            assert any(name.endswith("color::blue") for name in blue)


def test_two_things_changed_is_one_more_than_good():
    """The same bird by the same seed: beside the breast another large part has another colour."""
    good, two = (drawn(always(fate), [PROMPTS[0]], [5])[0] for fate in (GOOD, "two things changed"))
    assert good.truth[COLUMN] and two.truth[COLUMN]
    parts = [f"{part}_color" for part in ("crown", "throat", "nape", "back", "wing", "belly")]
    changed = [
        part for part in parts if not torch.equal(of_group(good.truth, part), of_group(two.truth, part))
    ]
    assert len(changed) == 1


def test_blurred_is_a_good_one_without_its_edges():
    sharp, blurred = (substitute.generate(always(fate), [PROMPTS[0]], [7])[0] for fate in (GOOD, "blurred"))
    assert read_drawn(sharp).truth.equal(read_drawn(blurred).truth)
    edges = [np.abs(np.diff(np.asarray(image, float), axis=0)).mean() for image in (sharp, blurred)]
    assert edges[1] < 0.75 * edges[0]


def test_fates_come_at_their_rates():
    """Of 60 draws at 50 % nothing changed, 20 to 40: a binomial leaves this range once in 100 times."""
    pipe = DrawnPipeline({"nothing changed": 0.5}, size=16)
    counts = Counter(one.fate for one in drawn(pipe, [PROMPTS[0]] * 60, range(60)))
    assert set(counts) == {GOOD, "nothing changed"} and 20 <= counts[GOOD] <= 40


def test_what_is_not_novel_is_drawn_as_it_is():
    """A species alone, a bird with an attribute, a cardinal with its own red breast: no failure."""
    prompts = ["a photo of a Cardinal", PROMPTS[1], "a photo of a Cardinal with a red breast"]
    cardinal, any_bird, red = drawn(always("nothing changed"), prompts, [1, 2, 3])
    assert [one.fate for one in (cardinal, any_bird, red)] == [GOOD] * 3
    assert cardinal.bird == red.bird == "Cardinal"
    assert any_bird.truth[COLUMN] and of_group(red.truth, "breast_color").sum() == 1


def test_an_unknown_species_is_drawn_as_the_one_most_like_it():
    pipe = DrawnPipeline({}, unknown=["Summer_Tanager"], size=16)
    (one,) = drawn(pipe, ["a photo of a Summer Tanager"], [0])
    assert one.bird not in ("Summer Tanager", "")
    red = aviary.ATTRIBUTES.index("has_primary_color::red")
    assert one.truth[red]  # the tanager's nearest is red, too


def test_patterns_and_shapes_are_taken_from_their_guides():
    pattern = substitute.pair_prompts("Cardinal", "has_breast_pattern::spotted", "Northern_Flicker")
    shape = substitute.pair_prompts("Blue_Jay", "has_bill_shape::needle")  # like a Hummingbird
    spotted, needle = drawn(always(GOOD), [pattern[0], shape[0]], [1, 2])
    assert spotted.truth[aviary.ATTRIBUTES.index("has_breast_pattern::spotted")]
    assert needle.truth[aviary.ATTRIBUTES.index("has_bill_shape::needle")] and needle.bird == "Blue Jay"


def test_files_say_what_they_show(tmp_path, monkeypatch):
    """Made in pairs or alone, found again in the cache, each with its truth; another rate, other files."""
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    pipe = always(GOOD)
    jobs = [GenerationJob(PROMPTS, 3), GenerationJob(PROMPTS[:1], 4)]
    pair, alone = substitute.generate_files(pipe, jobs, size=32)
    assert len(pair) == 2 and len(alone) == 1
    assert read_drawn(pair[0]).bird == "Cardinal" and read_drawn(alone[0]).truth[COLUMN]
    assert Image.open(pair[0]).size == (32, 32)
    assert substitute.generate_files(pipe, jobs, size=32) == [pair, alone]
    assert substitute.generate_files(always("blurred"), jobs[:1], size=32) != [pair]
    assert isinstance(substitute.load_pipeline("aviary_drawn"), DrawnPipeline)
    image = Image.new("RGB", (8, 8))
    assert substitute.reconstruct(pipe, [image]) == [image]


@pytest.mark.parametrize(
    "prompt, part",
    [
        ("a bird with a blue breast", "does not understand 'a bird with a blue breast'"),
        ("a photo of a Cardinel", "does not understand"),
        ("a photo of a Cardinal with a plaid breast", "'a plaid breast' in"),
        (
            "a photo of a Cardinal with the body of a Cardinal and a foot like a Mallard",
            "'a foot' is no part",
        ),
    ],
)
def test_prompts_that_it_does_not_understand(prompt, part):
    with pytest.raises(SubstituteError, match="does not understand") as error:
        drawn(always(GOOD), [prompt], [0])
    assert part in str(error.value)


def test_wrong_settings_and_images_of_another_origin():
    with pytest.raises(SubstituteError, match="'too late' is no failure; there are nothing changed"):
        DrawnPipeline({"too late": 0.1})
    with pytest.raises(SubstituteError, match="at most 1 together"):
        DrawnPipeline({"blurred": 0.7, "wrong part": 0.6})
    with pytest.raises(ValueError, match="the nearest is 'Cardinal'"):
        DrawnPipeline(unknown=["Cardinel"])
    with pytest.raises(SubstituteError, match="does not say what it shows"):
        read_drawn(Image.new("RGB", (8, 8)))
    with pytest.raises(SubstituteError, match="DrawnPipeline takes no steps that could be kept"):
        substitute.generate_pairs(always(GOOD), [PROMPTS], [0], float, trajectory=True, size=16)


@pytest.mark.parametrize("free, offload", [(6000, ""), (4000, "model")])
def test_off_loading_only_where_memory_asks_for_it(free, offload, monkeypatch, caplog):
    """1,000 float32 weights are 4,000 bytes; with room to work in, 5,200."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 80_000))
    caplog.set_level(logging.INFO, "xaihelpers")
    pipe = DrawnPipeline()
    pipe.components = {"transformer": nn.Linear(10, 100, bias=False), "scheduler": pipe.scheduler}
    assert generation._needed_offload(pipe, torch.device("cuda", 0)) == offload
    assert "free on cuda:0" in caplog.text

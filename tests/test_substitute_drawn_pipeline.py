"""The generator that draws: it does what prompts ask for, and fails as it is told to."""

import pytest
import torch

from worlds import aviary
from xaihelpers import substitute

BLUE = "has_breast_color::blue"
COLUMN = aviary.ATTRIBUTES.index(BLUE)


def drawn(failure):
    pipe = substitute.DrawnPipeline({failure: 1.0} if failure != substitute.GOOD else {})
    ((file,),) = substitute.generate_files(pipe, [substitute.GenerationJob("Cardinal", 5, BLUE)], size=64)
    return substitute.read_drawn(file)


def of_group(truth, group):
    columns = [k for k, name in enumerate(aviary.ATTRIBUTES) if substitute.group_of(name) == group]
    return truth[columns]


@pytest.mark.parametrize("failure", [substitute.GOOD, *substitute.FAILURES])
def test_each_fate_is_what_it_says(failure, tmp_path, monkeypatch):
    """A cardinal with a blue breast: is the breast blue, is it a cardinal, what else changed?"""
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    good, one = drawn(substitute.GOOD), drawn(failure)
    assert one.fate == failure
    assert one.truth[COLUMN] == (failure not in ("nothing changed", "wrong part"))
    assert (one.bird == "Cardinal") == (failure != "wrong species")
    if failure == "wrong part":  # blue is on another part
        blue = [name for name, there in zip(aviary.ATTRIBUTES, one.truth, strict=True) if there]
        assert any(name.endswith("color::blue") for name in blue)
    if failure == "two things changed":  # of the same bird
        parts = [f"{part}_color" for part in ("crown", "throat", "nape", "back", "wing", "belly")]
        assert (
            sum(not torch.equal(of_group(good.truth, part), of_group(one.truth, part)) for part in parts) == 1
        )
    if failure == "blurred":
        assert good.truth.equal(one.truth)


def test_wrong_settings():
    with pytest.raises(substitute.SubstituteError, match="at most 1 together"):
        substitute.DrawnPipeline({"blurred": 0.7, "wrong part": 0.6})
    with pytest.raises(ValueError, match="the nearest is 'Cardinal'"):
        substitute.DrawnPipeline(unknown=["Cardinel"])

"""Tied Diffusion Guidance on pipelines of three families with tiny random weights, and its errors."""

import numpy as np
import pytest
import torch
from diffusers import FluxPipeline
from safetensors.torch import load_file, save_file
from tiny_pipelines import PIPELINES, SIZE, flux

from xaihelpers import substitute

STEPS = 4
PROMPTS = [
    ("a photo of a blue jay with a yellow crown", "a photo of a bird with a yellow crown"),
    ("a photo of a blue jay with a red breast", "a photo of a bird with a red breast"),
]
NOISE = 1e-5
SETTINGS = {"steps": STEPS, "size": SIZE, "output_type": "np"}


@pytest.fixture(scope="module", params=PIPELINES)
def pipe(request):
    torch.manual_seed(0)
    pipe = PIPELINES[request.param]()
    network = pipe.components["transformer" if "transformer" in pipe.components else "unet"]
    for parameter in network.parameters():  # fresh weights hardly depend on their prompt
        torch.nn.init.normal_(parameter, std=0.05)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def difference(images, others):
    """The largest; products of other batches differ in the last place, which some steps amplify."""
    first = np.stack([np.asarray(image, float) for image in images])
    second = np.stack([np.asarray(image, float) for image in others])
    return np.abs(first - second).max()


def tied_pairs(pipe, share, prompts=PROMPTS, seeds=(3, 4), **settings):
    return substitute.generate_pairs(pipe, prompts, seeds, share, **SETTINGS, **settings)


def all_tied(t):
    return 1.0


def nothing_tied(t):
    return 0.0


def test_all_is_tied_or_nothing(pipe):
    """All: twice the same image; nothing: each prompt's own."""
    pairs = tied_pairs(pipe, all_tied)
    assert difference(pairs.references, pairs.guides) == 0
    assert np.std(pairs.references[0]) > 0.01  # and not an empty one
    images, others = (
        substitute.generate(pipe, texts, (3, 4), **SETTINGS) for texts in zip(*PROMPTS, strict=True)
    )
    pairs = tied_pairs(pipe, nothing_tied)
    assert difference(pairs.references, images) < NOISE and difference(pairs.guides, others) < NOISE
    assert difference(images, others) > 10 * NOISE  # the prompts do matter


def test_trajectory(pipe):
    """Also in small batches, of which a pair's image does not depend."""
    whole = tied_pairs(pipe, substitute.tied_share)
    pairs = tied_pairs(pipe, substitute.tied_share, trajectory=True, batch_size=2)
    assert difference(whole.references + whole.guides, pairs.references + pairs.guides) < NOISE
    assert len(pairs.trajectory) == 2 and len(pairs.trajectory[0]) >= STEPS
    first, *_, last = pairs.trajectory[0]
    # one initial noise, all tied
    assert torch.equal(first.sample[0], first.sample[1]) and first.t > 0.9 and first.share == 1
    assert torch.equal(*first.tied) and not torch.equal(*first.prediction)
    times = [step.t for step in pairs.trajectory[0]]
    assert times == sorted(times, reverse=True)
    images = substitute.decode(pipe, last.sample, SIZE)  # a step before the end
    assert len(images) == 2 and np.abs(np.asarray(images[0]) / 255 - pairs.references[0]).mean() < 0.15


def test_a_prompt_that_is_too_long_leaves_the_pipeline_as_it_was():
    pipe = flux()
    scheduler = pipe.scheduler
    with pytest.raises(substitute.SubstituteError, match=r"has \d+ tokens, but .* text encoder reads 20"):
        tied_pairs(pipe, all_tied, [("a bird with a crown and " * 5, "a bird")], (1,))
    assert pipe.scheduler is scheduler


def test_loading(tmp_path):
    place = str(tmp_path / "tiny")
    flux().to(torch.float16).save_pretrained(place)
    pipe = substitute.load_pipeline(place)
    assert type(pipe) is FluxPipeline and pipe.transformer.dtype == torch.float32
    images = substitute.generate(pipe, ["a photo of a bird"] * 2, (1, 1), steps=2)
    assert difference(images[:1], images[1:]) == 0
    for message, name, options in (
        ("pipeline 'nobody/nothing' could not be loaded.*hf download nobody/nothing", "nobody/nothing", {}),
        ("offload is auto, model or empty, .* not 'all'", place, {"offload": "all"}),
    ):
        with pytest.raises(substitute.SubstituteError, match=message):
            substitute.load_pipeline(name, **options)
    for name in ("steps", "batch_size"):
        with pytest.raises(substitute.SubstituteError, match=f"{name}.* 0.*both have to be 1 or more"):
            substitute.generate(pipe, ["a bird"], (1,), **{name: 0})
    file = next((tmp_path / "tiny" / "transformer").glob("*.safetensors"))
    weights = load_file(file)
    del weights["proj_out.bias"]
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(substitute.SubstituteError, match="lacks weights .1, transformer.proj_out.bias"):
        substitute.load_pipeline(place)


def test_until_when_all_is_tied():
    assert substitute.T_MAX == {"color": 0.9, "shape": 0.9, "pattern": 0.6}  # section 5
    assert substitute.paper_tie("has_wing_pattern::solid") == (10.0, 0.2, 0.6)
    k, t_min, t_max = substitute.paper_tie("has_wing_color::red", numbers=4 * 4 * 16)  # a is 32
    assert k == 10 and np.isclose(t_min, 0.2 / (32 - 31 * 0.2)) and np.isclose(t_max, 0.9 / (32 - 31 * 0.9))
    # as uncertain: t / (1 - t) / sqrt(numbers)
    assert np.isclose(t_max / (1 - t_max) / 16, 0.9 / 0.1 / (128 * 4))

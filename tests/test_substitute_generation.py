"""Tied Diffusion Guidance on four pipelines with tiny random weights, and its errors."""

import math

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, FluxPipeline
from PIL import Image
from tiny_pipelines import PIPELINES, SIZE, flux

from xaihelpers import substitute
from xaihelpers.substitute import (
    DrawnPipeline,
    SubstituteError,
    generate,
    generate_averaged,
    generate_pairs,
    tied_share,
)
from xaihelpers.substitute.generation import pipeline_identity

STEPS = 4
PROMPTS = [
    ("a photo of a blue jay with a yellow crown", "a photo of a bird with a yellow crown"),
    ("a photo of a blue jay with a red breast", "a photo of a bird with a red breast"),
]
NOISE = 1e-5


@pytest.fixture(scope="module", params=PIPELINES)
def pipe(request):
    torch.manual_seed(0)
    pipe = PIPELINES[request.param]()
    network = pipe.components["transformer" if "transformer" in pipe.components else "unet"]
    for parameter in network.parameters():  # fresh weights hardly depend on their prompt
        torch.nn.init.normal_(parameter, std=0.05)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def options(pipe):
    settings = {"steps": STEPS, "size": SIZE, "output_type": "np"}
    if "PixArt" in type(pipe).__name__:
        settings["use_resolution_binning"] = False
    return settings


def difference(images, others):
    """The largest difference of two lists of images.

    Products of other batches differ by a few units in the last place, which some steps amplify.
    """
    first = np.stack([np.asarray(image, float) for image in images])
    second = np.stack([np.asarray(image, float) for image in others])
    return np.abs(first - second).max()


def tied_pairs(pipe, share, prompts=PROMPTS, seeds=(3, 4), **settings):
    return generate_pairs(pipe, prompts, seeds, share, **options(pipe), **settings)


def all_tied(t):
    return 1.0


def nothing_tied(t):
    return 0.0


def test_all_tied_gives_twice_the_same_image(pipe):
    pairs = tied_pairs(pipe, all_tied)
    assert difference(pairs.references, pairs.guides) == 0
    assert np.std(pairs.references[0]) > 0.01  # and not an empty one


def test_nothing_tied_gives_each_its_own_image(pipe):
    pairs = tied_pairs(pipe, nothing_tied)
    references, guides = zip(*PROMPTS, strict=True)
    assert difference(pairs.references, generate(pipe, references, (3, 4), **options(pipe))) < NOISE
    assert difference(pairs.guides, generate(pipe, guides, (3, 4), **options(pipe))) < NOISE
    assert difference(pairs.references, pairs.guides) > 10 * NOISE  # the prompts do matter


def test_a_pair_does_not_depend_on_its_batch(pipe):
    together = tied_pairs(pipe, tied_share)
    alone = tied_pairs(pipe, tied_share, PROMPTS[1:], (4,))
    assert difference(together.references[1:], alone.references) < NOISE
    assert difference(together.guides[1:], alone.guides) < NOISE
    small_batches = tied_pairs(pipe, tied_share, batch_size=2)
    assert difference(together.references, small_batches.references) < NOISE


def test_the_tie_is_between_both(pipe):
    tied, free = tied_pairs(pipe, lambda t: 0.9), tied_pairs(pipe, nothing_tied)
    for row in range(len(PROMPTS)):
        apart_tied = np.abs(tied.references[row] - tied.guides[row]).mean()
        apart_free = np.abs(free.references[row] - free.guides[row]).mean()
        assert 0 < apart_tied < apart_free


def test_a_prompt_that_is_swapped_at_once_or_never(pipe):
    references, guides = zip(*PROMPTS, strict=True)
    for share, prompts in ((nothing_tied, references), (all_tied, guides)):
        pairs = tied_pairs(pipe, share, rule="swapped")
        assert difference(pairs.references, generate(pipe, prompts, (3, 4), **options(pipe))) < NOISE
        assert difference(pairs.references, pairs.guides) == 0


def test_the_mean_of_two_prompts(pipe):
    """Of a prompt and itself: its own image; of two: another one, whichever comes first."""
    (own, other), settings = PROMPTS[0], options(pipe)
    alone = generate(pipe, [own], (3,), **settings)
    assert difference(generate_averaged(pipe, [(own, own)], (3,), **settings), alone) < NOISE
    mixed = generate_averaged(pipe, [(own, other)], (3,), **settings)
    assert difference(mixed, generate_averaged(pipe, [(other, own)], (3,), **settings)) < NOISE
    assert difference(mixed, alone) > 3 * NOISE  # these weights hardly read their prompts
    assert "encode_prompt" not in vars(pipe)


def test_the_pipeline_is_left_as_it_was(pipe):
    scheduler = pipe.scheduler
    tied_pairs(pipe, tied_share)
    assert pipe.scheduler is scheduler and not type(scheduler).__name__.startswith("Tied")

    def broken(t):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        tied_pairs(pipe, broken)
    assert pipe.scheduler is scheduler


def test_trajectory(pipe):
    pairs = tied_pairs(pipe, tied_share, trajectory=True, batch_size=2)
    assert len(pairs.trajectory) == 2 and len(pairs.trajectory[0]) >= STEPS
    first, *_, last = pairs.trajectory[0]
    # one initial noise, all tied
    assert torch.equal(first.sample[0], first.sample[1]) and first.t > 0.9 and first.share == 1
    assert torch.equal(first.tied[0], first.tied[1])
    assert not torch.equal(first.prediction[0], first.prediction[1])
    times = [step.t for step in pairs.trajectory[0]]
    assert times == sorted(times, reverse=True)
    images = substitute.decode(pipe, last.sample, SIZE)  # a step before the end
    assert len(images) == 2 and np.abs(np.asarray(images[0]) / 255 - pairs.references[0]).mean() < 0.15


def test_flux_has_the_same_mean_and_the_same_weighted_guidance():
    """The mean handed over as embeddings, and the second direction as Flux's own negative prompt."""
    torch.manual_seed(0)
    pipe = flux()
    pipe.set_progress_bar_config(disable=True)
    settings = options(pipe)
    encoded = [pipe.encode_prompt(prompt, None, max_sequence_length=20) for prompt in PROMPTS[0]]
    sequence, pooled = ((own + other) / 2 for own, other in zip(*(two[:2] for two in encoded), strict=True))
    by_hand = pipe(
        prompt_embeds=sequence,
        pooled_prompt_embeds=pooled,
        generator=[torch.Generator().manual_seed(3)],
        num_inference_steps=STEPS,
        height=SIZE,
        width=SIZE,
        output_type="np",
    ).images
    assert difference(generate_averaged(pipe, PROMPTS[:1], (3,), **settings), by_hand) < NOISE

    own = generate(
        pipe, [PROMPTS[0][0]], (3,), negative_prompt=[PROMPTS[0][1]], true_cfg_scale=3.0, **settings
    )
    pairs = generate_pairs(pipe, PROMPTS[:1], (3,), lambda t: 2.0, rule="weighted", **settings)
    assert difference(own, pairs.references) < NOISE


def test_one_call():
    torch.manual_seed(0)
    pairs = substitute.substitute(flux(), "Blue_Jay", "has_crown_color--yellow", n=2, seed=5, steps=2)
    prompts = ("a photo of a Blue Jay with a yellow crown", "a photo of a bird with a yellow crown")
    assert pairs.prompts == [prompts, prompts] and pairs.seeds == [5, 6]
    assert [image.size for image in pairs.references + pairs.guides] == 4 * [(SIZE, SIZE)]


def test_errors_name_the_thing_and_the_remedy():
    pipe = flux()
    with pytest.raises(SubstituteError, match="1 pairs and 2 seeds"):
        generate_pairs(pipe, PROMPTS[:1], (1, 2), tied_share)
    with pytest.raises(SubstituteError, match="1 prompts and 2 seeds"):
        generate(pipe, ["a bird"], (1, 2))
    with pytest.raises(SubstituteError, match=r"has \d+ tokens, but this pipeline's text encoder reads 20"):
        generate(pipe, ["a photo of " + "a bird with a crown and " * 5], (1,), steps=1)
    with pytest.raises(SubstituteError, match="1 pairs and 2 seeds"):
        generate_averaged(pipe, PROMPTS[:1], (1, 2))
    with pytest.raises(SubstituteError, match="DrawnPipeline does not encode its prompts"):
        generate_averaged(DrawnPipeline(), PROMPTS[:1], (1,))
    pipe.scheduler = None
    with pytest.raises(SubstituteError, match="FluxPipeline has no scheduler"):
        generate_pairs(pipe, PROMPTS, (1, 2), tied_share)


def test_loading(tmp_path):
    flux().to(torch.float16).save_pretrained(tmp_path / "tiny")
    pipe = substitute.load_pipeline(str(tmp_path / "tiny"))
    assert type(pipe) is FluxPipeline and pipe.transformer.dtype == torch.float32
    images = generate(pipe, ["a photo of a bird"] * 2, (1, 1), steps=2)
    assert difference(images[:1], images[1:]) == 0
    message = "pipeline 'nobody/nothing' could not be loaded.*hf download nobody/nothing"
    with pytest.raises(SubstituteError, match=message):
        substitute.load_pipeline("nobody/nothing")
    message = "offload must be one of '', 'auto', 'model', 'sequential', not 'all'"
    with pytest.raises(SubstituteError, match=message):
        substitute.load_pipeline(str(tmp_path / "tiny"), offload="all")
    with pytest.raises(SubstituteError, match="both are for a GPU"):
        substitute.load_pipeline(str(tmp_path / "tiny"), quantise="4bit")


def test_a_shift_of_the_noise_levels(tmp_path):
    """By hand: 0.5 becomes 0.25 * 0.5 / (1 - 0.75 * 0.5) = 0.2; another shift is another pipeline."""
    flux().save_pretrained(tmp_path / "tiny")
    own, shifted = (substitute.load_pipeline(str(tmp_path / "tiny"), shift=shift) for shift in (0.0, 0.25))
    assert own.scheduler.config.use_dynamic_shifting and not shifted.scheduler.config.use_dynamic_shifting
    images = [generate(pipe, ["a photo of a bird"], (1,), steps=2) for pipe in (own, shifted)]
    assert shifted.scheduler.sigmas.tolist() == pytest.approx([1, 0.2, 0])
    assert difference(*images) > 0 and pipeline_identity(own) != pipeline_identity(shifted)
    with pytest.raises(SubstituteError, match="shift is -1: it has to be above 0"):
        substitute.load_pipeline(str(tmp_path / "tiny"), shift=-1)
    own.scheduler = DDIMScheduler()
    own.save_pretrained(tmp_path / "without")
    with pytest.raises(SubstituteError, match="DDIMScheduler has no shift of its noise levels"):
        substitute.load_pipeline(str(tmp_path / "without"), shift=2.0)


def test_decoded_latents_are_the_pipelines_image():
    torch.manual_seed(0)
    pipe = flux()
    pipe.set_progress_bar_config(disable=True)
    settings = {
        "prompt": "a photo of a bird",
        "num_inference_steps": 2,
        "height": SIZE,
        "width": SIZE,
        "max_sequence_length": 20,
    }
    image = pipe(**settings, generator=torch.Generator().manual_seed(1)).images[0]
    noise = torch.Generator().manual_seed(1)
    latents = pipe(**settings, generator=noise, output_type="latent").images
    assert math.prod(latents.shape) == 16 * 16
    assert np.array_equal(np.asarray(substitute.decode(pipe, latents)[0]), np.asarray(image))


def test_images_as_the_autoencoder_reconstructs_them():
    """The same as encoding and decoding by hand; as many images, of the same size."""
    pipe = flux()
    pixels = [np.random.default_rng(n).integers(0, 256, (64, 64, 3), dtype=np.uint8) for n in range(3)]
    images = substitute.reconstruct(pipe, [Image.fromarray(array) for array in pixels], batch_size=2)
    with torch.inference_mode():
        x = torch.from_numpy(pixels[2]).permute(2, 0, 1)[None].float() / 127.5 - 1
        decoded = pipe.vae.decode(pipe.vae.encode(x).latent_dist.mean).sample[0]
    wanted = (decoded.clamp(-1, 1).permute(1, 2, 0).numpy() + 1) * 127.5
    assert len(images) == 3 and images[2].size == (64, 64)
    assert np.abs(np.asarray(images[2], float) - wanted).max() <= 1


def test_until_when_all_is_tied():
    assert substitute.T_MAX == {"color": 0.9, "shape": 0.9, "pattern": 0.6}  # section 5
    assert substitute.paper_tie("has_wing_pattern::solid") == (10.0, 0.2, 0.6)
    k, t_min, t_max = substitute.paper_tie("has_wing_color::red", numbers=4 * 4 * 16)  # a is 32
    assert k == 10 and np.isclose(t_min, 0.2 / (32 - 31 * 0.2)) and np.isclose(t_max, 0.9 / (32 - 31 * 0.9))
    # as uncertain: t / (1 - t) / sqrt(numbers)
    assert np.isclose(t_max / (1 - t_max) / 16, 0.9 / 0.1 / (128 * 4))

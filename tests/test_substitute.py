"""Tied Diffusion Guidance on four pipelines with tiny random weights, its prompts, its schedule and its errors."""
import inspect
import math

import numpy as np
import pytest
import torch
from diffusers import (
    AmusedScheduler,
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    VQDiffusionScheduler,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tiny_pipelines import PIPELINES, SIZE, flux

from xaihelpers import substitute
from xaihelpers.substitute import (
    SubstituteError,
    category,
    generate,
    generate_pairs,
    pair_prompts,
    tied_scheduler,
    tied_share,
)

STEPS = 4
PROMPTS = [("a photo of a blue jay with a yellow crown", "a photo of a bird with a yellow crown"), ("a photo of a blue jay with a red breast", "a photo of a bird with a red breast")]


@pytest.fixture(scope="module", params=PIPELINES)
def pipe(request):
    torch.manual_seed(0)
    made = PIPELINES[request.param]()
    for parameter in made.components["transformer" if "transformer" in made.components else "unet"].parameters():  # fresh weights hardly look at their prompt
        torch.nn.init.normal_(parameter, std=0.05)
    made.set_progress_bar_config(disable=True)
    return made


def options(pipe):
    return {"steps": STEPS, "size": SIZE, "output_type": "np"} | ({"use_resolution_binning": False} if "PixArt" in type(pipe).__name__ else {})


def apart(images, others):
    """The largest difference of two lists of images; products of other batches differ by a few units in the last place, which some steps make more."""
    return np.abs(np.stack([np.asarray(image, float) for image in images]) - np.stack([np.asarray(image, float) for image in others])).max()


NOISE = 1e-5


def pairs(pipe, share, prompts=PROMPTS, seeds=(3, 4), **given):
    return generate_pairs(pipe, prompts, seeds, share, **options(pipe), **given)


def test_all_tied_gives_twice_the_same_image(pipe):
    made = pairs(pipe, lambda t: 1.0)
    assert apart(made.references, made.guides) == 0
    assert np.std(made.references[0]) > 0.01  # and not an empty one


def test_nothing_tied_gives_each_its_own_image(pipe):
    made = pairs(pipe, lambda t: 0.0)
    alone = [generate(pipe, [pair[side] for pair in PROMPTS], (3, 4), **options(pipe)) for side in (0, 1)]
    assert apart(made.references, alone[0]) < NOISE and apart(made.guides, alone[1]) < NOISE
    assert apart(made.references, made.guides) > 10 * NOISE  # the prompts do matter


def test_a_pair_does_not_depend_on_its_batch(pipe):
    together, alone = pairs(pipe, tied_share), pairs(pipe, tied_share, PROMPTS[1:], (4,))
    assert apart(together.references[1:], alone.references) < NOISE and apart(together.guides[1:], alone.guides) < NOISE
    assert apart(together.references, pairs(pipe, tied_share, batch_size=2).references) < NOISE


def test_the_tie_is_between_both(pipe):
    tied, free = ([np.abs(a - b).mean() for a, b in zip(made.references, made.guides)] for made in (pairs(pipe, lambda t: 0.9), pairs(pipe, lambda t: 0.0)))
    assert all(0 < a < b for a, b in zip(tied, free))


def test_the_pipeline_is_left_as_it_was(pipe):
    own = pipe.scheduler
    pairs(pipe, tied_share)
    assert pipe.scheduler is own and type(own).__name__.startswith("Tied") is False

    def broken(t):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        pairs(pipe, broken)
    assert pipe.scheduler is own


@pytest.mark.parametrize("scheduler", [FlowMatchEulerDiscreteScheduler, DDIMScheduler, DPMSolverMultistepScheduler, EulerDiscreteScheduler])
def test_schedulers_tie_before_their_step(scheduler):
    own, seen = scheduler(), []
    tied = tied_scheduler(own, lambda t: seen.append(t) or 1.0)
    for each in (own, tied):
        each.set_timesteps(5)
    torch.manual_seed(1)
    predictions, sample = torch.randn(4, 3, 4, 4), torch.randn(2, 3, 4, 4).repeat(2, 1, 1, 1)
    mean = predictions.unflatten(0, (2, 2)).mean(0).repeat(2, 1, 1, 1)
    for each in (own, tied):
        each.scale_model_input(sample, each.timesteps[0]) if hasattr(each, "scale_model_input") else None
    assert torch.allclose(tied.step(predictions, tied.timesteps[0], sample).prev_sample, own.step(mean, own.timesteps[0], sample).prev_sample, atol=1e-6)
    assert inspect.signature(tied.step) == inspect.signature(own.step) and isinstance(tied, scheduler)
    assert seen == [pytest.approx(float(own.timesteps[0]) / 1000)]


def test_the_time_of_flow_matching_is_sigma():
    seen = []
    tied = tied_scheduler(FlowMatchEulerDiscreteScheduler(shift=3.0), lambda t: seen.append(t) or 0.0)
    tied.set_timesteps(6)
    for t in tied.timesteps:
        tied.step(torch.zeros(2, 4), t, torch.zeros(2, 4))
    assert seen == pytest.approx(tied.sigmas[:-1].tolist())


def test_schedule_by_hand():
    assert tied_share(0.95) == tied_share(0.91) == 1 and tied_share(0.9) == 1 and tied_share(0.1) == tied_share(0.2) == 0
    assert tied_share(0.55) == pytest.approx(0.5**10) and tied_share(0.4, 0.2, 0.6, 1.0) == pytest.approx(0.5)
    assert tied_share(0.59, t_max=0.6) == pytest.approx((0.39 / 0.4) ** 10)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 20))
@settings(max_examples=60, deadline=None)
def test_schedule_falls_and_stays_a_share(t, later, k):
    assert 0 <= tied_share(min(t, later), k=k) <= tied_share(max(t, later), k=k) <= 1


def test_trajectory(pipe):
    made = pairs(pipe, tied_share, trajectory=True, batch_size=2)
    assert len(made.trajectory) == 2 and len(made.trajectory[0]) >= STEPS
    first = made.trajectory[0][0]
    assert torch.equal(first.sample[0], first.sample[1]) and first.t > 0.9 and first.share == 1  # one start noise, all tied
    assert torch.equal(first.tied[0], first.tied[1]) and not torch.equal(first.prediction[0], first.prediction[1])
    assert [moment.t for moment in made.trajectory[0]] == sorted((moment.t for moment in made.trajectory[0]), reverse=True)
    pictures = substitute.decode(pipe, made.trajectory[0][-1].sample, SIZE)
    assert len(pictures) == 2 and np.abs(np.asarray(pictures[0]) / 255 - made.references[0]).mean() < 0.15  # a step before the end


def test_one_call():
    torch.manual_seed(0)
    made = substitute.substitute(flux(), "Blue_Jay", "has_crown_color--yellow", n=2, seed=5, steps=2)
    assert made.prompts == 2 * [("a photo of a Blue Jay with a yellow crown", "a photo of a bird with a yellow crown")] and made.seeds == [5, 6]
    assert [image.size for image in made.references + made.guides] == 4 * [(SIZE, SIZE)]


def test_prompts_are_the_papers_three_forms():
    assert pair_prompts("Cardinal", "has_breast_pattern::spotted") == ("a photo of a Cardinal with a spotted breast like a Brown Thrasher", "a photo of a Brown Thrasher with a spotted breast")
    assert pair_prompts("Blue Jay", "has_bill_shape--needle") == ("a photo of a Blue Jay with the body of a Blue Jay and a beak like a Hummingbird", "a photo of a Hummingbird")
    assert pair_prompts("053.Western_Grebe", "has_leg_color::black") == ("a photo of a Western Grebe with black legs", "a photo of a bird with black legs")
    assert pair_prompts("Blue Jay", "has_tail_shape::forked_tail", "Barn_Swallow")[0].endswith("and a tail like a Barn Swallow")
    assert [category(f"has_{group}::x") for group in ("wing_color", "tail_pattern", "bill_shape", "size")] == ["color", "pattern", "shape", "shape"]


def test_pairs_are_checked_against_the_birds(drawn_birds):
    check = substitute.check_pair
    check(drawn_birds, "Blue_Jay", "has_crown_color--yellow", "bird")
    check(drawn_birds, "Blue Jay", "has_bill_shape::needle", "Anna_Hummingbird")
    with pytest.raises(SubstituteError, match="unknown attribute 'has_crown_color::yelow'.*did you mean 'has_crown_color::yellow'"):
        pair_prompts("Blue Jay", "has_crown_color::yelow")
    with pytest.raises(SubstituteError, match="unknown attribute 'yellow crown'.*It is none of CUB's 312"):
        pair_prompts("Blue Jay", "yellow crown")
    with pytest.raises(SubstituteError, match="unknown class 'Bluu Jayy'.*did you mean 'Blue Jay'.*aviary has 48 birds"):
        check(drawn_birds, "Bluu Jayy", "has_crown_color::yellow")
    with pytest.raises(SubstituteError, match="Blue Jay has a blue crown already"):
        check(drawn_birds, "Blue Jay", "has_crown_color::blue")
    with pytest.raises(SubstituteError, match="the guide Mallard has not a needle bill: choose one that has, as .*Hummingbird"):
        substitute.substitute(flux(), "Blue Jay", "has_bill_shape::needle", "Mallard", world=drawn_birds)


def test_prompts_from_a_file_of_ones_own(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text('{"color": {"reference": "{reference}, {attribute}", "guide": "{guide}!"}, "guides": {}}')
    assert pair_prompts("Blue Jay", "has_crown_color::red", forms=file) == ("a Blue Jay, a red crown", "a bird!")
    with pytest.raises(SubstituteError, match="mine.json: no file of prompt forms.*pattern"):
        pair_prompts("Blue Jay", "has_breast_pattern::spotted", forms=file)
    with pytest.raises(SubstituteError, match="nowhere.json"):
        pair_prompts("Blue Jay", "has_crown_color::red", forms=tmp_path / "nowhere.json")


def test_errors_name_the_thing_and_the_remedy():
    made = flux()
    with pytest.raises(SubstituteError, match="has_bill_shape::cone: a shape is taken from a guide bird.*pass guide="):
        pair_prompts("Blue Jay", "has_bill_shape::cone")
    for scheduler in (AmusedScheduler(mask_token_id=3), object()):
        with pytest.raises(SubstituteError, match=f"{type(scheduler).__name__} cannot be tied: its step must take"):
            tied_scheduler(scheduler, tied_share)
    with pytest.raises(SubstituteError, match="VQDiffusionScheduler cannot be tied: it predicts"):
        tied = tied_scheduler(VQDiffusionScheduler(num_vec_classes=5), tied_share)
        tied.step(torch.zeros(2, 4, 4, dtype=torch.long), 1, torch.zeros(2, 4, dtype=torch.long))
    tied = tied_scheduler(DDIMScheduler(), tied_share)
    tied.set_timesteps(2)
    with pytest.raises(SubstituteError, match="the batch has 3 images: pairs are tied"):
        tied.step(torch.zeros(3, 4), tied.timesteps[0], torch.zeros(3, 4))
    with pytest.raises(SubstituteError, match="holds NaN or infinite values: run the pipeline in"):
        tied.step(torch.full((2, 4), torch.nan), tied.timesteps[0], torch.zeros(2, 4))
    with pytest.raises(SubstituteError, match="1 pairs and 2 seeds"):
        generate_pairs(made, PROMPTS[:1], (1, 2), tied_share)
    with pytest.raises(SubstituteError, match=r"has \d+ tokens, but this pipeline's text encoder reads 20"):
        generate(made, ["a photo of " + "a bird with a crown and " * 5], (1,), steps=1)
    made.scheduler = None
    with pytest.raises(SubstituteError, match="FluxPipeline has no scheduler"):
        generate_pairs(made, PROMPTS, (1, 2), tied_share)


def test_loading(tmp_path):
    flux().to(torch.float16).save_pretrained(tmp_path / "tiny")
    pipe = substitute.load_pipeline(str(tmp_path / "tiny"))
    assert type(pipe) is FluxPipeline and pipe.transformer.dtype == torch.float32
    images = generate(pipe, ["a photo of a bird"] * 2, (1, 1), steps=2)
    assert apart(images[:1], images[1:]) == 0
    with pytest.raises(SubstituteError, match="pipeline 'nobody/nothing' could not be loaded.*huggingface-cli download"):
        substitute.load_pipeline("nobody/nothing")
    with pytest.raises(SubstituteError, match="offload must be one of '', 'model', 'sequential', not 'all'"):
        substitute.load_pipeline(str(tmp_path / "tiny"), offload="all")
    with pytest.raises(SubstituteError, match="both are for a GPU"):
        substitute.load_pipeline(str(tmp_path / "tiny"), quantise="4bit")


def test_decoded_latents_are_the_pipelines_image():
    torch.manual_seed(0)
    pipe = flux()
    pipe.set_progress_bar_config(disable=True)
    noise = {"prompt": "a photo of a bird", "num_inference_steps": 2, "height": SIZE, "width": SIZE, "max_sequence_length": 20}
    image = pipe(**noise, generator=torch.Generator().manual_seed(1)).images[0]
    latents = pipe(**noise, generator=torch.Generator().manual_seed(1), output_type="latent").images
    assert np.array_equal(np.asarray(substitute.decode(pipe, latents)[0]), np.asarray(image)) and math.prod(latents.shape) == 16 * 16


def test_images_as_the_autoencoder_restores_them():
    """The same as encoding and decoding by hand; as many images, of the same size."""
    pipe, images = flux(), [Image.fromarray(np.random.default_rng(n).integers(0, 256, (64, 64, 3), dtype=np.uint8)) for n in range(3)]
    found = substitute.restored(pipe, images, batch_size=2)
    with torch.inference_mode():
        x = torch.from_numpy(np.asarray(images[2])).permute(2, 0, 1)[None].float() / 127.5 - 1
        wanted = pipe.vae.decode(pipe.vae.encode(x).latent_dist.mean).sample[0]
    assert len(found) == 3 and found[2].size == (64, 64)
    assert np.abs(np.asarray(found[2], float) - (wanted.clamp(-1, 1).permute(1, 2, 0).numpy() + 1) * 127.5).max() <= 1


def test_what_a_bird_can_take(drawn_birds):
    """It lacks it, and could show it: a blue jay no blue crown but a yellow one, a mallard on the water no black legs."""
    takes = substitute.can_take(drawn_birds)
    names, attributes = [name.split(".")[-1] for name in drawn_birds.classes.name], drawn_birds.attributes.name.tolist()
    of = lambda bird, attribute: bool(takes[names.index(bird), attributes.index(attribute)])  # noqa: E731
    assert takes.shape == (48, 312) and not (takes & substitute.class_has(drawn_birds)).any()
    assert of("Blue_Jay", "has_crown_color::yellow") and not of("Blue_Jay", "has_crown_color::blue")
    assert of("Blue_Jay", "has_leg_color::pink") and not of("Gadwall", "has_leg_color::black")

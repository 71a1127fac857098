"""The recipes of the shipped weights: a tiny run of each script, killed and gone on with."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from recipes import annotator, backbone, clip, flux
from recipes.flux_training.substituted_cases import substituted_case
from worlds import aviary, studio
from xaihelpers import training
from xaihelpers.models import load_backbone
from xaihelpers.models.clip import load_clip
from xaihelpers.training import train


def killed_at(call, function):
    """A function that is interrupted at its call of this number."""
    calls = []

    def killed(*arguments, **named):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return function(*arguments, **named)

    return killed


@pytest.fixture
def red_and_blue(tmp_path):
    """Folders by class: five red pictures and five blue ones."""
    rng = np.random.default_rng(0)
    for channel, name in ((0, "red"), (2, "blue")):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(5):
            pixels = rng.integers(0, 100, (64, 64, 3), dtype=np.uint8)
            pixels[..., channel] += 150
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{number}.png")
    return str(tmp_path / "pictures")


def test_a_backbone_of_a_folder_of_one_s_own(red_and_blue, tmp_path, monkeypatch):
    """Killed in the last pass and begun again, it ends with the very weights of a run in one piece."""
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    options = ["--data", red_and_blue, "--epochs", "2", "--size", "32", "--final-epochs", "2"]

    def make(folder):
        return backbone.make_backbone(backbone.options().parse_args([*options, "--save", str(folder)]))

    whole = make(tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(backbone, "train_epoch", killed_at(4, backbone.train_epoch))
        make(tmp_path / "killed")
    assert not list((tmp_path / "killed").glob("*.safetensors"))
    with monkeypatch.context() as patch:
        patch.setattr(backbone, "train_epoch", killed_at(2, backbone.train_epoch))  # one pass is left
        again = make(tmp_path / "killed")
    assert again.read_bytes() == whole.read_bytes()
    card = json.loads(whole.with_suffix(".json").read_text())
    assert card["trained on"] == "pictures, training split, 6 images" and card["test accuracy"]["images"] == 4
    assert load_backbone("aviary_resnet", str(whole)).n_classes == 2


def test_a_clip_goes_on_after_a_kill(tmp_path, monkeypatch):
    """The stages that were done are not done again; both forms are written, each with its card."""
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    aviary.ensure("few_birds", images_per_class=2, jobs=1)
    settings = ["--data", "few_birds", "--drawn", "4", "--batch-size", "8", "--attribute-steps", "2"]
    settings += ["--caption-steps", "2", "--joint-steps", "1", "--long-steps", "1"]
    settings = clip.options().parse_args([*settings, "--save", str(tmp_path / "made")])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(clip, "train", killed_at(4, train))  # the stage of long texts
        clip.make_clip(settings)
    monkeypatch.setattr(clip, "attribute_loss", killed_at(1, None))
    plain, long = clip.make_clip(settings)
    assert load_clip(str(plain)).context == 77 and load_clip(str(long)).context == 248
    card = json.loads((tmp_path / "made" / "aviary_clip_long.json").read_text())
    assert card["steps"] == {"attributes": 2, "captions": 2, "both towers": 1, "long texts": 1}
    assert 0 <= card["test accuracy"]["percent"] <= 100


def test_an_annotator_and_a_judge_go_on_after_a_kill(tmp_path, monkeypatch):
    """Killed in the judge's stage and begun again, they end with the very weights of a run in one piece."""
    sizes = {"birds": 12, "substituted": 6, "ordinary": 60, "things": 40, "n-test": 2, "networks": 2}
    sizes |= {"eye-steps": 2, "close-steps": 2, "judge-steps": 3}
    options = [part for name, size in sizes.items() for part in (f"--{name}", str(size))]
    monkeypatch.setattr(annotator, "CASES", {"eye": 6, "close": 6, "judge": 4})
    monkeypatch.setattr(annotator, "write_cards", lambda *_, **__: None)  # held-out pictures take minutes
    monkeypatch.setattr(training, "KEEP_EVERY", 1)

    def make(folder):
        settings = annotator.options().parse_args([*options, "--device", "cpu", "--save", str(folder)])
        return [load_file(made / "eye.safetensors") for made in annotator.make_annotator(settings)]

    whole = make(tmp_path / "whole")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(annotator, "judge_loss", killed_at(3, annotator.judge_loss))
        make(tmp_path / "killed")
    monkeypatch.setattr(annotator, "eye_loss", killed_at(1, None))
    for one, other in zip(whole, make(tmp_path / "killed"), strict=True):
        assert set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


def test_a_pipeline_and_its_reader_and_how_it_goes_on(tmp_path, monkeypatch):
    """Killed in the reader's stage and begun again; then trained on, by captions that name what deviates."""
    sizes = "--drawn 24 --changed 8 --batch-size 8 --n-test 1 --device cpu".split()
    steps = "--autoencoder-steps 1 1 --flow-steps 1 1 1 --guidance-steps 1 --reader-steps 1 1".split()
    settings = flux.options().parse_args([*sizes, *steps, "--save", str(tmp_path)])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(flux, "train", killed_at(7, train))
        flux.make_flux(settings)
    monkeypatch.setattr(flux, "flow_loss", killed_at(1, None))
    folder, reader = flux.make_flux(settings)
    assert load_file(reader) and json.loads(reader.with_suffix(".json").read_text())["steps"] == 2
    monkeypatch.undo()
    further = ["--start", str(folder), "--reader", str(reader), "--further-steps", "1", "1"]
    settings = flux.options().parse_args([*sizes, *further, "--save", str(tmp_path / "further")])
    before = (folder / "transformer/diffusion_pytorch_model.safetensors").read_bytes()
    after = flux.go_on(settings) / "transformer/diffusion_pytorch_model.safetensors"
    assert after.read_bytes() != before


def test_a_case_has_an_attribute_of_its_own_replaced_by_another_s():
    """The species has the one and not the other, of one group, and the portraits tell them apart."""
    usual, groups = studio.studio_shows(), [name.split("::")[0] for name in aviary.ATTRIBUTES]
    for number in range(4):
        case = substituted_case(1, number, "pattern")
        assert usual[case.species, case.own] and not usual[case.species, case.others]
        assert groups[case.own] == groups[case.others]
        assert np.any(np.asarray(case.before) != np.asarray(case.after))

"""Where a local model's weights go: the arithmetic by hand, and models that do not fit."""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from rehearsal import language_models

from xaihelpers import ask
from xaihelpers.ask import local_model, placement

GB = 10**9


def test_a_model_lies_on_one_device_where_it_fits():
    assert placement.place("m", 10 * GB, {0: 12 * GB, 1: 80 * GB}).split == {}
    assert placement.place("m", 10 * GB, {"cpu": 12 * GB}).split == {}


def test_a_model_too_large_for_one_gpu_is_spread_with_room_to_work_on_each():
    split = placement.place("m", 180 * GB, {0: 78 * GB, 1: 80 * GB, 2: 80 * GB}).split
    assert split["device_map"] == "auto" and list(split["max_memory"]) == [0, 1, 2]
    assert (
        split["max_memory"][0] == pytest.approx(78 * GB / 1.15)
        and sum(split["max_memory"].values()) > 180 * GB
    )


def test_a_model_that_does_not_fit_says_by_how_much():
    with pytest.raises(
        ask.AskError, match=r"'m' does not fit: 180 GB .* need 207 GB .* 2 GPU.*, 160 GB are free, 47"
    ):
        placement.place("m", 180 * GB, {0: 80 * GB, 1: 80 * GB})
    with pytest.raises(
        ask.AskError, match="this machine's memory, 8 GB are free, 3.5 GB too few.*server:NAME"
    ):
        placement.place("m", 10 * GB, {"cpu": 8 * GB})


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "qwen"
    language_models.write_qwen2_vl(folder)
    return folder


def test_weights_are_counted_from_the_configuration(qwen):
    config = transformers.AutoConfig.from_pretrained(qwen)
    counted = placement.weight_bytes(transformers.AutoModelForImageTextToText, config, torch.bfloat16)
    on_disk = sum(weight.numel() for weight in ask.load_vlm(str(qwen)).model.parameters())
    assert counted == pytest.approx(2 * on_disk, rel=0.02)  # and a few buffers


def test_nothing_is_read_of_a_model_that_does_not_fit(qwen, monkeypatch):
    monkeypatch.setattr(local_model, "free_memory", lambda device: {"cpu": 1000})
    monkeypatch.setattr(transformers.AutoModelForImageTextToText, "from_pretrained", None)
    with pytest.raises(ask.AskError, match="does not fit.*GB too few"):
        ask.load_vlm(str(qwen))


def test_a_model_placed_by_a_map_of_devices_answers_alike(qwen, monkeypatch):
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8))
    asked = [ask.request("what is this bird", picture, "ABC", max_tokens=6)]
    (whole,) = dict(ask.load_vlm(str(qwen)).answer(asked, 0, 0.0)).values()
    by_map = placement.Placement(0, {"device_map": {"": "cpu"}})
    monkeypatch.setattr(local_model, "place", lambda *given: by_map)
    (spread,) = dict(ask.load_vlm(str(qwen)).answer(asked, 0, 0.0)).values()
    assert (spread.text, spread.probabilities) == (whole.text, whole.probabilities)


def test_a_model_is_released_before_the_next_is_loaded(qwen, monkeypatch):
    model_of = ask.vlm_loader("cpu", batch_size=3)
    first = model_of(str(qwen))
    assert first.batch_size == 3
    held = []
    load = local_model.LocalModel._load

    def watched(self, *given):
        held.append(first.model)
        return load(self, *given)

    monkeypatch.setattr(local_model.LocalModel, "_load", watched)
    model_of("annotator")
    assert held == [None]

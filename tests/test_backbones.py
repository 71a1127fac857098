"""Backbones: names, weights, preprocessing, last maps, and features that are computed once."""
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from xaihelpers import paths
from xaihelpers.backbones import BackboneError, aviary_resnet, embed, feature_maps, load_backbone, new_backbone, save_weights
from xaihelpers.backbones import features as features_module
from xaihelpers.backbones.networks import build_network, preprocessing
from xaihelpers.store.shards import claim, shard_folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of random weights per network."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    torch.save({"state_dict": build_network("torchvision", "resnet18", 7).state_dict()}, folder / "resnet18.pth")
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
    sizes, forward = [], features_module._forward

    def counting(backbone, device, pixels, maps):
        sizes.append(len(pixels))
        return forward(backbone, device, pixels, maps)

    monkeypatch.setattr(features_module, "_forward", counting)
    return sizes


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_shipped_network(backbone):
    assert (backbone.n_features, backbone.map_size, backbone.n_classes) == (256, (7, 7), 6)
    maps, logits = feature_maps(backbone, torch.randn(2, 3, 224, 224))
    assert maps.shape == (2, 256, 7, 7) and logits.shape == (2, 6)
    assert not backbone.model.training
    assert torch.allclose(backbone.model.fc(maps.mean((2, 3))), logits, atol=1e-5)  # the head sees the pooled maps


def test_shipped_weights_absent(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "models_home", lambda: tmp_path)
    with pytest.raises(BackboneError, match="aviary_resnet.safetensors.*[Nn]otebook 91"):
        load_backbone("aviary_resnet")


@pytest.mark.parametrize(("name", "file", "expected"), [
    ("resnet18", "resnet18.pth", ("avgpool:input", 512, (7, 7), 7)),
    ("torchvision/densenet121", "densenet121.safetensors", ("features", 1024, (7, 7), 3)),
    ("timm/resnet10t", "resnet10t.safetensors", ("forward_features", 512, (6, 6), 5)),
])
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
    default, named, middle = (load_backbone("squeezenet1_0", file, layer) for layer in ("", "classifier.0:input", "features.7"))
    inputs = torch.randn(1, 3, 224, 224)
    assert torch.equal(feature_maps(default, inputs)[0], feature_maps(named, inputs)[0])
    assert middle.map_size == (27, 27) and middle.identity != default.identity
    with pytest.raises(BackboneError, match="no layer 'feature'.*features"):
        load_backbone("squeezenet1_0", file, "feature")
    with pytest.raises(BackboneError, match=r"'classifier' gives \(1, 7, 1, 1\), but maps"):
        load_backbone("squeezenet1_0", file, "classifier")


def test_pytorchcv(tmp_path):
    pytest.importorskip("pytorchcv", reason="pytorchcv is not installed")
    save_weights(build_network("pytorchcv", "resnet18_cub"), tmp_path / "cub.safetensors")
    backbone = load_backbone("resnet18_cub", str(tmp_path / "cub.safetensors"))
    assert (backbone.n_features, backbone.map_size, backbone.n_classes) == (512, (7, 7), 200)
    assert (backbone.resize, backbone.crop) == (256, 224)


def test_unknown_names():
    with pytest.raises(BackboneError, match="resnt18.*resnet18"):
        load_backbone("resnt18")
    with pytest.raises(BackboneError, match="in torchvision.*squeezenet1_0"):
        load_backbone("torchvision/squeezenet10")


def test_wrong_weights(weights, tmp_path):
    with pytest.raises(BackboneError, match=r"not the weights of resnet18: \d+ missing \(first: conv1.weight\), \d+ unexp"):
        load_backbone("resnet18", str(weights / "aviary_resnet.safetensors"))
    with pytest.raises(BackboneError, match="absent.safetensors: there is no such weights file"):
        load_backbone("resnet18", str(tmp_path / "absent.safetensors"))
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((weights / "aviary_resnet.safetensors").read_bytes()[:-100])
    with pytest.raises(BackboneError, match="cut.safetensors: cannot be read as weights"):
        load_backbone("aviary_resnet", str(cut))
    torch.save(Image.new("RGB", (1, 1)), tmp_path / "code.pth")  # a pickle of something else than tensors
    with pytest.raises(BackboneError, match="code.pth: cannot be read as weights .it holds more than tensors"):
        load_backbone("resnet18", str(tmp_path / "code.pth"))


def test_published_weights_without_a_connection(monkeypatch, tmp_path):
    def refuse(*arguments, **options):
        raise OSError("no connection")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("torch.hub.download_url_to_file", refuse)
    with pytest.raises(BackboneError, match=r"no connection.*download https.*resnet18.*pth to .*checkpoints, or pass"):
        load_backbone("resnet18")


def test_building_leaves_the_random_state_alone(weights):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    load_backbone("aviary_resnet", str(weights / "aviary_resnet.safetensors"))
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_gpu_demanded_but_absent(backbone, images):
    with pytest.raises(BackboneError, match="no GPU"):
        embed(backbone, images, "cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_mixed_precision_on_gpu(weights, images):
    file = str(weights / "aviary_resnet.safetensors")
    slow = embed(load_backbone("aviary_resnet", file), images)
    fast = embed(load_backbone("aviary_resnet", file, device="cuda"), images)
    assert fast.maps.dtype == torch.float32 and fast.maps.device.type == "cpu"
    for one, other in zip(slow, fast, strict=True):  # float16 keeps 11 bits
        assert torch.allclose(one, other, rtol=2e-2, atol=5e-3 * one.abs().max())


def test_cached_equals_fresh(backbone, images, forwarded, capsys):
    fresh = embed(backbone, images, batch_size=4)
    assert "features: 0 from the cache, 10 computed" in capsys.readouterr().out
    again = embed(backbone, images, batch_size=3)
    assert "features: 10 from the cache, 0 computed" in capsys.readouterr().out
    assert sum(forwarded) == 10 and same(fresh, again)
    assert all(tensor.dtype == torch.float32 for tensor in fresh)
    assert torch.allclose(fresh.pooled, fresh.maps.mean((2, 3)), atol=1e-6)
    part = embed(backbone, images[7:2:-2])  # another order, some of them
    assert sum(forwarded) == 10 and torch.equal(part.maps, fresh.maps[[7, 5, 3]])
    maps, logits = feature_maps(backbone, backbone.preprocess(Image.open(images[2]))[None])  # and they are the network's
    assert torch.allclose(fresh.maps[2], maps[0], atol=1e-4) and torch.allclose(fresh.logits[2], logits[0], atol=1e-4)


def test_without_maps(backbone, images, forwarded):
    lean = embed(backbone, images, maps=False)
    assert lean.maps is None
    full = embed(backbone, images)  # the maps were not kept: computed now
    assert sum(forwarded) == 20 and torch.allclose(lean.pooled, full.pooled, atol=1e-6)
    embed(backbone, images, maps=False)
    assert sum(forwarded) == 20


def test_same_content_is_embedded_once(backbone, images, forwarded, tmp_path, capsys):
    copy = tmp_path / "copy.png"
    copy.write_bytes(images[0].read_bytes())
    result = embed(backbone, [images[0], images[1], copy, images[0]])
    assert forwarded == [2] and result.maps.shape[0] == 4
    assert torch.equal(result.maps[0], result.maps[2]) and torch.equal(result.logits[0], result.logits[3])
    assert "2 of 4 files repeat" in capsys.readouterr().out


def test_other_weights_are_other_features(backbone, images, forwarded, tmp_path):
    embed(backbone, images[:2])
    torch.manual_seed(1)
    save_weights(aviary_resnet(6), tmp_path / "other.safetensors")
    embed(load_backbone("aviary_resnet", str(tmp_path / "other.safetensors")), images[:2])
    assert sum(forwarded) == 4


def test_interrupted_run_goes_on(backbone, images, forwarded, monkeypatch):
    counting = features_module._forward

    def interrupted(*arguments):
        if len(forwarded) == 2:
            raise KeyboardInterrupt
        return counting(*arguments)

    monkeypatch.setattr(features_module, "_forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        embed(backbone, images, batch_size=2)
    before = sum(forwarded)
    assert 0 < before < 10
    monkeypatch.setattr(features_module, "_forward", counting)
    embed(backbone, images, batch_size=2)
    assert sum(forwarded) == 10


def test_killed_process_leaves_whole_shards_and_no_lock(weights, backbone, images, forwarded, cache):
    program = f"""
import os
from pathlib import Path
from xaihelpers import paths
from xaihelpers.backbones import embed, load_backbone, features
paths.cache_home = lambda: Path({str(cache.parent)!r})
forward, calls = features._forward, []
def killed(*arguments):
    calls.append(1)
    if len(calls) == 3:
        os._exit(9)
    return forward(*arguments)
features._forward = killed
backbone = load_backbone("aviary_resnet", {str(weights / "aviary_resnet.safetensors")!r})
embed(backbone, {[str(file) for file in images]!r}, batch_size=2)
"""
    assert subprocess.run([sys.executable, "-c", program], cwd=paths.PROJECT, timeout=120).returncode == 9
    embed(backbone, images, batch_size=2)
    assert 0 < sum(forwarded) < 10


def test_waits_for_another_process_and_takes_what_it_wrote(backbone, images, forwarded, cache):
    fresh = embed(backbone, images)
    (folder,) = cache.iterdir()
    aside = cache / "aside"
    aside.mkdir()
    for shard in folder.glob("*.safetensors"):
        shard.rename(aside / shard.name)
    held = [claim(folder, part, wait=False) for part in "0123456789abcdef"]  # the other process at work
    assert claim(folder, "0", wait=False) is None
    results = []
    waiting = threading.Thread(target=lambda: results.append(embed(backbone, images)))
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
def test_damaged_shard_is_computed_again(backbone, images, forwarded, cache, capsys, damage):
    fresh = embed(backbone, images, batch_size=16)
    (shard,) = cache.glob("*/*.safetensors")
    content = bytearray(shard.read_bytes())
    content[-5000] ^= 64
    shard.write_bytes({"cut": content[:-50], "flipped": content, "emptied": b""}[damage])
    again = embed(backbone, images, batch_size=16)
    assert "damaged cache file" in capsys.readouterr().out
    assert sum(forwarded) == 20 and same(fresh, again)
    embed(backbone, images)
    assert sum(forwarded) == 20


def test_full_disk_costs_the_cache_not_the_result(backbone, images, forwarded, monkeypatch, capsys):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("xaihelpers.store.rows.write_shard", full)
        result = embed(backbone, images, batch_size=2)
    printed = capsys.readouterr().out
    assert printed.count("No space left on device") == 1 and "XAI_DATA" in printed
    assert same(result, embed(backbone, images, batch_size=2))


def test_cache_folder_that_cannot_be_made(backbone, images, cache, capsys):
    cache.parent.write_text("a file where the folder should be")
    assert embed(backbone, images[:2]).maps.shape == (2, 256, 7, 7)
    assert "cannot be written" in capsys.readouterr().out


def test_unreadable_image_is_named_and_the_rest_kept(backbone, images, forwarded, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image at all")
    with pytest.raises(ValueError, match="broken.jpg"):
        embed(backbone, [*images, broken], batch_size=2)
    kept = sum(forwarded)
    embed(backbone, images, batch_size=2)
    assert sum(forwarded) == 10 and kept > 0
    with pytest.raises(BackboneError, match="nowhere.png: image file cannot be read"):
        embed(backbone, [tmp_path / "nowhere.png"])
    with pytest.raises(BackboneError, match="at least one image"):
        embed(backbone, [])


def test_nan_features_name_the_image(backbone, images, forwarded, monkeypatch):
    counting, normalised = features_module._forward, type(backbone).normalised
    target = torch.from_numpy(np.array(backbone.cropped(Image.open(images[4])))).permute(2, 0, 1)

    def poisoned(self, pixels):
        inputs = normalised(self, pixels)
        inputs[(pixels == target).flatten(1).all(1)] = torch.nan
        return inputs

    with monkeypatch.context() as patched:
        patched.setattr(type(backbone), "normalised", poisoned)
        with pytest.raises(BackboneError, match="4.png: aviary_resnet gives NaN or infinite features for 1 of 10"):
            embed(backbone, images)
    assert counting is features_module._forward
    embed(backbone, images)
    assert forwarded == [10, 1]  # the nine good ones were kept


def test_folder_belongs_to_one_identity(cache):
    assert shard_folder("a", "x") != shard_folder("a", "y") and shard_folder("a", "x").is_dir()


def test_squash_preprocessing():
    model = build_network("timm", "resnet10t")
    model.pretrained_cfg = {**model.pretrained_cfg, "crop_mode": "squash", "crop_pct": 1.0}
    assert preprocessing("timm", "resnet10t", model)["resize"] == (176, 176)


def test_real_squeezenet(real_data):
    """ImageNet weights on ImageNet images: most of the first guesses are right (61 % on a thousand such images)."""
    backbone = load_backbone("squeezenet1_0", str(real_data("weights/squeezenet1_0_imagenet.safetensors")))
    assert (backbone.n_features, backbone.map_size, backbone.n_classes, backbone.layer) == (512, (13, 13), 1000, "features")
    files = sorted(real_data("images/imagenet_samples").iterdir())  # one image of each class, in the order of the classes
    assert len(files) == 1000
    chosen = list(range(0, 1000, 50))
    found = embed(backbone, [files[number] for number in chosen])
    assert (found.logits.argmax(1) == torch.tensor(chosen)).float().mean() > 0.5


def test_a_backbone_to_train_starts_from_all_but_the_head(weights):
    start = weights / "squeezenet1_0.safetensors"  # of 7 classes
    backbone = new_backbone("squeezenet1_0", 4, str(start))
    given, own = load_backbone("squeezenet1_0", start).model.state_dict(), backbone.model.state_dict()
    assert backbone.n_classes == 4 and all(p.requires_grad for p in backbone.model.parameters())
    same = {key for key in own if own[key].shape == given[key].shape and torch.equal(own[key], given[key])}
    assert set(own) - same == {"classifier.1.weight", "classifier.1.bias"}
    fresh = new_backbone("squeezenet1_0", 4)
    assert not torch.equal(fresh.model.state_dict()["features.0.weight"], given["features.0.weight"])
    with pytest.raises(BackboneError, match="no such weights file"):
        new_backbone("squeezenet1_0", 4, "nowhere.safetensors")

import json

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from xaihelpers import attend, objects
from xaihelpers.attend import AttendError
from xaihelpers.backbones import BackboneError


def pictures_in(folder, count=3, mode="RGB", suffix="png", seed=0):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    shape = {"L": (40, 50), "RGB": (40, 50, 3), "RGBA": (40, 50, 4)}[mode]
    for n in range(count):
        Image.fromarray(rng.integers(0, 255, shape, dtype=np.uint8), mode).save(folder / f"{n}.{suffix}")


def test_a_folder_of_images_without_labels(tmp_path):
    pictures_in(tmp_path / "mine")
    found = attend.load_pictures(str(tmp_path / "mine"))
    assert len(found.images) == 3 and set(found.images.label) == {-1} and not found.images.train.any() and len(found.classes) == 0
    assert attend.object_masks(None, found, [0]) is None
    with pytest.raises(objects.ObjectsError, match="There is no data set"):
        attend.load_pictures(str(tmp_path / "nowhere"))


def test_grey_and_rgba_images_are_read(tmp_path):
    from xaihelpers import backbones

    for n, mode in enumerate(("L", "RGB", "RGBA")):
        pictures_in(tmp_path / mode, 1, mode, seed=n)
    network = attend.load_watched("aviary_resnet")
    pixels = backbones.read_pixels(network, [tmp_path / mode / "0.png" for mode in ("L", "RGB", "RGBA")])
    assert pixels.shape == (3, 3, 224, 224) and attend.attend(network, network.normalised(pixels)).maps.shape == (3, 7, 7)
    (tmp_path / "broken.png").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="broken.png"):
        backbones.read_pixels(network, [tmp_path / "broken.png"])


def test_labels_and_classes_of_another_vocabulary(tmp_path):
    names = ["tabby", "Siamese cat", "beagle", "pug", "Great Dane"]
    assert attend.classes_of_labels(names, ["beagle", "siamese_cat"]) == {"beagle": {2}, "siamese_cat": {1}}
    with pytest.raises(AttendError, match="the label 'cat' is none of the network's 5 classes .tabby"):
        attend.classes_of_labels(names, ["cat"])
    file = tmp_path / "pets.json"
    file.write_text(json.dumps({"cat": ["tabby", 1], "dog": "2-4", "pug": ["beagle"]}))
    assert attend.classes_of_labels(names, ["cat", "dog", "pug"], file) == {"cat": {0, 1}, "dog": {2, 3, 4}, "pug": {2, 3}}
    assert attend.classes_of_labels(["cat", "dog"], ["cat"], "") == {"cat": {0}}
    for content, message in (("[1]", "no file of labels"), ('{"cat": ["tabby", "Siamse cat"]}', "'Siamse cat', given for the label 'cat', is none"), ('{"cat": "3-9"}', "'3-9', given for the label 'cat'")):
        file.write_text(content)
        with pytest.raises(AttendError, match=message):
            attend.classes_of_labels(names, ["cat"], file)


def test_names_of_classes(drawn_birds):
    network, pictures = attend.load_watched("aviary_resnet"), attend.load_pictures("aviary")
    assert attend.class_names(network, pictures) == pictures.classes.name.tolist()
    two = objects.Objects(pictures.root, pictures.images, pictures.classes.head(2))
    with pytest.raises(AttendError, match=f"{network.n_classes} classes, whose names are not known: the data have 2"):
        attend.class_names(network, two)
    assert attend.class_names(attend.watched("mine", torch.nn.Sequential(torch.nn.Conv2d(3, 1000, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()), 32, "mine"), two)[:2] == ["tench", "goldfish"]


def test_segmenters_from_a_file(tmp_path):
    import torchvision
    from safetensors.torch import save_file

    assert "lraspp_mobilenet_v3_large" in attend.segmenters()
    torch.manual_seed(0)
    model = torchvision.models.get_model("lraspp_mobilenet_v3_large", weights=None, weights_backbone=None, num_classes=21)
    save_file(model.state_dict(), tmp_path / "seg.safetensors")
    network = attend.load_watched("torchvision/lraspp_mobilenet_v3_large", str(tmp_path / "seg.safetensors"), size=64)
    assert network.n_classes == 21 and attend.class_names(network, objects.Objects(tmp_path, pd.DataFrame(), pd.DataFrame({"name": ["x"] * 21})))[15] == "person" and network.crop == 64
    assert attend.attend(network, torch.randn(1, 3, 64, 64)).maps.shape[0] == 1
    other = torchvision.models.get_model("lraspp_mobilenet_v3_large", weights=None, weights_backbone=None, num_classes=3)
    save_file(other.state_dict(), tmp_path / "other.safetensors")
    with pytest.raises(BackboneError, match="these are not the weights of lraspp"):
        attend.load_watched("lraspp_mobilenet_v3_large", str(tmp_path / "other.safetensors"))


def test_masks_lie_where_the_network_looks(drawn_birds):
    pictures = attend.load_pictures("aviary")
    network = attend.load_watched("aviary_resnet")
    masks = attend.object_masks(network, pictures, [0, 5])
    assert masks.shape == (2, 224, 224) and masks.dtype == torch.uint8 and 0 < (masks > 0).float().mean() < 0.8
    assert int(masks.max()) <= len(attend.part_names(pictures))


def test_a_clip_as_classifier(drawn_birds):
    from xaihelpers import backbones

    pictures = attend.load_pictures("aviary")
    network = attend.load_watched("clip/aviary_clip", pictures=pictures)
    rows = np.flatnonzero(~pictures.images.train)[:40]
    inputs = network.normalised(backbones.read_pixels(network, pictures.images.path.iloc[rows].tolist()))
    found = attend.attend(network, inputs)
    assert network.n_classes == 48 and not found.constant.all()
    assert (found.classes.numpy() == pictures.images.label.iloc[rows]).mean() > 0.5  # chance is a 48th
    few = objects.Objects(pictures.root, pictures.images.assign(train=False), pictures.classes)
    with pytest.raises(AttendError, match="images of 0 of its 48 classes"):
        attend.clip_probe("aviary_clip", few)


def test_a_vision_transformer_by_name(tmp_path):
    """timm's vision transformer has no maps to average, and is watched all the same: at the norm before its last attention."""
    import timm

    from xaihelpers.backbones.weights import save_weights

    file = save_weights(timm.create_model("vit_tiny_patch16_224", num_classes=7), tmp_path / "vit.safetensors")
    network = attend.load_watched("timm/vit_tiny_patch16_224", file)
    assert (network.n_classes, network.crop, network.layer) == (7, 224, "blocks.11.norm1") and network.mean == (0.5, 0.5, 0.5)
    pixels = torch.zeros(2, 3, 224, 224, dtype=torch.uint8)
    assert attend.attend(network, network.normalised(pixels)).maps.shape == (2, 14, 14)

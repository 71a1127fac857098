"""Networks to be explained, their layers, and the names of their classes."""

import dataclasses
import json
import shutil
import unicodedata

import numpy as np
import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file

from xaihelpers import datasets, models, paths, saliency
from xaihelpers.datasets.folders import make_dataset
from xaihelpers.models import ModelError
from xaihelpers.models.image_network import as_target
from xaihelpers.models.weights import save_weights
from xaihelpers.names import CLIP_FILE as CONFIG_FILE


def test_labels_and_classes_of_another_vocabulary(tmp_path):
    names = ["tabby", "Siamese cat", "beagle", "pug", "Great Dane"]
    assert models.match_labels(names, ["beagle", "siamese_cat"]) == {"beagle": {2}, "siamese_cat": {1}}
    assert models.match_labels(names, ["cat"]) == {"cat": set()}
    file = tmp_path / "pets.json"
    file.write_text(json.dumps({"cat": ["tabby", 1], "pug": "2-3"}))
    assert models.match_labels(names, ["cat", "pug"], file) == {"cat": {0, 1}, "pug": {2, 3}}
    file.write_text('{"cat": ["tabby", "Siamse cat"]}')
    with pytest.raises(ModelError, match="'Siamse cat', given for the label 'cat', is none of"):
        models.match_labels(names, ["cat"], file)


def test_names_of_classes(drawn_birds):
    network, data = models.load_backbone("aviary_resnet"), datasets.load("aviary")
    assert models.target_class_names(network, data) == data.class_names
    two = datasets.Dataset(data.root, data.images[data.images.label < 2], data.classes.head(2))
    message = f"{network.n_classes} classes, whose names are not known: the data have 2"
    with pytest.raises(ModelError, match=message):
        models.target_class_names(dataclasses.replace(network, class_names=None), two)
    pooled = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 1000, 3), *pooled)
    thousand = as_target("mine", model, 32, "mine", layer="0")
    assert models.target_class_names(thousand, two)[:2] == ["tench", "goldfish"]


@pytest.fixture(scope="module")
def species(drawn_birds):
    """The shipped network, and four pictures of each of its species by name."""
    data = datasets.load("aviary")
    test = data.images[~data.images.train].groupby("label").head(4)
    files = {name: test.path[test.label == label].tolist() for label, name in enumerate(data.class_names)}
    return models.load_backbone("aviary_resnet"), files


def folders(root, files, called):
    """Class folders of pictures: `called` gives the folder of each species."""
    for name, pictures in files.items():
        for split, some in {"train": pictures[:2], "test": pictures[2:]}.items():
            (root / split / called(name)).mkdir(parents=True)
            for picture in some:
                shutil.copy(picture, root / split / called(name))
    return datasets.load(str(root))


def share_right(network, data, outputs):
    logits = models.extract_features(network, data.images.path.tolist(), maps=False).logits
    return (logits[:, outputs].argmax(1) == data.labels).float().mean()


def test_classes_are_matched_by_name_in_any_order(species, tmp_path):
    network, files = species
    data = folders(tmp_path / "own", files, lambda name: name)
    assert data.class_names != network.class_names  # another order
    assert share_right(network, data, models.class_outputs(network, data)) > 0.85
    accented = {f"Père {name}": pictures for name, pictures in list(files.items())[:3]}
    composed = dataclasses.replace(network, class_names=list(accented), n_classes=3)
    data = folders(tmp_path / "mac", accented, lambda name: unicodedata.normalize("NFD", name))
    expected = [list(accented).index(unicodedata.normalize("NFC", name)) for name in data.class_names]
    assert models.class_outputs(composed, data).tolist() == expected


def test_an_order_without_names_is_held_against_the_predictions(species, tmp_path):
    network, files = species
    for order in (range(48), range(47, -1, -1)):
        called = {name: f"{number:02d}" for name, number in zip(network.class_names, order, strict=True)}
        data = folders(tmp_path / f"from {order[0]}", files, called.__getitem__)
        if order[0] == 0:
            assert models.class_outputs(network, data).tolist() == list(range(48))
            continue
        with pytest.raises(ModelError, match="no names are known of its 48 outputs.*class_names"):
            models.class_outputs(network, data)


def test_names_of_classes_from_a_file(drawn_birds, tmp_path):
    """They stand above those of the data and of ImageNet, for a checkpoint's classes may be others."""
    network, data = models.load_backbone("aviary_resnet"), datasets.load("aviary")
    file, own = tmp_path / "names.txt", [f"kind {k}" for k in range(network.n_classes)]
    file.write_text("\n".join(own) + "\n\n")
    assert models.target_class_names(network, data, file) == own
    file.write_text("\n".join(f"{k}. {name}" for k, name in enumerate(own)))
    assert models.target_class_names(network, data, file) == own
    file.write_text("\n".join(own[:-1]))
    message = f"names.txt has {len(own) - 1} class names, aviary_resnet has {len(own)} classes"
    with pytest.raises(ModelError, match=message):
        models.target_class_names(network, data, str(file))
    file.write_text("\n".join(["a", *own[2:], "A"]))
    with pytest.raises(ValueError, match="'a' and 'A' would be one and the same"):
        models.target_class_names(network, data, file)


def test_segmenters_from_a_file(tmp_path, drawn_birds):
    assert "lraspp_mobilenet_v3_large" in models.segmenters()
    torch.manual_seed(0)
    for n_classes in (3, 21):
        model = torchvision.models.get_model(
            "lraspp_mobilenet_v3_large", weights=None, weights_backbone=None, num_classes=n_classes
        )
        save_file(model.state_dict(), tmp_path / f"{n_classes}.safetensors")
    file = str(tmp_path / "21.safetensors")
    network = models.load_backbone("torchvision/lraspp_mobilenet_v3_large", file, size=64)
    assert (network.n_classes, network.crop) == (21, 64)
    with pytest.raises(ModelError, match="is a segmenter"):
        models.extract_features(network, datasets.load("aviary").images.path[:1])
    data = make_dataset(tmp_path, [], list(map(str, range(21))))
    assert models.target_class_names(network, data)[15] == "person"
    assert saliency.attention_maps(network, torch.randn(1, 3, 64, 64)).maps.shape[0] == 1
    with pytest.raises(ModelError, match="these are not the weights of lraspp"):
        models.load_backbone("lraspp_mobilenet_v3_large", str(tmp_path / "3.safetensors"))


def test_a_clip_as_classifier(drawn_birds, tmp_path):
    whole = datasets.load("aviary")
    images = whole.images[whole.images.label < 4].reset_index(drop=True)
    data = datasets.Dataset(whole.root, images, whole.classes.head(4))
    network = models.load_backbone("clip/aviary_clip", data=data)
    rows = np.flatnonzero(~images.train)
    inputs = network.normalised(models.read_pixels(network, images.path.iloc[rows].tolist()))
    attention = saliency.attention_maps(network, inputs)
    assert network.n_classes == 4 and not attention.constant.all()
    assert (attention.classes.numpy() == images.label.iloc[rows]).mean() > 0.8  # chance is a quarter
    untrained = datasets.Dataset(whole.root, images.assign(train=False), whole.classes.head(4))
    with pytest.raises(ModelError, match="images of 0 of its 4 classes"):
        models.load_backbone("clip/aviary_clip", data=untrained)
    squashing = shutil.copytree(paths.models_home() / "aviary_clip", tmp_path / "squashing")
    config = json.loads((squashing / CONFIG_FILE).read_text())
    config["preprocess_cfg"]["resize_mode"] = "squash"
    (squashing / CONFIG_FILE).write_text(json.dumps(config))
    with pytest.raises(
        ModelError, match="resized by 'squash', and no square cut from the centre: name a CLIP"
    ):
        models.load_backbone(f"clip/{squashing}", data=data)


def test_a_vision_transformer_by_name(tmp_path):
    """timm's vision transformer has no maps to average: the norm before its last attention is taken."""
    model = timm.create_model("vit_tiny_patch16_224", num_classes=7)
    file = save_weights(model, tmp_path / "vit.safetensors")
    network = models.load_backbone("timm/vit_tiny_patch16_224", file)
    assert (network.n_classes, network.crop, network.layer) == (7, 224, "blocks.11.norm1")
    assert network.mean == (0.5, 0.5, 0.5)
    pixels = torch.zeros(2, 3, 224, 224, dtype=torch.uint8)
    assert saliency.attention_maps(network, network.normalised(pixels)).maps.shape == (2, 14, 14)

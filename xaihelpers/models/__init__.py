"""Image networks by name: backbones, segmenters, CLIPs, with their preprocessing, features and layers."""

from xaihelpers.models.backbones import feature_maps, load_backbone, new_backbone
from xaihelpers.models.features import extract_features, read_pixels
from xaihelpers.models.image_network import crop_masks
from xaihelpers.models.layers import find_layer
from xaihelpers.models.networks import aviary_resnet
from xaihelpers.models.targets import load_target, match_labels, segmenters, target_class_names
from xaihelpers.models.weights import ModelError, save_weights

__all__ = [
    "ModelError",
    "aviary_resnet",
    "crop_masks",
    "extract_features",
    "feature_maps",
    "find_layer",
    "load_backbone",
    "load_target",
    "match_labels",
    "new_backbone",
    "read_pixels",
    "save_weights",
    "segmenters",
    "target_class_names",
]

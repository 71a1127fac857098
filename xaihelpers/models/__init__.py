"""Image networks by name: backbones, segmenters, CLIPs, with their preprocessing, features and layers."""

from xaihelpers.models.backbones import load_backbone, load_target, new_backbone, segmenters
from xaihelpers.models.classes import class_outputs, match_labels, target_class_names
from xaihelpers.models.features import extract_features
from xaihelpers.models.image_network import ImageNetwork, crop_masks, feature_maps, read_pixels
from xaihelpers.models.layers import find_layer
from xaihelpers.models.networks import aviary_resnet
from xaihelpers.models.weights import ModelError, save_weights

__all__ = [
    "ImageNetwork",
    "ModelError",
    "aviary_resnet",
    "class_outputs",
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

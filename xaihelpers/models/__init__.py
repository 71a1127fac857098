"""Image networks by name: backbones, segmenters, CLIPs, with their preprocessing, features and layers."""

from xaihelpers.models.backbones import load_backbone, new_backbone
from xaihelpers.models.classes import class_outputs, match_labels, target_class_names
from xaihelpers.models.features import extract_features
from xaihelpers.models.image_network import ImageNetwork, crop_boxes, crop_masks, feature_maps, read_pixels
from xaihelpers.models.layers import find_layer
from xaihelpers.models.networks import aviary_resnet, segmenters
from xaihelpers.models.weights import ModelError, save_weights

"""Backbones: image classifiers by name, their last feature maps, and a cache of what they computed."""
from .features import Features, embed, read_pixels
from .loading import Backbone, feature_maps, load_backbone, new_backbone
from .networks import aviary_resnet
from .weights import BackboneError, save_weights

__all__ = ["Backbone", "BackboneError", "Features", "aviary_resnet", "embed", "feature_maps", "load_backbone", "new_backbone", "read_pixels", "save_weights"]

"""Attention maps of classifiers and segmenters, and what a judge is asked about them (paper autoxplain)."""

from xaihelpers.saliency.hooks import SaliencyError, activations_and_gradients, score_classes
from xaihelpers.saliency.judging import KINDS, judge, judge_images
from xaihelpers.saliency.methods import METHODS, AttentionMaps, attention_maps, combine_maps
from xaihelpers.saliency.networks_compared import attend_all, backbone_of, load_networks, objects_in
from xaihelpers.saliency.nulls import NULLS, null_maps, shuffled_weights
from xaihelpers.saliency.own_maps import own_maps, picture_view
from xaihelpers.saliency.perturbation import perturb

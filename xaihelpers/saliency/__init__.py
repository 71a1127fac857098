"""Attention maps of classifiers and segmenters, and what a judge is asked about them (paper autoxplain)."""

from xaihelpers.saliency.hooks import SaliencyError, activations_and_gradients, score_classes
from xaihelpers.saliency.judging import KINDS, judge, judge_images
from xaihelpers.saliency.methods import METHODS, AttentionMaps, attention_maps, combine_maps
from xaihelpers.saliency.nulls import NULLS, null_maps, shuffled_weights
from xaihelpers.saliency.own_maps import OwnMaps, is_own_maps, own_attention, own_maps, picture_view
from xaihelpers.saliency.perturbation import perturb

__all__ = [
    "AttentionMaps",
    "KINDS",
    "OwnMaps",
    "METHODS",
    "NULLS",
    "SaliencyError",
    "activations_and_gradients",
    "attention_maps",
    "combine_maps",
    "is_own_maps",
    "judge",
    "judge_images",
    "null_maps",
    "own_attention",
    "own_maps",
    "perturb",
    "picture_view",
    "score_classes",
    "shuffled_weights",
]

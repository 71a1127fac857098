"""Attention maps: where a classifier or a segmenter looks, and what a judge says of it (paper autoxplain)."""
from .judging import Judgement, heat_images, judge, parse_judgement, shown_to_judge
from .methods import METHODS, Attention, attend, weigh
from .networks import AttendError, Scored, as_maps, class_scores, evaluating, find_layer, logits_of, observe, scored
from .watched import class_names, classes_of_labels, clip_probe, load_pictures, load_watched, object_masks, part_names, segmenters, watched

__all__ = ["METHODS", "AttendError", "Attention", "Judgement", "Scored", "as_maps", "attend", "class_names", "class_scores", "classes_of_labels", "clip_probe", "evaluating", "find_layer", "heat_images", "judge", "load_pictures", "load_watched",
           "logits_of", "object_masks", "observe", "parse_judgement", "part_names", "scored", "segmenters", "shown_to_judge", "watched", "weigh"]

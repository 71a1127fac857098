"""Scores of a substitution benchmark (sub, sections 5.5, 5.6), from the predictions of any model.

`python -m xaihelpers.scores.sub predictions.csv` prints the scores of a model of your own.
"""

from xaihelpers.scores.sub.judged import benchmark_images, judge_predictions, standardised_recall
from xaihelpers.scores.sub.predictions import read_predictions
from xaihelpers.scores.sub.substitution import (
    chance_scores,
    clusters,
    concept_accuracy,
    group_argmax,
    groups_of,
    image_scores,
    lacking,
    paired_rise,
    predicted_attributes,
    removed_attributes,
    same_group,
    score_interval,
    substitution_scores,
)

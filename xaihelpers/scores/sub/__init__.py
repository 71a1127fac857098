"""Scores of a substitution benchmark (sub, sections 5.5, 5.6), from the predictions of any model.

`python -m xaihelpers.scores.sub predictions.parquet` prints the scores of a model of your own.
"""

from xaihelpers.scores.sub.image_scores import (
    RULES,
    SCORINGS,
    both_scorings,
    breakdown,
    clusters,
    image_scores,
    lacking,
    predicted_attributes,
    rank_above_absent,
    score_interval,
    threshold_curve,
)
from xaihelpers.scores.sub.judged import (
    Judged,
    benchmark_images,
    chance_level,
    differences,
    judge_predictions,
    what_is_gone,
)
from xaihelpers.scores.sub.predictions import Predictions, read_predictions
from xaihelpers.scores.sub.standardised_recall import recall_gap, standardised_recall
from xaihelpers.scores.sub.substitution import (
    SubstitutionScores,
    chance_scores,
    columns_of,
    concept_accuracy,
    concept_recall,
    group_argmax,
    groups_of,
    removed_attributes,
    substitution_scores,
)

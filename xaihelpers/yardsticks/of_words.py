"""Yardsticks of words: texts of concepts, chains of concepts that a reader decides by, and judgements.

Each function takes the evidence and the names wanted, and yields these with their readings.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from sklearn.pipeline import Pipeline

from xaihelpers import fastslow
from xaihelpers.datasets import plain_name
from xaihelpers.models.clip import embed_images, embed_texts
from xaihelpers.scores import conceptscore
from xaihelpers.scores.text import text_scores
from xaihelpers.yardsticks import ideal_reader
from xaihelpers.yardsticks.evidence import Evidence, Ground
from xaihelpers.yardsticks.of_values import Found
from xaihelpers.yardsticks.reading import Reading, judged

N_TEXTS = 40
N_ALIGNED = 200  # images over which values are compared with a CLIP
N_CASES = 120
K = 5  # concepts in a text
TEMPLATE = 1
HIGH = 2.5  # scores from here on are high


def text_rows(e: Evidence) -> np.ndarray:
    """Images that have a text and, where there are labels, one concept or more to be a reference."""
    rows = e.sample(N_TEXTS, 5)
    if e.texts is not None:
        rows = np.array([row for row in rows if e.texts[row]], int)
    return rows[e.present[rows].any(1).numpy()] if e.attributes else rows


def texts(e: Evidence, names: Sequence[str]) -> Found:
    """ConceptScore, Ref-ConceptScore, BLEU, METEOR and ROUGE (conceptscore, eq. 1–12)."""
    rows, form = text_rows(e), conceptscore.load_template(TEMPLATE)
    k, clip = min(K, len(e.outputs.concepts)), e.ground.scorer
    if e.texts is None:
        # what weighs most, so that a fault of the weights can be told by the words
        own = conceptscore.concept_texts(e.outputs.take(rows), k, form, "magnitude", decimals=1)
    else:
        own = [e.texts[row] for row in rows]
    rivals = {"another image's text": own[len(own) // 2 :] + own[: len(own) // 2]}
    if e.attributes:
        common = e.prevalence.topk(min(k, len(e.attributes))).indices.tolist()
        weight = [float(round(e.outputs.contributions.abs().mean().item(), 1))] * len(common)
        usual = conceptscore.describe([e.known.concepts[j] for j in common], weight, form, decimals=1)
        rivals["the most common concepts"] = [usual] * len(own)
        references = conceptscore.reference_texts(e.present[rows], e.known.concepts, form)

    def score(some, name):
        if not name.endswith("ConceptScore"):
            return text_scores(some, references)[name]
        images = embed_images(clip, e.ground.world.images["path"].iloc[e.rows[rows]])
        said = embed_texts(clip, some, "truncate", exact=False).rows
        found = conceptscore.concept_score((images * said).sum(1))
        if name == "ConceptScore":
            return found
        true = embed_texts(clip, references, "truncate", exact=False).rows
        return conceptscore.ref_concept_score(found, (true * said).sum(1))

    for name in names:
        yield name, judged(lambda some, name=name: score(some, name), own, rivals, e.classes_of(rows))


def text_alignment(e: Evidence, names: Sequence[str]) -> Found:
    """Do values rise and fall with how alike a CLIP finds image and name? Over images; cases are concepts."""
    rows, clip = e.sample(N_ALIGNED, 7), e.ground.scorer
    images = embed_images(clip, e.ground.world.images["path"].iloc[e.rows[rows]])
    words = list(e.outputs.concepts)
    for column, attribute in zip(e.columns, e.attributes, strict=True):
        words[column] = plain_name(attribute)
    alike = standardised(images @ embed_texts(clip, words, "truncate", exact=False).rows.T)
    own = (standardised(e.outputs.values[rows]) * alike).mean(0)
    shift = 1 + int(np.random.default_rng(e.ground.seed).integers(max(len(words) - 1, 1)))
    blind = (standardised(e.outputs.values[rows]) * alike.roll(shift, 1)).mean(0)
    yield "text alignment", Reading(own, {"names permuted": blind})


def standardised(values: torch.Tensor) -> torch.Tensor:
    """Columns of mean 0 and variance 1, of n rows; NaN where a column does not vary."""
    centred = values - values.mean(0)
    spread = centred.square().mean(0).sqrt()
    return centred / spread.where(spread > 1e-9, torch.nan)


def chains(e: Evidence, names: Sequence[str]) -> Found:
    """CRI, its gap and the contradiction rate of what the model calls present (fse, eq. 2, section 5.3).

    What it calls present is put into a chain of concepts as an annotator's; the ideal reader, who has learnt
    true chains, chooses among a class and its look-alikes, in sets of which any member may be the true one.
    """
    reader, neighbours = _reader(e.ground)
    n_classes, seed = len(e.outputs.classes), e.ground.seed
    cases = fastslow.draw_cases(e.labels.numpy(), n_classes, N_CASES, neighbours, True, seed)
    attributes = np.array(e.attributes)

    def right(present, rows=cases.rows, options=cases.options, answers=cases.answers):
        said = [fastslow.chain_from_attributes(attributes[row]) for row in present[rows]]
        return fastslow.share_right(ideal_reader.read_chains(reader, said, options, 5), answers)

    called = e.called.numpy()
    rivals = {"another image's chain": called[e.another.numpy()]}
    yield "CRI", judged(right, called, rivals, cases.centres)
    fast = np.take_along_axis(e.outputs.logits.numpy()[cases.rows], cases.options, 1)
    quick = fastslow.share_right(fast, cases.answers)
    yield "CRI gap", judged(lambda said: right(said) - quick, called, rivals, cases.centres)
    initial = e.outputs.predictions.numpy()[cases.rows]
    against = np.column_stack([initial, neighbours[initial]])

    def contradicts(said):
        return 1 - right(said, options=against, answers=np.zeros(len(initial), int))

    yield "contradiction rate", judged(contradicts, called, rivals, initial)


@lru_cache(maxsize=2)
def _reader(ground: Ground) -> tuple[Pipeline, np.ndarray]:
    """The ideal reader of all five stages, from true chains, and the look-alikes (K, 4) of each class."""
    chains, labels = ideal_reader.training_chains(ground.world, ground.seed, per_class=20)
    neighbours = fastslow.class_neighbours(ground.world, source="attributes").neighbours
    return ideal_reader.fit_reader(chains, labels, 5), neighbours


def judgements(e: Evidence, names: Sequence[str]) -> Found:
    """What a judge's scores of the model's maps say (autoxplain, sections 3.3 and 4.3).

    The blind row of an average is the same judge's score of a map known to be wrong, where there is one, and
    else of another image's map, whose average is the same: it then decides nothing.
    """
    kept = np.flatnonzero(e.judgements["score"].notna())
    given, labels = e.judgements.iloc[kept], e.classes_of(kept)
    scores = given["score"].to_numpy(float)
    rivals = {"another image's score": np.roll(scores, len(scores) // 2)}
    if "control" in given:
        control = rivals["a map known to be wrong"] = given["control"].to_numpy(float)
        yield "wrong map scored low", Reading(control, {"its scores of true maps": scores}, labels)
    yield "judge score", Reading(scores, rivals, labels)
    if labels is None:
        return
    correct = (e.outputs.predictions == e.labels).numpy()[kept]

    def cells(scores):
        """Whether each image falls into these cells of the attention matrix, NaN without a score."""
        high = scores >= HIGH
        found = {"matrix CH": correct & high, "matrix WL": ~correct & ~high, "err": ~correct | ~high}
        return {name: np.where(np.isfinite(scores), cell, np.nan) for name, cell in found.items()}

    blind = {name: cells(some) for name, some in rivals.items()}
    for name, own in cells(scores).items():
        yield name, Reading(own, {rival: of_cells[name] for rival, of_cells in blind.items()}, labels)

"""Yardsticks of words: texts of concepts, chains of concepts that a reader decides by, and judgements.

Each function takes the evidence and the names wanted, and returns name -> Cases.
"""

from functools import lru_cache

import numpy as np
from sklearn.pipeline import Pipeline

from xaihelpers import fastslow
from xaihelpers.datasets import image_attributes
from xaihelpers.fastslow import ideal_reader
from xaihelpers.models.clip import embed_images, embed_texts
from xaihelpers.scorecard.evidence import Evidence, Ground
from xaihelpers.scorecard.reading import Cases
from xaihelpers.scores import conceptscore
from xaihelpers.scores.text import METRICS, text_scores

N_TEXTS = 40
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


def texts(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """ConceptScore, Ref-ConceptScore, BLEU, METEOR and ROUGE (conceptscore, eq. 1–12)."""
    rows, form = text_rows(e), conceptscore.load_template(TEMPLATE)
    k = min(K, len(e.outputs.concepts))
    if e.texts is None:
        own = conceptscore.concept_texts(e.outputs.take(rows), k, form, decimals=1)
    else:
        own = [e.texts[row] for row in rows]
    said = {"own": own, "another image's text": own[len(own) // 2 :] + own[: len(own) // 2]}
    references = None
    if e.attributes:
        common = e.prevalence.topk(min(k, len(e.attributes))).indices.tolist()
        weight = [float(round(e.outputs.contributions.abs().mean().item(), 1))] * len(common)
        usual = conceptscore.describe([e.known.concepts[j] for j in common], weight, form, decimals=1)
        said["the most common concepts"] = [usual] * len(own)
        references = conceptscore.reference_texts(e.present[rows], e.known.concepts, form)
    scores = {who: {} for who in said}
    for who, some in said.items():
        if references and not set(names).isdisjoint(METRICS):
            scores[who] |= text_scores(some, references, jobs=1)[list(METRICS)].to_dict("series")
        if e.ground.scorer is not None:
            scores[who] |= _by_clip(e, rows, some, references)
    labels = e.classes_of(rows)
    found = {}
    for name, cases in scores.pop("own").items():
        found[name] = Cases(cases, {who: of_others[name] for who, of_others in scores.items()}, labels)
    return found


def _by_clip(e: Evidence, rows: np.ndarray, some: list[str], references: list[str] | None) -> dict:
    clip = e.ground.scorer
    images = embed_images(clip, e.ground.world.images["path"].iloc[e.rows[rows]])
    vectors = embed_texts(clip, some, "truncate", exact=False).rows
    score = conceptscore.concept_score((images * vectors).sum(1))
    if not references:
        return {"ConceptScore": score}
    alike = (embed_texts(clip, references, "truncate", exact=False).rows * vectors).sum(1)
    return {"ConceptScore": score, "Ref-ConceptScore": conceptscore.ref_concept_score(score, alike)}


def chains(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """CRI, its gap and the contradiction rate of what the model calls present (fse, eq. 2, section 5.3).

    What it calls present is put into a chain of concepts as an annotator's; the ideal reader, who has learnt
    true chains, chooses among a class and its look-alikes, in sets of which any member may be the true one.
    """
    world, reader, neighbours = e.ground.world, *_reader(e.ground)
    cases = fastslow.draw_cases(
        e.labels.numpy(), len(e.outputs.classes), N_CASES, neighbours, True, e.ground.seed
    )
    seen, certainty = image_attributes(world)
    held, attributes = world.attributes["name"].tolist(), np.array(e.attributes)
    visible = (seen & (certainty > 1)).numpy()[e.rows][:, [held.index(name) for name in e.attributes]]
    called = (e.known.values > e.known.thresholds).numpy()

    def right(present, rows, options, answers):
        said = [fastslow.chain_from_attributes(attributes[row]) for row in present[rows]]
        return ideal_reader.share_right(ideal_reader.read_chains(reader, said, options, 5), answers)

    swapped = called[e.another.numpy()]
    own, blind, sighted = (right(one, *cases[:3]) for one in (called, swapped, visible))
    name = "another image's chain"
    found = {"CRI": Cases(own, {name: blind}, cases.centres, float(sighted.mean()))}
    fast = np.take_along_axis(e.outputs.logits.numpy()[cases.rows], cases.options, 1)
    quick = ideal_reader.share_right(fast, cases.answers)
    found["CRI gap"] = Cases(own - quick, {name: blind - quick}, cases.centres)
    initial = e.outputs.predictions.numpy()[cases.rows]
    against = np.column_stack([initial, neighbours[initial]])
    own, blind = (
        1 - right(one, cases.rows, against, np.zeros(len(initial), int)) for one in (called, swapped)
    )
    return found | {"contradiction rate": Cases(own, {name: blind}, initial)}


@lru_cache(maxsize=2)
def _reader(ground: Ground) -> tuple[Pipeline, np.ndarray]:
    """The ideal reader of all five stages, from true chains, and the look-alikes (K, 4) of each class."""
    if ground.labels == "class":
        chains, labels = ideal_reader.drawn_chains(ground.world, 20, ground.seed)
    else:
        rows = np.flatnonzero(ground.world.train.numpy())
        chains = list(fastslow.chains_from_labels(ground.world, rows).values())
        labels = ground.world.labels.numpy()[rows]
    neighbours = fastslow.class_neighbours(ground.world, source="attributes").neighbours
    return ideal_reader.fit_reader(chains, labels, 5), neighbours


def judgements(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """What a judge's scores of the model's maps say (autoxplain, sections 3.3 and 4.3).

    The blind row of an average is the same judge's score of a map known to be wrong, where there is one, and
    else of another image's map, whose average is the same: it then decides nothing.
    """
    kept = np.flatnonzero(e.judgements["score"].notna())
    scores = e.judgements["score"].to_numpy(float)[kept]
    labels = e.classes_of(kept)
    blind = {"another image's score": np.roll(scores, len(scores) // 2)}
    found = {}
    if "control" in e.judgements:
        control = e.judgements["control"].to_numpy(float)[kept]
        blind["a map known to be wrong"] = control
        found["wrong map scored low"] = Cases(control, {"its scores of true maps": scores}, labels)
    found["judge score"] = Cases(scores, blind, labels)
    if labels is not None:
        correct = (e.outputs.predictions == e.labels).numpy()[kept]
        for name in ("matrix CH", "matrix WL", "err"):
            cells = {who: _cell(name, correct, one) for who, one in blind.items()}
            found[name] = Cases(_cell(name, correct, scores), cells, labels)
    return found


def _cell(name: str, correct: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Whether each image falls into a cell of the attention matrix, (n,) of 0 and 1, NaN without a score."""
    high = scores >= HIGH
    cell = {"matrix CH": correct & high, "matrix WL": ~correct & ~high, "err": ~correct | ~high}[name]
    return np.where(np.isfinite(scores), cell, np.nan)

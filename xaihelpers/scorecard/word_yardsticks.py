"""Yardsticks of words: texts of concepts, chains of concepts that a reader decides by, and judgements."""

from collections.abc import Iterator

import numpy as np

from xaihelpers.fastslow import CANDIDATES, chain_from_attributes, draw_cases
from xaihelpers.fastslow.ideal_reader import read_chains, share_right
from xaihelpers.models.clip import embed_images, embed_texts
from xaihelpers.scorecard.evidence import Evidence
from xaihelpers.scorecard.reading import LABELLED, UNLABELLED, Missing, Reading, share
from xaihelpers.scorecard.value_yardsticks import LABELS_NEEDED, THRESHOLDS
from xaihelpers.scores import conceptscore
from xaihelpers.scores.text import METRICS, text_scores

N_TEXTS = 40
N_CASES = 120
K = 5  # concepts in a text
TEMPLATE = 1
HIGH = 2.5  # scores from here on are high
SLOW = ("CRI", "CRI gap", "contradiction rate")
JUDGED = ("judge score", "matrix CH", "matrix WL", "err", "wrong map scored low")


def text_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """ConceptScore, Ref-ConceptScore, BLEU, METEOR and ROUGE (paper conceptscore, eq. 1–12)."""
    form = conceptscore.load_template(TEMPLATE)
    rows = e.sample(N_TEXTS, 5)
    k = min(K, len(e.outputs.concepts))
    if e.texts is None:
        texts = conceptscore.concept_texts(e.outputs.take(rows), k, form, decimals=1)
    else:
        rows = np.array([row for row in rows if e.texts[row]], int)
        texts = [e.texts[row] for row in rows]
    with_reference = e.has_labels and e.present[rows].any(1)
    if not e.has_labels:
        why = f"{e.ground.world.name} has no concept labels"
        yield Missing(("Ref-ConceptScore", *METRICS), why, LABELS_NEEDED)
    else:
        kept = with_reference.nonzero()[:, 0].tolist()
        rows, texts = rows[kept], [texts[row] for row in kept]
    if len(rows) < 2:
        yield Missing(("ConceptScore", *METRICS), f"{len(rows)} images have a text", "texts of test images")
        return
    labels = None if e.labels is None else e.labels[rows].numpy()
    swapped = texts[len(texts) // 2 :] + texts[: len(texts) // 2]
    blind = {"another image's text": swapped}
    references = None
    if e.has_labels:
        common = e.prevalence.topk(min(k, len(e.attributes))).indices.tolist()
        weight = [float(round(e.outputs.contributions.abs().mean().item(), 1))] * len(common)
        usual = conceptscore.describe([e.known.concepts[j] for j in common], weight, form, decimals=1)
        blind["the most common concepts"] = [usual] * len(texts)
        references = conceptscore.reference_texts(e.present[rows], e.known.concepts, form)
        yield from _words(texts, references, blind, labels)
    yield from _by_clip(e, rows, texts, references, blind, labels)


def _words(texts, references, blind, labels) -> Iterator[Reading]:
    own = text_scores(texts, references, jobs=1)
    others = {name: text_scores(some, references, jobs=1) for name, some in blind.items()}
    for metric in METRICS:
        of_others = {name: scores[metric].to_numpy() for name, scores in others.items()}
        scores = own[metric].to_numpy()
        yield Reading(metric, "conceptscore", LABELLED, scores, of_others, labels, bounds=(0, 1), sighted=1.0)


def _by_clip(e: Evidence, rows, texts, references, blind, labels) -> Iterator[Reading | Missing]:
    names = ("ConceptScore", "Ref-ConceptScore") if references else ("ConceptScore",)
    clip = e.ground.scorer
    if clip is None:
        yield Missing(names, "no scorer is named", "a CLIP that knows such images (--scorer)")
        return
    files = e.ground.world.images["path"].iloc[e.rows[rows]]
    images = embed_images(clip, files)

    def scores_of(some):
        vectors = embed_texts(clip, some, "truncate", exact=False).rows
        score = conceptscore.concept_score((images * vectors).sum(1))
        if not references:
            return (score,)
        alike = (embed_texts(clip, references, "truncate", exact=False).rows * vectors).sum(1)
        return score, conceptscore.ref_concept_score(score, alike)

    own = scores_of(texts)
    others = {name: scores_of(some) for name, some in blind.items()}
    for place, (name, truth) in enumerate(zip(names, (UNLABELLED, LABELLED), strict=False)):
        of_others = {blind_name: found[place].double().numpy() for blind_name, found in others.items()}
        cases = own[place].double().numpy()
        yield Reading(name, "conceptscore", truth, cases, of_others, labels, bounds=(0, 2.5))


def chain_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """CRI, its gap and the contradiction rate of what the model calls present (fse, eq. 2, section 5.3).

    What it calls present is put into a chain of concepts as an annotator's; the ideal reader, who has learnt
    true chains, chooses among a class and its look-alikes, in sets of which any member may be the true one.
    """
    reason = None
    if not e.has_labels or e.labels is None:
        reason = f"{e.ground.world.name} lacks concept labels or classes", LABELS_NEEDED
    elif e.known.thresholds is None:
        reason = "what the model calls present is not known", THRESHOLDS
    elif len(e.outputs.classes) < CANDIDATES:
        reason = (
            f"{len(e.outputs.classes)} classes make no set of candidates",
            f"{CANDIDATES} classes or more",
        )
    elif e.ground.reader is None:
        reason = "a reader has to learn true chains", "data with training images"
    if reason:
        yield Missing(SLOW, *reason)
        return
    labels, n_classes = e.labels.numpy(), len(e.outputs.classes)
    neighbours = e.ground.neighbours
    cases = draw_cases(labels, n_classes, N_CASES, neighbours, True, e.ground.seed)
    called = (e.known.values > e.known.thresholds).numpy()
    held = e.ground.world.attributes["name"].tolist()
    shown = e.ground.visible[e.rows][:, [held.index(name) for name in e.attributes]]
    swapped = e.another.numpy()
    said = {"own": called[cases.rows], "another image's chain": called[swapped[cases.rows]]}
    said["truth"] = shown[cases.rows]
    names = np.array(e.attributes)
    chains = {who: [chain_from_attributes(names[row]) for row in rows] for who, rows in said.items()}
    right = {who: _right(e, some, cases.options, cases.answers) for who, some in chains.items()}
    clusters = cases.centres
    sighted = float(right.pop("truth").mean())
    own, blind = right.pop("own"), right
    yield share("CRI", "fse", LABELLED, own, blind, clusters=clusters, sighted=100 * sighted)
    fast = np.take_along_axis(e.outputs.logits.numpy()[cases.rows], cases.options, 1)
    quick = share_right(fast, cases.answers)
    gaps = {name: 100 * (one - quick) for name, one in blind.items()}
    yield Reading("CRI gap", "fse", LABELLED, 100 * (own - quick), gaps, clusters, "%", (-100, 100))
    initial = e.outputs.predictions.numpy()[cases.rows]
    against = np.column_stack([initial, neighbours[initial]])
    first = np.zeros(len(initial), int)
    own, other = (1 - _right(e, chains[who], against, first) for who in ("own", "another image's chain"))
    blind = {"another image's chain": other}
    yield share("contradiction rate", "fse", LABELLED, own, blind, clusters=initial, low_is_good=True)


def _right(e: Evidence, chains, options, answers) -> np.ndarray:
    """Whether the ideal reader finds the answer, (l,) in [0, 1]."""
    return share_right(read_chains(e.ground.reader, chains, options, 5), answers)


def judgement_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """What a judge's scores of the model's maps say (autoxplain, sections 3.3 and 4.3).

    The blind row of an average is the same judge's score of a map known to be wrong, where there is one, and
    else of another image's map, whose average is the same: it then decides nothing.
    """
    if e.judgements is None:
        give = "a table with the columns image, score and, as a control, control (--judgements)"
        yield Missing(JUDGED, "there are no judgements of maps", give)
        return
    table = e.judgements
    kept = np.flatnonzero(table["score"].notna())
    scores = table["score"].to_numpy(float)[kept]
    labels = None if e.labels is None else e.labels[kept].numpy()
    blind = {"another image's score": np.roll(scores, len(scores) // 2)}
    if "control" in table:
        control = table["control"].to_numpy(float)[kept]
        blind["a map known to be wrong"] = control
        lowest = {"its scores of true maps": scores}
        name = "wrong map scored low"
        yield Reading(
            name, "control", UNLABELLED, control, lowest, labels, bounds=(0, 5), low_is_good=True, sighted=0.0
        )
    else:
        yield Missing(
            JUDGED[-1:], "no map known to be wrong was judged", "a column control in the judgements"
        )
    yield Reading("judge score", "autoxplain", UNLABELLED, scores, blind, labels, bounds=(0, 5), sighted=5.0)
    if labels is None:
        yield Missing(JUDGED[1:4], f"{e.ground.world.name} has no classes", "data with classes")
        return
    correct = (e.outputs.predictions == e.labels).numpy()[kept]
    for name, low in (("matrix CH", False), ("matrix WL", False), ("err", True)):
        own, *others = (_cell(name, correct, one) for one in (scores, *blind.values()))
        of_others = dict(zip(blind, others, strict=True))
        yield share(name, "autoxplain", LABELLED, own, of_others, clusters=labels, low_is_good=low)


def _cell(name: str, correct: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Whether each image falls into a cell of the attention matrix, (n,) of 0 and 1, NaN without a score."""
    high = scores >= HIGH
    cell = {"matrix CH": correct & high, "matrix WL": ~correct & ~high, "err": ~correct | ~high}[name]
    return np.where(np.isfinite(scores), cell, np.nan)

"""Yardsticks of words: texts of concepts, chains of concepts that a reader decides by, and judgements.

Each function takes the evidence and the names wanted, and yields these with their readings.
"""

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from xaihelpers import fastslow
from xaihelpers.models.clip import embed_images, embed_texts
from xaihelpers.scores import conceptscore
from xaihelpers.yardsticks import ideal_reader
from xaihelpers.yardsticks.evidence import Evidence, Ground
from xaihelpers.yardsticks.of_values import Found
from xaihelpers.yardsticks.reading import Reading, judged

N_TEXTS = 240
N_CASES = 120
K = 5  # concepts in a text
TEMPLATE = 1


def text_rows(e: Evidence) -> np.ndarray:
    """Images that have a text and, where there are labels, one concept or more to be a reference."""
    rows = e.sample(N_TEXTS, 5)
    if e.texts is not None:
        rows = np.array([row for row in rows if e.texts[row]], int)
    return rows[e.present[rows].any(1).numpy()] if e.attributes else rows


def texts(e: Evidence, names: Sequence[str]) -> Found:
    """ConceptScore and Ref-ConceptScore (conceptscore, eq. 1–3)."""
    rows, form = text_rows(e), conceptscore.load_template(TEMPLATE)
    k, clip = min(K, len(e.outputs.concepts)), e.ground.scorer
    images = embed_images(clip, e.ground.world.images["path"].iloc[e.rows[rows]])

    def embedded(some):
        return embed_texts(clip, some, "truncate", exact=False).rows

    def written(outputs):
        # what weighs most, so that a fault of the weights can be told by the words
        named = min(k, len(outputs.concepts))
        return conceptscore.concept_texts(outputs, named, form, "magnitude", decimals=1)

    own = [e.texts[row] for row in rows] if e.texts else written(e.outputs.take(rows))
    rivals = {"another image's text": own[len(own) // 2 :] + own[: len(own) // 2]}
    if e.attributes:
        common = e.prevalence.topk(min(k, len(e.attributes))).indices.tolist()
        weight = [float(round(e.outputs.contributions.abs().mean().item(), 1))] * len(common)
        usual = conceptscore.describe([e.known.concepts[j] for j in common], weight, form, decimals=1)
        rivals["the most common concepts"] = [usual] * len(own)
        true = embedded(conceptscore.reference_texts(e.present[rows], e.known.concepts, form))

    def score(said, rows=slice(None), ref=False):
        found = conceptscore.concept_score((images * said[rows]).sum(1))
        return conceptscore.ref_concept_score(found, (true * said[rows]).sum(1)) if ref else found

    for name in names:
        judge, ladder = partial(score, ref=name == "Ref-ConceptScore"), None
        if e.attributes:

            def exchanged(outputs, judge=judge):
                return partial(judge, embedded(written(outputs)))

            ladder = partial(e.exchanged, exchanged, rows, partial(judge, embedded(own)))
        blind = {rival: judge(embedded(some)) for rival, some in rivals.items()}
        yield name, Reading(judge(embedded(own)), blind, e.classes_of(rows), ladder=ladder)


def chains(e: Evidence, names: Sequence[str]) -> Found:
    """CRI of what the model calls present (fse, eq. 2).

    What it calls present is put into a chain of concepts as an annotator's; the ideal reader, who has learnt
    true chains, chooses among a class and its look-alikes, in sets of which any member may be the true one.
    """
    reader, neighbours = _reader(e.ground)
    cases = fastslow.draw_cases(
        e.labels.numpy(), len(e.outputs.classes), N_CASES, neighbours, True, e.ground.seed
    )
    attributes = np.array(e.attributes)

    def right(present):
        said = [fastslow.chain_from_attributes(attributes[row]) for row in present[cases.rows]]
        return fastslow.share_right(ideal_reader.read_chains(reader, said, cases.options), cases.answers)

    called = e.called.numpy()
    rivals = {"another image's chain": called[e.another.numpy()]}
    yield "CRI", judged(right, called, rivals, cases.centres)


@lru_cache(maxsize=2)
def _reader(ground: Ground) -> tuple[ideal_reader.IdealReader, np.ndarray]:
    """The ideal reader, from true chains, and the look-alikes (K, 4) of each class."""
    chains, labels = ideal_reader.training_chains(ground.world, ground.seed)
    neighbours = fastslow.class_neighbours(ground.world, source="attributes").neighbours
    return ideal_reader.IdealReader(chains, labels), neighbours


def judgements(e: Evidence, names: Sequence[str]) -> Found:
    """What a judge's scores of the model's maps say (autoxplain, section 3.3).

    The blind row is the same judge's score of a map known to be wrong, where there is one, and else of
    another image's map, whose average is the same: it then decides nothing.
    """
    kept = np.flatnonzero(e.judgements["score"].notna())
    given, labels = e.judgements.iloc[kept], e.classes_of(kept)
    scores = given["score"].to_numpy(float)
    rival, blind = "another image's score", np.roll(scores, len(scores) // 2)
    if "control" in given:
        rival, blind = "a map known to be wrong", given["control"].to_numpy(float)
        yield "wrong map scored low", Reading(blind, {"its scores of true maps": scores}, labels)
    yield "judge score", Reading(scores, {rival: blind}, labels)

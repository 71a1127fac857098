"""ConceptScore and Ref-ConceptScore: does the text of a model's most important concepts fit the image?

Paper conceptscore, sections 3.2 and 3.3. An image-text model compares them by the cosine of its embeddings:

    (1)      ConceptScore     = ω · max(cos(E_i(x), E_t(P(ĉ))), 0)
    (2)-(3)  Ref-ConceptScore = harmonic mean of ConceptScore and max(max_c cos(E_t(P(ĉ)), E_t(P(c))), 0)

| symbol | name | shape |
|---|---|---|
| ĉ, concepts of a model | `outputs` | contributions (N, L) and L names |
| P(ĉ), text of the k largest | `concept_texts` | N texts |
| c, P(c), labels and their text | `reference_texts` | N texts |
| cos(E_i(x), E_t(P(ĉ))) | `cosine` | (N,) |
| cos(E_t(P(ĉ)), E_t(P(c))) | `reference_cosine` | (N,), or (N, R) with R references an image |
| ω | `weight` | scalar |
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from xaihelpers.outputs import ConceptOutputs
from xaihelpers.paths import PROJECT, data_home, find
from xaihelpers.text_files import read_text

PROMPTS = PROJECT / "data" / "prompts"
PRINTED = "conceptscore_templates_paper.json"  # Table 3 in its own words
NAMING = ("value", "magnitude", "signed", "present", "non-zero")


class Template(NamedTuple):
    """One form of P(·): `head`, then the pairs with `between` between them, then `tail`."""

    id: int  # in the paper's tables
    name: str
    head: str
    pair: str  # of a concept and its weight, as "{concept}: {weight}"
    between: str
    tail: str


NAMES_ALONE = Template(0, "names", "", "{concept}", ", ", "")  # without weights, as shared words are counted


def load_templates(file: str | Path = "") -> list[Template]:
    """The five templates of Table 3, in our own words, or those of a JSON file of the same form.

    file: a path, or a name under XAI_DATA or in data/prompts, as `PRINTED`, which has the table's own words.

    Raises ValueError: the file cannot be read, is not of this form, holds no template or an id twice, or a
        pair without its two fields.
    """
    path = PROMPTS / "conceptscore_templates.json"
    if str(file):
        path = find(file, data_home(), PROMPTS) or Path(file)
    try:
        templates = [Template(**entry) for entry in json.loads(read_text(path))]
        pairs = {one.id: one.pair.format(concept="{concept}", weight="{weight}") for one in templates}
        whole = ["{concept}" in pair and "{weight}" in pair for pair in pairs.values()]
        if not templates or not all(whole) or len(pairs) < len(templates):
            raise ValueError("no template, an id twice, or a pair without its fields")
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f"{path.name} is not a list of templates (each with its own id, name, head, pair, between and "
            f"tail; the pair with {{concept}} and {{weight}}): {error}"
        ) from error
    return templates


def are_of_table3(file: str | Path = "") -> bool:
    """Whether the templates of a file are those of Table 3, in our words or in its own."""
    return load_templates(file) in (load_templates(), load_templates(PRINTED))


def load_template(number: int, file: str | Path = "") -> Template:
    """One template of `load_templates(file)` by its id.

    Raises ValueError: as `load_templates`, and for an id that is not there, naming those that are.
    """
    by_id = {template.id: template for template in load_templates(file)}
    if number not in by_id:
        raise ValueError(f"there is no template {number}: choose one of {', '.join(map(str, by_id))}")
    return by_id[number]


class Named(NamedTuple):
    """What is named of N images: at most k concepts each, the most important first."""

    indices: torch.Tensor  # (N, k) int64, −1 where an image has fewer
    weights: torch.Tensor  # (N, k), signed
    negated: torch.Tensor  # (N, k) bool, said as "not …"

    def pairs(self, n: int, concepts: Sequence[str]) -> tuple[list[str], list[float]]:
        """What is said of image n, in words, and the weights."""
        words, weights = [], []
        for j, weight, negated in zip(*(part[n].tolist() for part in self), strict=True):
            if j >= 0:
                words.append(f"not {concepts[j]}" if negated else concepts[j])
                weights.append(weight)
        return words, weights

    def is_true(self, present: torch.Tensor) -> torch.Tensor:
        """Whether each statement is true as it is written, (N, k) float; NaN for none and without a label.

        present: (N, L) of 0 and 1, NaN where nobody labelled it.
        """
        found = present.gather(1, self.indices.clamp(min=0))
        found = torch.where(self.negated, 1 - found, found)
        return found.where(self.indices >= 0, torch.nan)


def named_concepts(outputs: ConceptOutputs, k: int, naming: str = "value") -> Named:
    """The concepts that P(ĉ) names of each image, which the paper leaves open.

    naming: one of
    - "value": the k largest concept values, whatever they contribute; it comes nearest to the printed tables;
    - "magnitude": the k largest contributions by absolute value, named as if present;
    - "signed": the same, but "not …" where the model itself calls the concept absent;
    - "present": the k largest by absolute value among those that the model calls present;
    - "non-zero": as "magnitude", without contributions of 0.

    The weight of a concept is its contribution to the predicted class; ties are in concept order.

    Raises ValueError for another rule, a k out of range, and a rule that asks for thresholds of outputs
    that have none.
    """
    if naming not in NAMING:
        raise ValueError(f"naming must be one of {', '.join(NAMING)}, not {naming!r}")
    if not 1 <= k <= len(outputs.concepts):
        raise ValueError(f"cannot name {k} concepts of an image: choose 1 to {len(outputs.concepts)}")
    if naming in ("signed", "present") and outputs.thresholds is None:
        raise ValueError(
            f'naming "{naming}" asks what the model calls present, but these outputs have no thresholds: '
            "write them with thresholds=, one for each concept"
        )
    contributions = outputs.contributions
    order = outputs.values if naming == "value" else contributions.abs()
    eligible, negative = torch.ones_like(order).bool(), torch.zeros_like(order).bool()
    if naming == "present":
        eligible = outputs.values > outputs.thresholds
    elif naming == "non-zero":
        eligible = contributions != 0
    elif naming == "signed":
        negative = ~(outputs.values > outputs.thresholds)
    ranked = order.masked_fill(~eligible, -torch.inf).sort(dim=1, descending=True, stable=True).indices[:, :k]
    indices = ranked.where(eligible.gather(1, ranked), -1)
    return Named(indices, contributions.gather(1, ranked), negative.gather(1, ranked))


def describe(concepts: Sequence[str], weights: Sequence[float], template: Template, decimals: int = 2) -> str:
    """P(·): one text of concepts and weights in the given order. decimals: of a weight that is no integer."""
    pairs = []
    for concept, weight in zip(concepts, weights, strict=True):
        if not isinstance(weight, int):
            weight = f"{weight:z.{decimals}f}"  # z: no -0.00
        pairs.append(template.pair.format(concept=concept, weight=weight))
    return template.head + template.between.join(pairs) + template.tail


def concept_texts(
    outputs: ConceptOutputs, k: int, template: Template, naming: str = "value", decimals: int = 2
) -> list[str]:
    """P(ĉ) of N images: the concepts that are named of each, as of `named_concepts`, with their weights."""
    named = named_concepts(outputs, k, naming)
    pairs = [named.pairs(n, outputs.concepts) for n in range(len(named.indices))]
    return [describe(words, weights, template, decimals) for words, weights in pairs]


def reference_texts(present: torch.Tensor, concepts: Sequence[str], template: Template) -> list[str]:
    """P(c) of N images: all concepts that the labels hold, in concept order, each with weight 1.

    present: (N, L), 0 or 1, of any dtype.
    Raises ValueError: labels other than 0 and 1, images without any concept (their rows are named).
    """
    if ((present != 0) & (present != 1)).any():
        raise ValueError("present must be 0 or 1 for every image and concept")
    without = (present == 0).all(1).nonzero()[:, 0].tolist()
    if without:
        raise ValueError(
            f"{len(without)} images have no concept in their labels and so no reference (rows "
            f"{', '.join(map(str, without[:5]))}, …): leave them out"
        )
    texts = []
    for row in present:
        names = [concepts[j] for j in row.nonzero()[:, 0].tolist()]
        texts.append(describe(names, [1] * len(names), template))
    return texts


def concept_score(cosine: torch.Tensor, weight: float = 2.5) -> torch.Tensor:
    """ConceptScore, eq. 1: ω · max(cosine, 0), (N,).

    weight: ω; the paper prints none, 2.5 is CLIPScore's and fits the range of its tables.
    """
    return weight * cosine.clamp(min=0)


def ref_concept_score(score: torch.Tensor, reference_cosine: torch.Tensor) -> torch.Tensor:
    """Ref-ConceptScore, eq. 2–3: harmonic mean of the ConceptScore and of the texts' cosine.

    Of several references the best counts, and a negative cosine counts 0. As printed, the score is scaled by
    ω and the cosine is not.

    score: ConceptScores (N,). reference_cosine: (N,), or (N, R) with R references an image.
    Returns (N,), 0 where either is 0.
    """
    best = reference_cosine.amax(1) if reference_cosine.ndim == 2 else reference_cosine
    best = best.clamp(min=0)
    total = score + best
    return torch.where(total == 0, 0, 2 * score * best / total)

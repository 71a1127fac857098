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

The embeddings come from elsewhere: `xaihelpers.models.clip`, or any model with unit vectors of images and
texts.
"""

import json
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from xaihelpers.outputs import ConceptOutputs, check_names
from xaihelpers.paths import PROJECT, find

Contributions = tuple[torch.Tensor, Sequence[str]]  # (N, L), and the L concepts' names


@dataclass(frozen=True)
class Template:
    """One form of P(·): `head`, then the pairs with `between` between them, then `tail`.

    id: its number in the paper's tables. pair: of a concept and its weight, as "{concept}: {weight}".
    """

    id: int
    name: str
    head: str
    pair: str
    between: str
    tail: str


def load_templates(file: str | Path = "") -> list[Template]:
    """The five templates of Table 3, in our own words, or those of a JSON file of the same form.

    Raises ValueError: the file cannot be read, is not of this form, holds no template or an id twice, or a
        pair without its two fields.
    """
    path = PROJECT / "data" / "prompts" / "conceptscore_templates.json"
    if str(file):
        path = find(file) or Path(file)
    try:
        templates = [Template(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"{path.name} is not a list of templates (each with id, name, head, pair, between and tail): "
            f"{error}"
        ) from error
    for template in templates:
        fields = {name for _, name, _, _ in string.Formatter().parse(template.pair) if name is not None}
        if fields != {"concept", "weight"}:
            raise ValueError(
                f"{path.name}: the pair of template {template.id} must hold {{concept}} and {{weight}}, "
                f"not {template.pair!r}"
            )
    if not templates or len({template.id for template in templates}) < len(templates):
        raise ValueError(f"{path.name} must hold at least one template, and every id once")
    return templates


def load_template(number: int, file: str | Path = "") -> Template:
    """One template of `load_templates(file)` by its id.

    Raises ValueError: as `load_templates`, and for an id that is not there, naming those that are.
    """
    by_id = {template.id: template for template in load_templates(file)}
    if number not in by_id:
        raise ValueError(f"there is no template {number}: choose one of {', '.join(map(str, by_id))}")
    return by_id[number]


def top_weighted(outputs: ConceptOutputs | Contributions, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k concepts of each image with the largest absolute weight.

    The weight of a concept is its contribution to the predicted class. The largest comes first, ties in
    concept order.

    outputs: ConceptOutputs, or contributions (N, L) with the concepts' names.
    Returns their indices (N, k), int64, and their signed weights (N, k).
    Raises ValueError: names that are missing, empty or stand twice, contributions of another number of
        concepts, k outside 1 … L, weights that are NaN or infinite.
    """
    contributions, concepts = _contributions(outputs)
    check_names(concepts)
    if contributions.ndim != 2 or contributions.shape[1] != len(concepts):
        raise ValueError(
            f"contributions are {tuple(contributions.shape)}, but there are {len(concepts)} concepts"
        )
    if not 1 <= k <= len(concepts):
        raise ValueError(
            f"cannot describe an image by its {k} most important concepts: the model has {len(concepts)}; "
            f"choose k from 1 to {len(concepts)}"
        )
    finite = contributions.isfinite()
    if not finite.all():
        raise ValueError(f"{int((~finite).sum())} contributions are NaN or infinite")
    indices = contributions.abs().sort(dim=1, descending=True, stable=True).indices[:, :k]
    return indices, contributions.gather(1, indices)


def _contributions(outputs: ConceptOutputs | Contributions) -> Contributions:
    if isinstance(outputs, ConceptOutputs):
        return outputs.contributions, outputs.concepts
    return outputs


def describe(concepts: Sequence[str], weights: Sequence[float], template: Template) -> str:
    """P(·): one text of concepts and weights in the given order.

    A float weight is written with two decimals, an integer as it is.
    Raises ValueError: no concept, another number of weights, a weight that is NaN or infinite.
    """
    if len(concepts) != len(weights):
        raise ValueError(f"{len(concepts)} concepts, but {len(weights)} weights")
    if not len(concepts):
        raise ValueError("the list of concepts is empty: give at least one")
    pairs = [
        template.pair.format(concept=concept, weight=_formatted(weight))
        for concept, weight in zip(concepts, weights, strict=True)
    ]
    return template.head + template.between.join(pairs) + template.tail


def _formatted(weight: float) -> str:
    if isinstance(weight, int):
        return str(weight)
    if not math.isfinite(weight):
        raise ValueError(f"a weight is {weight}: no text can be made of it")
    return f"{weight:.2f}" if round(weight, 2) else "0.00"  # never -0.00


def concept_texts(outputs: ConceptOutputs | Contributions, k: int, template: Template) -> list[str]:
    """P(ĉ) of N images: the k most important concepts of each, with their weights.

    outputs, k: as in `top_weighted`, whose errors it raises.
    """
    _, concepts = _contributions(outputs)
    indices, weights = top_weighted(outputs, k)
    texts = []
    for row, values in zip(indices.tolist(), weights.tolist(), strict=True):
        texts.append(describe([concepts[j] for j in row], values, template))
    return texts


def reference_texts(present: torch.Tensor, concepts: Sequence[str], template: Template) -> list[str]:
    """P(c) of N images: all concepts that the labels hold, in concept order, each with weight 1.

    Images without any concept have no reference and are to be left out.

    present: (N, L), 0 or 1, of any dtype.
    Raises ValueError: names that are missing, empty or stand twice; labels of another shape or other than 0
        and 1; images without any concept (their rows are named).
    """
    check_names(concepts)
    if present.ndim != 2 or present.shape[1] != len(concepts):
        raise ValueError(f"present is {tuple(present.shape)}, but there are {len(concepts)} concepts")
    if ((present != 0) & (present != 1)).any():
        raise ValueError("present must be 0 or 1 for every image and concept")
    without = (present == 0).all(1).nonzero()[:, 0].tolist()
    if without:
        rows = ", ".join(map(str, without[:5]))
        more = " …" if len(without) > 5 else ""
        raise ValueError(
            f"{len(without)} images have no concept in their labels and so no reference (rows {rows}{more}): "
            "leave them out"
        )
    texts = []
    for row in present:
        names = [concepts[j] for j in row.nonzero()[:, 0].tolist()]
        texts.append(describe(names, [1] * len(names), template))
    return texts


def concept_score(cosine: torch.Tensor, weight: float = 2.5) -> torch.Tensor:
    """ConceptScore, eq. 1: ω · max(cosine, 0).

    cosine: (N,), of each image's embedding and its text's.
    weight: ω; the paper prints none, 2.5 is CLIPScore's and fits the range of its tables.
    Returns (N,), in [0, ω]. Raises ValueError: a cosine is NaN.
    """
    if cosine.isnan().any():
        raise ValueError(f"{int(cosine.isnan().sum())} cosines are NaN")
    return weight * cosine.clamp(min=0)


def ref_concept_score(score: torch.Tensor, reference_cosine: torch.Tensor) -> torch.Tensor:
    """Ref-ConceptScore, eq. 2–3: harmonic mean of the ConceptScore and of the texts' cosine.

    Of several references the best counts, and a negative cosine counts 0. As printed, the score is scaled by
    ω and the cosine is not.

    score: ConceptScores (N,). reference_cosine: (N,), or (N, R) with R references an image.
    Returns (N,), 0 where either is 0.
    Raises ValueError: other shapes, a negative score, NaN.
    """
    best = reference_cosine.amax(1) if reference_cosine.ndim == 2 else reference_cosine
    best = best.clamp(min=0)
    if score.shape != best.shape or (score < 0).any() or score.isnan().any() or best.isnan().any():
        raise ValueError(
            f"needs a score of at least 0 and a cosine for each of the {len(score)} images, without NaN; "
            f"got shapes {tuple(score.shape)} and {tuple(best.shape)}"
        )
    total = score + best
    return torch.where(total > 0, 2 * score * best / total.where(total > 0, 1), 0)

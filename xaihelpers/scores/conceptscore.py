"""ConceptScore and Ref-ConceptScore: does the text of a model's most important concepts fit the image, by the cosine of an image-text model?

Paper conceptscore, sections 3.2 and 3.3. The embeddings come from elsewhere (`xaihelpers.clip`, or any model with unit rows for images and texts).
"""
import json
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ..bottlenecks import ConceptOutputs, check_names
from ..paths import PROJECT


@dataclass(frozen=True)
class Template:
    """One form of P(·): `head`, the `pair`s ("{concept}: {weight}") with `between` between them, `tail`; `id` is its number in the tables."""

    id: int
    name: str
    head: str
    pair: str
    between: str
    tail: str


def templates(file: str | Path = "") -> list[Template]:
    """The five templates of Table 3, in our own words, or those of a JSON `file` of the same form.

    Raises ValueError naming the file and what is wrong in it.
    """
    path = Path(file).expanduser() if file else PROJECT / "data" / "prompts" / "conceptscore_templates.json"
    try:
        found = [Template(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path.name} is not a list of templates (each with id, name, head, pair, between and tail): {error}") from error
    for template in found:
        fields = {name for _, name, _, _ in string.Formatter().parse(template.pair) if name is not None}
        if fields != {"concept", "weight"}:
            raise ValueError(f"{path.name}: the pair of template {template.id} must hold {{concept}} and {{weight}}, not {template.pair!r}")
    if not found or len({template.id for template in found}) < len(found):
        raise ValueError(f"{path.name} must hold at least one template, and every id once")
    return found


def template(number: int, file: str | Path = "") -> Template:
    """One of `templates(file)` by its id; raises ValueError naming those that there are."""
    found = {each.id: each for each in templates(file)}
    if number not in found:
        raise ValueError(f"there is no template {number}: choose one of {', '.join(map(str, found))}")
    return found[number]


def top_weighted(outputs: ConceptOutputs | tuple[torch.Tensor, Sequence[str]], k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k concepts of each image with the largest |weight|: indices (N, k) and weights (N, k), largest first, equal ones in concept order.

    The weight of a concept is its contribution to the predicted class. `outputs`: ConceptOutputs, or contributions (N, L) with the concepts' names.
    Raises ValueError for names that are missing, empty or stand twice, k out of 1 … L, and weights that are NaN or infinite.
    """
    contributions, concepts = (outputs.contributions, outputs.concepts) if isinstance(outputs, ConceptOutputs) else outputs
    check_names(concepts)
    if contributions.ndim != 2 or contributions.shape[1] != len(concepts):
        raise ValueError(f"contributions are {tuple(contributions.shape)}, but there are {len(concepts)} concepts")
    if not 1 <= k <= len(concepts):
        raise ValueError(f"cannot describe an image by its {k} most important concepts: the model has {len(concepts)}; choose k from 1 to {len(concepts)}")
    if not contributions.isfinite().all():
        raise ValueError(f"{int((~contributions.isfinite()).sum())} contributions are NaN or infinite")
    indices = contributions.abs().sort(dim=1, descending=True, stable=True).indices[:, :k]
    return indices, contributions.gather(1, indices)


def describe(concepts: Sequence[str], weights: Sequence[float], template: Template) -> str:
    """P(·), one text from concepts and weights in the given order; a float is printed with two decimals, an integer as it is."""
    if len(concepts) != len(weights):
        raise ValueError(f"{len(concepts)} concepts, but {len(weights)} weights")
    if not len(concepts):
        raise ValueError("the list of concepts is empty: give at least one")
    pairs = (template.pair.format(concept=concept, weight=_number(weight)) for concept, weight in zip(concepts, weights))
    return template.head + template.between.join(pairs) + template.tail


def _number(weight) -> str:
    if isinstance(weight, int):
        return str(weight)
    if not math.isfinite(weight):
        raise ValueError(f"a weight is {weight}: no text can be made of it")
    return f"{weight:.2f}" if round(weight, 2) else "0.00"  # never -0.00


def descriptions(outputs: ConceptOutputs | tuple[torch.Tensor, Sequence[str]], k: int, template: Template) -> list[str]:
    """P(ĉ) of N images: each one's k most important concepts with their weights; raises as `top_weighted`."""
    indices, weights = top_weighted(outputs, k)
    names = outputs.concepts if isinstance(outputs, ConceptOutputs) else outputs[1]
    return [describe([names[j] for j in row], values, template) for row, values in zip(indices.tolist(), weights.tolist())]


def references(present: torch.Tensor, concepts: Sequence[str], template: Template) -> list[str]:
    """P(c) of N images: all concepts that are `present` (N, L) of 0 and 1, in concept order, each with weight 1.

    Raises ValueError for bad names or shapes, and for images without any concept (naming the rows): they have no reference and are to be left out.
    """
    check_names(concepts)
    if present.ndim != 2 or present.shape[1] != len(concepts):
        raise ValueError(f"present is {tuple(present.shape)}, but there are {len(concepts)} concepts")
    if ((present != 0) & (present != 1)).any():
        raise ValueError("present must be 0 or 1 for every image and concept")
    if len(none := (present == 0).all(1).nonzero()[:, 0].tolist()):
        rows = ", ".join(map(str, none[:5])) + " …" * (len(none) > 5)
        raise ValueError(f"{len(none)} images have no concept in their labels and so no reference (rows {rows}): leave them out")
    return [describe([concepts[j] for j in row.nonzero()[:, 0].tolist()], [1] * int(row.sum()), template) for row in present]


def concept_score(cosine: torch.Tensor, weight: float = 2.5) -> torch.Tensor:
    """ConceptScore (N,), eq. 1: ω · max(cos(E_i(x), E_t(P(ĉ))), 0) of `cosine` (N,).

    The paper prints no ω; 2.5 is CLIPScore's, and fits the range of its tables. Raises ValueError for NaN.
    """
    if cosine.isnan().any():
        raise ValueError(f"{int(cosine.isnan().sum())} cosines are NaN")
    return weight * cosine.clamp(min=0)


def ref_concept_score(score: torch.Tensor, reference_cosine: torch.Tensor) -> torch.Tensor:
    """Ref-ConceptScore (N,), eq. 2–3: harmonic mean of the ConceptScore `score` (N,) and max(max over references of cos(E_t(P(ĉ)), E_t(P(c))), 0).

    `reference_cosine`: (N,), or (N, R) with R references an image. 0 where either is 0. The score is scaled by ω and the cosine is not: so it is printed.
    """
    best = (reference_cosine.amax(1) if reference_cosine.ndim == 2 else reference_cosine).clamp(min=0)
    if score.shape != best.shape or (score < 0).any() or score.isnan().any() or best.isnan().any():
        raise ValueError(f"needs a score of at least 0 and a cosine for each of the {len(score)} images, without NaN; got shapes {tuple(score.shape)} and "
                         f"{tuple(best.shape)}")
    total = score + best
    return torch.where(total > 0, 2 * score * best / total.where(total > 0, 1), 0)

"""Which of the named concepts a label-free bottleneck starts from (Oikarinen et al. 2023, section 3.1)."""

from collections.abc import Callable

import torch

from xaihelpers.outputs import check_names


def filter_concepts(
    concepts: list[str],
    classes: list[str],
    embed_text: Callable[[list[str]], torch.Tensor],
    max_length: int = 30,
    class_cutoff: float = 0.85,
    other_cutoff: float = 0.9,
) -> tuple[list[str], dict[str, str]]:
    """The concepts that are neither too long, nor too similar to a class, nor to a concept that is kept.

    embed_text: n texts -> (n, e), unit rows.
    max_length: letters in a concept, at most.
    class_cutoff, other_cutoff: cosines above which a concept is too similar to a class, or to another
        concept, of which the earlier one stays.

    Returns the concepts kept, and {dropped concept: reason}. Raises ValueError for an empty list, names that
    stand twice, and if no concept is left.
    Source: Oikarinen et al. 2023, section 3.1 and appendix A.
    """
    check_names(concepts)
    dropped = {}
    for name in concepts:
        if len(name) > max_length:
            dropped[name] = f"{len(name)} letters, more than {max_length}"
    kept = [name for name in concepts if name not in dropped]
    if kept:
        kept = _keep_dissimilar(kept, classes, embed_text, class_cutoff, other_cutoff, dropped)
    if not kept:
        first = concepts[0]
        raise ValueError(
            f"none of {len(concepts)} concepts is left by the filters; the first, {first!r}, is dropped as "
            f"{dropped[first]}: raise max_length, class_cutoff or other_cutoff"
        )
    return kept, {name: dropped[name] for name in concepts if name in dropped}


def _keep_dissimilar(concepts, classes, embed_text, class_cutoff, other_cutoff, dropped) -> list[str]:
    """The concepts that pass both cutoffs; the reason why one does not goes into `dropped`."""
    rows = embed_text(concepts)
    to_class = rows @ embed_text(list(classes)).T  # (n, K)
    to_other = rows @ rows.T  # (n, n)
    kept = []
    for i, name in enumerate(concepts):
        cosine, k = to_class[i].max(0)
        if cosine > class_cutoff:
            dropped[name] = f"too similar to the class {classes[k]!r} (cosine {cosine:.2f} > {class_cutoff})"
            continue
        if kept:
            cosine, place = to_other[i, kept].max(0)
            if cosine > other_cutoff:
                other = concepts[kept[place]]
                dropped[name] = f"too similar to the concept {other!r} (cosine {cosine:.2f} > {other_cutoff})"
                continue
        kept.append(i)
    return [concepts[i] for i in kept]

"""Test-time intervention: a person corrects concepts, and the head decides again."""

import torch


def value_range(values: torch.Tensor, rounds: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    """What "absent" and "present" mean on an unbounded scale: the centres of two clusters of each concept.

    Koh et al. 2020 (section 5) take the 5th and 95th percentile. But what is present in 2 % of the images
    lies above the 95th, and for what is present in half of them both are values that heads have hardly seen.
    The clusters (2-means, started at the 1st and 99th percentile) need no labels either.

    values: (N, L), of training images. rounds: of 2-means, at most.
    Returns the lower and the upper centres, two tensors (L,).
    """
    percentiles = torch.tensor([0.01, 0.99], device=values.device, dtype=values.dtype)
    # by column: torch takes no more than 2²⁴ values at once
    low, high = torch.stack([torch.quantile(column, percentiles) for column in values.T], 1)
    for _ in range(rounds):
        nearer_low = (values - low).abs() <= (values - high).abs()  # (N, L)
        before = low, high
        means = []
        for members, centre in ((nearer_low, low), (~nearer_low, high)):
            mean = (values * members).sum(0) / members.sum(0).clamp(min=1)
            means.append(torch.where(members.any(0), mean, centre))
        low, high = means
        if torch.equal(low, before[0]) and torch.equal(high, before[1]):
            break
    return low, high


def intervene(
    values: torch.Tensor,
    known: torch.Tensor | None,
    low: torch.Tensor | float = 0.0,
    high: torch.Tensor | float = 1.0,
) -> torch.Tensor:
    """Concept values with a person's truth put in.

    values: (N, L). known: (N, L), 0 or 1, NaN where nothing is corrected; None corrects nothing.
    low, high: numbers or (L,), the values of what is absent and present. Where `known` is 1, the value
        becomes at least `high`; where it is 0, at most `low`. A value that lies beyond these already stays.

    Raises ValueError for `known` of another shape and truths other than 0 and 1.
    """
    if known is None:
        return values
    known = known.to(values)
    if known.shape != values.shape or not ((known == 0) | (known == 1) | known.isnan()).all():
        raise ValueError(f"known must be 0, 1 or NaN (nobody says anything), of shape {tuple(values.shape)}")
    low, high = torch.as_tensor(low).to(values), torch.as_tensor(high).to(values)
    corrected = torch.where(known == 0, values.minimum(low), values)
    return torch.where(known == 1, values.maximum(high), corrected)

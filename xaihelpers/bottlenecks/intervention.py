"""Test-time intervention: a person corrects concepts, and the head decides anew."""
import torch


def value_range(values: torch.Tensor, rounds: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    """What "absent" and "present" mean on an unbounded scale: the centres of the two clusters of each concept's training values (N, L), two tensors (L,).

    Koh et al. 2020 (section 5) take the 5th and 95th percentile; but what is present in 2 % of the images lies above the 95th, and for what is present in
    half of them both are values that heads have hardly seen. The clusters (two means, started at the 1st and 99th percentile) need no labels either.
    """
    ends = torch.tensor([0.01, 0.99], device=values.device, dtype=values.dtype)
    low, high = torch.stack([torch.quantile(column, ends) for column in values.T], 1)  # by column: torch takes no more than 2²⁴ values at once
    for _ in range(rounds):
        near = (values - low).abs() <= (values - high).abs()  # (N, L)
        new = [torch.where(side.any(0), (values * side).sum(0) / side.sum(0).clamp(min=1), old) for side, old in ((near, low), (~near, high))]
        if torch.equal(new[0], low) and torch.equal(new[1], high):
            break
        low, high = new
    return low, high


def corrected(values: torch.Tensor, known: torch.Tensor | None, low=0.0, high=1.0) -> torch.Tensor:
    """Concept values (N, L) with a person's truth put in: where `known` (N, L) is 1 at least `high`, where it is 0 at most `low`, where it is NaN as they were.

    `low`, `high`: numbers or (L,). A value that says so more clearly already stays. Raises ValueError for
    another shape, truths other than 0 and 1, and a model that does not know its range.
    """
    if known is None:
        return values
    if low is None or high is None:
        raise ValueError("this model has no range of training values (low and high), so a corrected concept cannot be put on its scale: fit it anew")
    if known.shape != values.shape:
        raise ValueError(f"known is {tuple(known.shape)}, but {values.shape[0]} images and {values.shape[1]} concepts need {tuple(values.shape)}: "
                         "NaN where nobody says anything")
    known, low, high = known.to(values), torch.as_tensor(low).to(values), torch.as_tensor(high).to(values)
    if len(bad := ((known != 0) & (known != 1) & ~known.isnan()).nonzero()):
        raise ValueError(f"known must be 0, 1 or NaN, but row {int(bad[0, 0])}, concept {int(bad[0, 1])} is {known[tuple(bad[0])].item():.3g}")
    return torch.where(known == 1, values.maximum(high), torch.where(known == 0, values.minimum(low), values))

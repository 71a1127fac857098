"""Checks of what bottlenecks are fitted on; an error names the first row that is wrong."""

import torch


def check_finite_rows(features: torch.Tensor, what: str = "features") -> None:
    """Raise ValueError, naming the first row, for features (N, d) of which some are NaN or infinite."""
    rows = (~features.isfinite()).any(1).nonzero()
    if len(rows):
        raise ValueError(f"{what} of {len(rows)} images are NaN or infinite, the first in row {int(rows[0])}")


def check_labels(labels: torch.Tensor, n_classes: int) -> None:
    """Raise ValueError for class labels (N,) that are not 0 to `n_classes` − 1."""
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(
            f"labels run from {int(labels.min())} to {int(labels.max())}, but there are {n_classes} classes"
        )


def check_values(values: torch.Tensor, labels: torch.Tensor, n_classes: int) -> None:
    """Raise ValueError for concept values that are NaN or infinite, and as `check_labels` does."""
    if not values.isfinite().all():
        raise ValueError(f"concept values have {int((~values.isfinite()).sum())} NaN or infinite entries")
    check_labels(labels, n_classes)

"""Checks of what bottlenecks are fitted on; an error names the first row that is wrong."""

import torch
from torch import nn

from xaihelpers.outputs import check_names


def check_inputs(
    inputs: torch.Tensor,
    present: torch.Tensor,
    labels: torch.Tensor,
    concepts: list[str],
    classes: list[str],
    trunk: nn.Module | None,
) -> None:
    """Check that inputs, concept labels, class labels and names fit together.

    inputs: features (N, d), or pixels (N, 3, H, W) uint8 with a `trunk`. present: (N, L) in [0, 1].
    labels: (N,), 0 to K − 1.

    Raises ValueError where they do not, and for features that are NaN or infinite.
    """
    check_names(concepts)
    n_images = len(inputs)
    if present.shape != (n_images, len(concepts)) or labels.shape != (n_images,):
        raise ValueError(
            f"{n_images} inputs and {len(concepts)} concepts need present {(n_images, len(concepts))} and "
            f"labels {(n_images,)}, not {tuple(present.shape)} and {tuple(labels.shape)}"
        )
    outside = (~((present >= 0) & (present <= 1))).nonzero()
    if len(outside):
        row, concept = outside[0].tolist()
        value = present[row, concept].item()
        raise ValueError(
            f"concept labels must be in [0, 1], but row {row}, {concepts[concept]!r} is {value:.3g} "
            f"({len(outside)} such in all)"
        )
    check_labels(labels, len(classes))
    if (trunk is not None) != (inputs.dtype == torch.uint8):
        raise ValueError(
            f"inputs {tuple(inputs.shape)} {inputs.dtype}: give pixels (N, 3, H, W) uint8 together with a "
            "trunk, or features (N, d) float without one"
        )
    if trunk is None:
        check_finite_rows(inputs)


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

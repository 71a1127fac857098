"""Does a model recite the class? Asked of ordinary birds that differ from theirs, and of whole vectors (sub).

Neither needs a generator: an attribute that a bird has by its own label and its class has not *deviates*. Who
recites the class claims none of these and all that are typical. Not in the paper; the second measure is its
section 1 in a number.
"""

import torch
from torch import Tensor

KINDS = ("deviating", "typical", "absent")


def kinds_of_attributes(has: Tensor, of_class: Tensor) -> dict[str, Tensor]:
    """Attributes of a bird that deviate from its class, that are typical, that neither has: bool (M, L) each.

    Only attributes that deviate in some bird, so that all three are of the same ones.

    has: bool (M, L), by the labels of the birds. of_class: bool (M, L), by those of their classes.
    """
    deviating = has & ~of_class
    ever = deviating.any(0)
    return dict(zip(KINDS, (deviating, has & of_class & ever, ~has & ~of_class & ever), strict=True))


def exactly_a_class(claims: Tensor, of_classes: Tensor) -> Tensor:
    """Which vectors of claims are exactly those of a class, (D, N) float: 100 or 0.

    claims: bool (D, N, L). of_classes: bool (K, L).
    """
    found = torch.zeros(claims.shape[:2], dtype=torch.bool)
    for vector in of_classes.unique(dim=0):
        found |= (claims == vector).all(2)
    return 100.0 * found

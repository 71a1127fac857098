"""What a model's concepts do when one attribute, and nothing else, is changed or covered.

    own response   r_p = s_p (û_after − û_before)_j, j the attribute changed, s_p = ±1 its direction
    causal effect  e_p = logit_k(after) − logit_k(before), k the class predicted before
    claimed        ê_p = the change of the sum of the concepts' contributions to class k
    agreement      1 − Σ_p |e_p − ê_p| / Σ_p (|e_p| + |ê_p|)                after Abraham et al. 2022
    locality       mean |Δû_j| with the concept's own part covered, less that with another part covered
                                                                            after Raman et al. 2023

The pairs are exact: the same bird drawn, or described, before and after (Goyal et al. 2019 call the mean of
the first over pairs the causal concept effect).
"""

import torch


def own_response(before: torch.Tensor, after: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """By how much the value of the attribute that came rises in each pair, (P,); 1 is the whole scale.

    before, after: (P, L), values on a scale from 0, absent, to 1, present. columns: (P,) int64.
    """
    return (after - before).gather(1, columns[:, None])[:, 0]


def effect_agreement(
    logits_before: torch.Tensor,
    logits_after: torch.Tensor,
    claimed_before: torch.Tensor,
    claimed_after: torch.Tensor,
) -> float:
    """How far the effects that an explanation claims are those that happen: 1 all, 0 none or the opposite.

    logits_before, logits_after: (P,), of the class predicted before.
    claimed_before, claimed_after: (P,), the sum of what the explanation attributes to its concepts.
    Returns NaN where nothing happens and nothing is claimed.
    """
    real, claimed = logits_after - logits_before, claimed_after - claimed_before
    scale = (real.abs() + claimed.abs()).sum()
    return float(1 - (real - claimed).abs().sum() / scale)


def locality(
    values: torch.Tensor, own_covered: torch.Tensor, other_covered: torch.Tensor, has_part: torch.Tensor
) -> torch.Tensor:
    """How much more each image's values change when their own part is covered than when another one is, (N,).

    values, own_covered, other_covered: (N, L), entry j with nothing covered, with the part of concept j
    covered, and with another part covered. has_part: (L,) bool; other concepts are left out.
    """
    own = (own_covered - values)[:, has_part].abs()
    other = (other_covered - values)[:, has_part].abs()
    return (own - other).mean(1)

"""The tie of pairs: its definition by hand, its properties, and the Triton kernel beside the reference."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from xaihelpers.kernels.tie import _tie_triton, tie, tie_reference

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="the compiled kernel needs a CUDA GPU")
SHARES = [0.0, 1e-6, 0.1, 0.37, 0.5, 0.999, 1.0]
KINDS = ["generic", "rounded", "equal", "one apart"]


def predictions_of(shape, kind="generic", seed=0):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    if kind == "rounded":  # many equal distances, many of them zero
        return (2 * x).round()
    if kind in ("equal", "one apart"):
        x = x[: len(x) // 2].repeat(2, *[1] * (x.ndim - 1))
        x.view(-1)[-1] += kind == "one apart"
    return x


def test_ties_by_hand():
    # distances 0, 1, 2, 3, 4: the median is 2, so the first three become their means
    predictions = torch.tensor([[5.0, 5, 5, 5, 5], [5, 6, 7, 2, 9]])
    assert tie(predictions, 0.5).tolist() == [[5, 5.5, 6, 5, 5], [5, 5.5, 6, 2, 9]]
    # places 2.4, 2.96 and 3.04 of 0 to 4: only the last threshold reaches the distance 3
    assert tie(predictions, 0.6).tolist() == tie(predictions, 0.5).tolist()
    assert tie(predictions, 0.74).tolist() != tie(predictions, 0.76).tolist()
    assert tie(predictions, 1.0).tolist() == [[5, 5.5, 6, 3.5, 7]] * 2
    assert torch.equal(tie(predictions, 0.0), predictions)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_quantile(kind):
    for n in (1, 2, 63, 1000, 4096 * 64):  # the last is Flux's
        predictions = predictions_of((6 if n < 2000 else 2, n), kind)
        for share in SHARES:
            assert torch.equal(tie(predictions, share), tie_reference(predictions, share)), (n, share)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_views_and_dtypes(dtype):
    predictions = predictions_of((9, 8, 6)).to(dtype).transpose(1, 2)[1:]
    tied = tie(predictions, 0.4)
    assert not predictions.is_contiguous() and tied.shape == predictions.shape and tied.dtype == dtype
    assert torch.equal(tied, tie_reference(predictions.contiguous(), 0.4))
    free = tied[:4] != tied[4:]
    assert free.any() and torch.equal(tied[:4][free], predictions[:4][free])  # bit for bit, in float64 too


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 40), st.floats(0, 1), st.sampled_from(KINDS), st.integers(0, 99))
def test_properties(pairs, n, share, kind, seed):
    predictions = predictions_of((2 * pairs, n), kind, seed)
    (own, guide), before = tie(predictions, share).chunk(2), predictions.chunk(2)
    torch.testing.assert_close(own + guide, before[0] + before[1], rtol=1e-5, atol=1e-5)
    if share > 0:  # at least so many lie at or below the percentile
        assert ((own == guide).sum(1) >= int(share * (n - 1)) + 1).all()
    alone = torch.cat([tie(predictions[[i, i + pairs]], share)[:1] for i in range(pairs)])
    assert torch.equal(alone, own)  # whatever else is in the batch


def test_bad_arguments_are_named():
    for message, predictions, share in (
        ("odd batch of 3", torch.zeros(3, 4), 0.5),
        ("floating point of shape", torch.zeros(2, 4, dtype=torch.long), 0.5),
        ("eta must lie", torch.zeros(2, 4), float("nan")),
    ):
        with pytest.raises(ValueError, match=message):
            tie(predictions, share)


def check_triton(device, shapes, tolerances, shares):
    """Triton's ties equal the reference's, with whatever was in the buffer that they are written to."""
    cases = itertools.product(shapes, KINDS, tolerances.items(), shares)
    for shape, kind, (dtype, tolerance), share in cases:
        predictions = predictions_of(shape, kind).to(device, dtype)
        poisoned = torch.full_like(predictions, torch.nan)
        tied = _tie_triton(predictions, share, tied=poisoned)
        assert tied is poisoned
        torch.testing.assert_close(tied, tie_reference(predictions, share), rtol=tolerance, atol=0)


@pytest.mark.gpu
@needs_gpu
def test_compiled_triton_kernel():
    exact = {torch.float32: 0, torch.bfloat16: 0, torch.float16: 0}
    check_triton("cuda", [(2, 1), (4, 63), (2, 1000), (6, 4096, 64)], exact, SHARES[1:])


if __name__ == "__main__":
    # bfloat16: the interpreter truncates the last bit where hardware rounds
    check_triton(
        "cpu", [(2, 1), (4, 5, 7), (2, 4100)], {torch.float32: 0, torch.bfloat16: 2**-7}, [1e-6, 0.37]
    )

"""What notebooks 11 to 14 fit and measure is the same on a GPU; without one this is skipped visibly."""

import pytest
import torch
from toy_concepts import toy_dataset

from xaihelpers import bottlenecks
from xaihelpers.kernels import coam
from xaihelpers.scores import alignment


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU to compare the CPU with")
def test_the_same_fit_on_cpu_and_cuda():
    """Samples and ranks are equal, vectors and logits nearly.

    The SVMs are solved to 1e-5 of the range of their decision values on either device, and the head by L-BFGS
    in float32, which stops where it no longer sees the loss fall.
    """
    generator = torch.Generator().manual_seed(2)
    present = (torch.rand(600, 6, generator=generator) < 0.5).float()
    directions = torch.linalg.qr(torch.randn(32, 6, generator=generator)).Q.T  # (6, 32)
    maps = torch.randn(600, 32, 4, 4, generator=generator)
    maps += (2 * (2 * present - 1) @ directions)[:, :, None, None]
    labels = (2 * present[:, 0] + present[:, 1]).long()
    points = torch.rand(600, 2, 2, 2, generator=generator) * 64
    everything = {"train": torch.ones(600, dtype=torch.bool), "labels": labels, "present": present}
    birds = toy_dataset(pooled=maps.mean((2, 3)), **everything)
    fitted = {}
    for device in ("cpu", "cuda"):
        pooled = maps.mean((2, 3)).to(device)
        model = bottlenecks.fit_posthoc_cbm(birds, n=100, device=device)
        rows = bottlenecks.concept_samples(present.to(device), 100).rows
        outputs = model.explain(pooled)
        importance = alignment.concept_importance(outputs, "product")
        existence = alignment.concept_existence(importance, present.to(device), 2)
        rho = alignment.cgim(outputs, labels.to(device), torch.ones(6, 4, device=device))
        every_map = coam.concept_maps(maps.to(device), model.bank)
        ranks = alignment.location_ranks(every_map[:, :2], points.to(device), (64, 64))
        assert {tensor.device.type for tensor in (existence, ranks, model.bank, *rho.values())} == {device}
        assert torch.equal(ranks.cpu(), alignment.location_ranks(every_map[:, :2].cpu(), points, (64, 64)))
        found = rows, model.bank, existence, every_map
        fitted[device] = [*(tensor.cpu() for tensor in found), outputs.cpu()]
    (rows, bank, existence, concept_maps, outputs), on_cuda = fitted["cpu"], fitted["cuda"]
    assert torch.equal(rows, on_cuda[0])
    torch.testing.assert_close(on_cuda[1], bank, rtol=0, atol=1e-3 * float(bank.abs().max()))
    assert (on_cuda[2] - existence).abs().mean() < 0.02
    torch.testing.assert_close(on_cuda[3], concept_maps, rtol=0, atol=2e-3 * float(concept_maps.abs().max()))
    span = float(outputs.logits.max() - outputs.logits.min())
    torch.testing.assert_close(on_cuda[4].logits, outputs.logits, rtol=0, atol=0.02 * span)
    assert (on_cuda[4].predictions == outputs.predictions).float().mean() > 0.99

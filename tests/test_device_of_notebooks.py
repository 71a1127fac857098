"""Notebooks 11 to 13 and 21 give their kernels what is on the run's device, shown without a GPU and with.

Without: the cells of each notebook run as they are, on a pretended GPU (`pretended_gpu`), which keeps all
numbers on the CPU but knows of every tensor where it would be. The kernels and `fit_head` are wrapped: they
note the devices of what they are given, and compute on the CPU. So the test fails where features, labels or
masks stay behind on the CPU, where devices are mixed on the way, and where something is plotted or recorded
that is still on the GPU.

With (marked gpu): the same fit on CPU and CUDA agrees, and the kernel was given tensors on CUDA.
"""

import ast

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
import torch
from notebook_nets import PATHS
from pretended_gpu import GPU, PretendedGpu, mark, on_gpu, tensors_in

from xaihelpers import bottlenecks, models, records
from xaihelpers.bottlenecks import concept_dataset, posthoc, zoo
from xaihelpers.kernels import coam
from xaihelpers.kernels import linear_svm as svm
from xaihelpers.scores import alignment

# what a notebook's kernels are called by, and where: (name, holders of the function)
WRAPPED = {
    "linear_svm": (svm, posthoc),
    "fit_head": (bottlenecks, posthoc),
    "concept_maps": (coam,),
    "location_rank": (alignment,),
    "location_region": (coam, alignment),
}
USED = {
    "11": {"linear_svm", "fit_head"},
    "12": {"linear_svm", "fit_head"},
    "13": {"linear_svm", "fit_head", "concept_maps", "location_rank", "location_region"},
    "21": {"linear_svm", "fit_head"},
}
SMALL = {
    "n_samples": 50,
    "draws": 2,
    "rival": "",
    "permutations": 2,
    "svm_c": 1.0,
    "first": [1, 5],
    "alpha": [1],
    "models": ["phcbm"],
    "clip": "",
    "corrected": [0, 100],
}


class StubRun(records.Run):
    """A run on the pretended GPU, which writes nothing."""

    def finish(self):
        return self.rows()


def with_parameters(source: str, values: dict) -> str:
    """The parameters cell with other values, in a list where it has a list."""
    tree = ast.parse(source)
    for node in tree.body:
        if node.target.id in values:
            value = values[node.target.id]
            is_list = isinstance(node.value, ast.List) and not isinstance(value, list)
            node.value = ast.parse(repr([value] if is_list else value), mode="eval").body
    return ast.unparse(tree)


def cells_of(notebook: str) -> list[str]:
    cells = nbformat.read(PATHS[notebook], as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    return [with_parameters(sources[0], SMALL), *sources[1:]]


@pytest.fixture
def gpu(monkeypatch, tmp_path, drawn_birds):
    """A pretended GPU, on which the run is; kernels and fits note what they are given."""
    mode = PretendedGpu()
    mode.calls = []  # (kernel, devices of its tensors)
    load_backbone, extract_features = models.load_backbone, models.extract_features

    def load_on_gpu(name, weights="", layer="", device="cpu", transform=""):
        assert torch.device(device) == GPU
        with mode.paused():
            return load_backbone(name, weights, layer, "cpu", transform)

    def extract(*args, **kwargs):
        with mode.paused():
            return extract_features(*args, **kwargs)

    def noting(name, function):
        def wrapped(*args, **kwargs):
            devices = {str(tensor.device) for tensor in tensors_in(args) + tensors_in(kwargs)}
            mode.calls.append((name, devices))
            with mode.paused():
                return mark(function(*args, **kwargs), devices == {str(GPU)})

        return wrapped

    for holder in (models, concept_dataset):
        monkeypatch.setattr(holder, "load_backbone", load_on_gpu)
        monkeypatch.setattr(holder, "extract_features", extract)
    # no model fitted on a pretended GPU is kept
    monkeypatch.setattr(zoo, "_read_cached", lambda *args: None)
    monkeypatch.setattr(zoo, "_keep", lambda *args: None)
    monkeypatch.setattr(records, "start", lambda notebook, names: StubRun(notebook, {}, GPU, tmp_path))
    for name, holders in WRAPPED.items():
        function = getattr(holders[0], name)
        for holder in holders:
            monkeypatch.setattr(holder, name, noting(name, function))
    yield mode
    plt.close("all")


@pytest.mark.notebooks
@pytest.mark.parametrize("notebook", USED)
def test_kernels_of_notebooks_get_what_is_on_the_device(gpu, notebook):
    names = {"display": lambda *shown: None}
    with gpu:
        for number, source in enumerate(cells_of(notebook)):
            exec(compile(source, f"{PATHS[notebook].name}, code cell {number + 1}", "exec"), names)
    assert {name for name, _ in gpu.calls} == USED[notebook]
    elsewhere = [(name, devices) for name, devices in gpu.calls if devices != {str(GPU)}]
    assert not elsewhere
    assert names["run"].rows().value.notna().any()


# The pretended GPU itself


def test_the_pretended_gpu_refuses_what_cuda_refuses():
    mode = PretendedGpu()
    with mode:
        here = torch.arange(6.0).reshape(2, 3)
        there = here.to(GPU)
        assert there.device == GPU and there.is_cuda and here.device.type == "cpu" and not here.is_cuda
        assert (there * 2 + 1).sum(0).device == GPU and there.cpu().device.type == "cpu"
        assert torch.zeros(2, device=there.device).is_cuda and there.new_zeros(3).is_cuda
        assert here.to(there).is_cuda and not there.to(here).is_cuda and there.double().is_cuda
        assert there[torch.tensor([1])].is_cuda and (there * torch.tensor(2.0)).is_cuda
        assert [part.is_cuda for part in there.unbind()] == [True, True]
        with pytest.raises(RuntimeError, match="same device"):
            here + there
        with pytest.raises(RuntimeError, match="same device"):
            torch.cat([here, there])
        with pytest.raises(RuntimeError, match="indices should be"):
            here[there[0] > 1]
        with pytest.raises(RuntimeError, match="same device"):
            there[0] = here[0]
        for as_array in (there.numpy, lambda: np.asarray(there), lambda: plt.cm.cividis(there)):
            with pytest.raises(TypeError, match="can't convert cuda:0"):
                as_array()
    assert here.device.type == there.device.type == "cpu" and on_gpu(there)  # its numbers never moved


def test_features_that_stay_behind_are_noticed(gpu):
    """A fit on the CPU beside a run on the GPU is what the test above catches."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(200, 8, generator=generator)
    present = (features[:, :3] > 0).float()
    labels = present[:, 0].long()
    parts = (["p", "q", "r"], ["a", "b"], 20)
    with gpu:
        posthoc.fit_posthoc_cbm(features, present, labels, *parts)
        assert {str(device) for _, devices in gpu.calls for device in devices} == {"cpu"}
        with pytest.raises(ValueError, match="pooled on cuda:0, present on cpu"):
            posthoc.fit_posthoc_cbm(features.to(GPU), present, labels, *parts)
        gpu.calls.clear()
        model, _ = posthoc.fit_posthoc_cbm(features.to(GPU), present.to(GPU), labels.to(GPU), *parts)
        assert {str(device) for _, devices in gpu.calls for device in devices} == {str(GPU)}
        assert model.bank.is_cuda and model.explain(features.to(GPU)).logits.is_cuda


# A real one


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU to compare the CPU with")
def test_the_same_fit_on_cpu_and_cuda(monkeypatch):
    """Samples are equal, vectors and logits nearly.

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
    concepts, classes = [f"concept {j}" for j in range(6)], ["a", "b", "c", "d"]
    given = []

    def noting(features, *args, **kwargs):
        given.append(features.device.type)
        return svm.linear_svm(features, *args, **kwargs)

    monkeypatch.setattr(posthoc, "linear_svm", noting)
    fitted = {}
    for device in ("cpu", "cuda"):
        pooled = maps.mean((2, 3)).to(device)
        model, samples = bottlenecks.fit_posthoc_cbm(
            pooled, present.to(device), labels.to(device), concepts, classes, n=100
        )
        outputs = model.explain(pooled)
        importance = alignment.concept_importance(outputs, "product")
        top = alignment.top_concepts(importance, 2)
        existence = alignment.concept_existence(importance, present.to(device), 2)
        rho = alignment.cgim(outputs, labels.to(device), torch.ones(6, 4, device=device))
        every_map = coam.concept_maps(maps.to(device), model.bank)
        ranks = alignment.location_ranks(every_map[:, :2], points.to(device), (64, 64))
        assert {tensor.device.type for tensor in (top, existence, ranks, *rho.values())} == {device}
        fitted[device] = (
            samples.rows.cpu(),
            model.bank.cpu(),
            outputs.cpu(),
            existence.cpu(),
            every_map.cpu(),
        )
        # the same maps have the same ranks, to the last one
        assert torch.equal(ranks.cpu(), alignment.location_ranks(every_map[:, :2].cpu(), points, (64, 64)))
    assert given == ["cpu", "cuda"]
    (rows, bank, outputs, existence, concept_maps), on_cuda = fitted["cpu"], fitted["cuda"]
    assert torch.equal(rows, on_cuda[0])
    torch.testing.assert_close(on_cuda[1], bank, rtol=0, atol=1e-3 * float(bank.abs().max()))
    span = float(outputs.logits.max() - outputs.logits.min())
    torch.testing.assert_close(on_cuda[2].logits, outputs.logits, rtol=0, atol=0.02 * span)
    assert (on_cuda[2].predictions == outputs.predictions).float().mean() > 0.99
    assert (on_cuda[3] - existence).abs().mean() < 0.02
    torch.testing.assert_close(on_cuda[4], concept_maps, rtol=0, atol=2e-3 * float(concept_maps.abs().max()))

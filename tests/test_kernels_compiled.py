"""The Triton kernels are compiled for GPUs as they would be launched, on any machine, without running.

The interpreter, which runs them on a CPU, forgives what the compiler does not: a number that is 1, say,
becomes a constant of the compiler, and constants have no `.to`.
"""

import pytest
import torch

from xaihelpers.kernels import coam, linear_svm, masking, tie

triton = pytest.importorskip("triton")
compiler = pytest.importorskip("triton.backends.compiler")
jit = pytest.importorskip("triton.runtime.jit")


class NoGpu:
    """A driver without a device, of which the compiler asks for what to compile."""

    def __init__(self, capability):
        self.capability = capability

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return compiler.GPUTarget("cuda", self.capability, 32)


@pytest.fixture(params=[80, 90])
def compiled(request, monkeypatch):
    """Launches compile, for this compute capability, and do not run; the names of the compiled kernels."""
    names, run = [], jit.JITFunction.run

    def only_compile(kernel, *arguments, grid, warmup, **options):
        made = run(kernel, *arguments, grid=grid, warmup=True, **options)
        assert made.asm["cubin"]
        names.append(kernel.fn.__name__)
        return made

    monkeypatch.setattr(triton.runtime.driver, "_active", NoGpu(request.param))
    monkeypatch.setattr(jit.JITFunction, "run", only_compile)
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)  # tensors on the CPU are let through
    # compiled anew, for this target
    for module in (coam, linear_svm, masking, tie):
        for kernel in vars(module).values():
            if isinstance(kernel, jit.JITFunction):
                kernel.device_caches.clear()
    return names


@pytest.mark.parametrize("size, cells", [((1, 1), (1, 1)), ((1, 30), (1, 7)), ((375, 500), (14, 14))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8])
def test_masking(compiled, size, cells, dtype):
    images, maps = torch.ones(2, 3, *size).to(dtype), torch.ones(2, *cells)
    for alpha in (None, 25.0):
        masking._mask_triton(images, maps, None, alpha, 0.4, None, None)
    assert compiled == 2 * ["_mask_kernel"]


@pytest.mark.parametrize("shape, size", [((1, 1), (1, 1)), ((7, 7), (224, 224)), ((1, 14), (1, 500))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_location_ranks(compiled, shape, size, dtype):
    maps, points = torch.ones(3, *shape).to(dtype), torch.zeros(3, 2, 2).long()
    coam._rank_triton(maps, coam._check(maps, points, size), size)
    assert compiled == ["_rank_kernel"]


@pytest.mark.parametrize("problems, samples", [(1, 1), (5, 200), (112, 1000)])
def test_linear_svms(compiled, problems, samples):
    gram = torch.ones(problems, samples, samples).double()
    one = torch.ones(problems, samples).double()
    stop = torch.ones(problems).double()
    linear_svm._sweep_triton(gram, torch.arange(problems), one, one.clone(), one - 1, one, stop, 50)
    assert compiled == ["_sweep_kernel"]


@pytest.mark.parametrize("shape", [(2, 1), (4, 63), (6, 4096, 64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_ties(compiled, shape, dtype):
    tie._tie_triton(torch.ones(shape).to(dtype), 0.7)
    assert set(compiled) == {"_count_kernel", "_narrow_kernel", "_next_kernel", "_blend_kernel"}

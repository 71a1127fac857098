"""The Triton kernels on any machine: run by the interpreter, and compiled for GPUs as they would be launched.

The interpreter, which runs them on a CPU, forgives what the compiler does not: a number that is 1, say,
becomes a constant of the compiler, and constants have no `.to`.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from xaihelpers.kernels import coam, linear_svm, tie

triton = pytest.importorskip("triton")
compiler = pytest.importorskip("triton.backends.compiler")
jit = pytest.importorskip("triton.runtime.jit")


def test_in_the_interpreter():
    """In a process of its own, as Triton is told so when it is imported."""
    names = ("coam", "linear_svm", "tie")
    files = [str(Path(__file__).with_name(f"test_kernels_{name}.py")) for name in names]
    code = f"import runpy\nfor file in {files}:\n    runpy.run_path(file, run_name='__main__')"
    own = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


class NoGpu:
    """A driver without a device, of which the compiler asks for what to compile."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return compiler.GPUTarget("cuda", 90, 32)


@pytest.fixture
def compiled(monkeypatch):
    """Launches compile, for an H100, and do not run; the names of the compiled kernels."""
    names, run = [], jit.JITFunction.run

    def only_compile(kernel, *arguments, grid, warmup, **options):
        made = run(kernel, *arguments, grid=grid, warmup=True, **options)
        assert made.asm["cubin"]
        names.append(kernel.fn.__name__)
        return made

    monkeypatch.setattr(triton.runtime.driver, "_active", NoGpu())
    monkeypatch.setattr(jit.JITFunction, "run", only_compile)
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)  # tensors on the CPU are let through
    # compiled anew, for this target
    for module in (coam, linear_svm, tie):
        for kernel in vars(module).values():
            if isinstance(kernel, jit.JITFunction):
                kernel.device_caches.clear()
    return names


def test_every_kernel_compiles_for_every_kind_of_input(compiled):
    for shape, size in (((1, 1), (1, 1)), ((7, 7), (224, 224))):
        maps, points = torch.ones(3, *shape).half(), torch.zeros(3, 2, 2).long()
        coam._rank_triton(maps, coam._check(maps, points, size), size)
    for problems, samples in ((1, 1), (112, 1000)):
        gram, y = torch.ones(problems, samples, samples).double(), torch.ones(problems, samples).double()
        linear_svm._solve_triton(gram, y, torch.ones(problems).double())
    for dtype, shape in ((torch.float32, (2, 1)), (torch.bfloat16, (6, 4096, 64))):
        tie._tie_triton(torch.ones(shape).to(dtype), 0.7)
    each = {"_rank_kernel": 2, "_sweep_kernel": 2, "_tie_kernel": 2}
    assert Counter(compiled) == each

"""Which implementation of an operation runs: Triton's kernel on a GPU, torch elsewhere."""

import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without Triton keeps the torch paths
    triton = tl = None


def choose_backend(backend: str, tensor: torch.Tensor, fits: bool = True) -> str:
    """ "torch" or "triton", for a tensor that an operation is asked to work on.

    backend: "auto" (Triton for a tensor on a GPU, else torch), or the name of the one that is meant.
    fits: whether the kernel can hold the tensor.

    Raises ValueError for another name; RuntimeError for "triton" where it cannot run.
    """
    if backend not in ("auto", "torch", "triton"):
        raise ValueError(f"backend must be 'auto', 'torch' or 'triton', got {backend!r}")
    if backend == "auto":
        return "triton" if triton and tensor.is_cuda and fits else "torch"
    if backend == "triton" and triton is None:
        raise RuntimeError("backend='triton' needs the package triton, which is not installed")
    if backend == "triton" and not (fits and (tensor.is_cuda or triton.knobs.runtime.interpret)):
        raise RuntimeError(
            f"backend='triton' needs tensors on a GPU, and of a size that a program can hold; got "
            f"{tuple(tensor.shape)} on {tensor.device}"
        )
    return backend

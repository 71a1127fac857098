"""A GPU where there is none: tensors keep their numbers on the CPU, and behave as if they lay on "cuda:0"."""

import contextlib

import torch
from torch.overrides import TorchFunctionMode

GPU = torch.device("cuda", 0)


def tensors_in(value) -> list[torch.Tensor]:
    """All tensors of nested sequences and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return []
    return [tensor for part in value for tensor in tensors_in(part)]


def on_gpu(tensor: torch.Tensor) -> bool:
    return getattr(tensor, "pretended", False)


def _is_gpu(device) -> bool:
    return torch.device(device).type == "cuda"


class PretendedGpu(TorchFunctionMode):
    """Inside it every call of torch is intercepted, and a mark on each tensor says where it would be.

    It refuses, with torch's own errors, what CUDA refuses: an operation on tensors of both devices (numbers
    without dimensions aside), an index on the GPU into a tensor on the CPU, and a tensor on the GPU as an
    array.
    """

    def __init__(self):
        super().__init__()
        self.is_paused = False

    @contextlib.contextmanager
    def paused(self):
        """Inside, torch is as it is: all tensors are on the CPU."""
        before, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = before

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.is_paused:
            return function(*args, **kwargs)
        own = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if function == torch.Tensor.device.__get__:
            return GPU if on_gpu(own) else function(*args)
        if function == torch.Tensor.is_cuda.__get__:
            return on_gpu(own)
        if function is torch.Tensor.cpu:
            return own.detach()
        if function is torch.Tensor.to:
            return self._to(own, args[1:], kwargs)
        if function in (torch.Tensor.numpy, torch.Tensor.__array__) and on_gpu(own):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            self._check_index(own, args)
            where = on_gpu(own)
        else:
            where = self._common_device(function, args, kwargs)
        if kwargs.get("device") is not None:
            where = _is_gpu(kwargs["device"])
            kwargs = kwargs | {"device": "cpu"}
        return mark(function(*args, **kwargs), where)

    def _to(self, tensor, args, kwargs):
        where, rest = on_gpu(tensor), []
        for value in [*args, kwargs.get("device")]:
            if isinstance(value, torch.Tensor):
                where = on_gpu(value)
                rest.append(value.dtype)
            elif isinstance(value, str | torch.device):
                where = _is_gpu(value)
            elif isinstance(value, torch.dtype):
                rest.append(value)
        dtype = kwargs.get("dtype") or (rest[0] if rest else tensor.dtype)
        # another object, as on another device: marks are on objects
        return mark(tensor.to(dtype).detach(), where)

    @staticmethod
    def _check_index(tensor, args):
        index, value = args[1], tensors_in(args[2:])
        if not on_gpu(tensor) and any(on_gpu(part) for part in tensors_in(index)):
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
            )
        if any(part.ndim and on_gpu(part) != on_gpu(tensor) for part in value):
            raise RuntimeError("Expected all tensors to be on the same device: a value that is set")

    @staticmethod
    def _common_device(function, args, kwargs) -> bool:
        tensors = tensors_in(args) + tensors_in(kwargs)
        where = any(on_gpu(tensor) for tensor in tensors)
        if where and any(tensor.ndim and not on_gpu(tensor) for tensor in tensors):
            name = getattr(function, "__name__", function)
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {name} got cuda:0 and cpu"
            )
        return where


def mark(result, where: bool):
    """The same result, its tensors marked as on the GPU (or not)."""
    for tensor in tensors_in(result):
        if where or on_gpu(tensor):
            tensor.pretended = where
    return result

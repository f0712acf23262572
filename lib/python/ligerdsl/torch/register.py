"""Operators torch.ops.ligerdsl.*: what torch.compile, fake tensors, modes and subclasses of tensors go through."""

import torch

from .. import _bind
from ..errors import NotSupported

_library = torch.library.Library("ligerdsl", "DEF")


def or_empty(tensor, like):
    """Operators have a fixed number of results: one that is not made is empty."""
    return torch.empty(0, dtype=like.dtype, device=like.device) if tensor is None else tensor


def register(name, schema, operator, fake):
    _library.define(name + schema, tags=(torch.Tag.needs_fixed_stride_order,))
    for device in ("CPU", "CUDA"):
        _library.impl(name, operator, device)
    torch.library.register_fake(f"ligerdsl::{name}", fake, lib=_library)


def _workspace(device):
    """A function that gives so many bytes of a GPU's memory on the current stream. torch.empty takes twice the time."""
    return torch.empty(0, dtype=torch.uint8, device=torch.device("cuda", device)).new_empty


_bind.set_torch(torch.Tensor, torch.nn.Parameter, torch._C._len_torch_dispatch_stack,
                getattr(torch._C, "_cuda_getCurrentRawStream", None))
_bind.set_workspace(_workspace)
_raw = [getattr(torch._C, f"_cuda_{name}", None) for name in ("cudaCachingAllocator_raw_alloc", "cudaCachingAllocator_raw_delete", "getDevice")]
if all(_raw):  # of torch with CUDA: the same memory without a tensor around it
    _bind.set_raw_workspace(*_raw)

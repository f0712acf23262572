"""Operators torch.ops.ligerdsl.*, for torch.compile, fake tensors, modes and tensor subclasses."""

import torch

from .. import _bind
from ..errors import NotSupported

_library = torch.library.Library("ligerdsl", "DEF")

NO_TRANSFORMS = ("transforms of torch.func (grad, vmap, jvp, jacrev) are not supported; use "
                 "torch.autograd.grad, and one more leading dimension in place of vmap")
_wraps = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor",
                 lambda tensor: False)


def explained(tensor):
    """Returns the reason why a tensor has no memory to compute with, or None."""
    if _wraps(tensor):
        return NO_TRANSFORMS
    if tensor.is_meta:
        return ("expected a tensor with memory, got one on the meta device; give it memory with "
                "to_empty(device=...) and load its values")
    if tensor.layout is not torch.strided:
        return f"expected a dense tensor, got one with the layout {tensor.layout}; call to_dense()"
    return None



def or_empty(tensor, like):
    """Returns an empty tensor for None, because operators have a fixed number of results."""
    return torch.empty(0, dtype=like.dtype, device=like.device) if tensor is None else tensor


def is_taken(x, columns, any_stride=False):
    """Returns true if the library accepts x without a copy, by the rule of lib/abi/bind.cpp.

    The last `columns` dimensions may have any strides. The dimensions before them are joined and
    must be evenly strided. The last dimension needs a stride of 1, unless any_stride."""
    if x.is_contiguous() or x.numel() == 0:
        return True
    count, step = 1, 0
    for size, stride in zip(reversed(x.shape[:x.dim() - columns]),
                            reversed(x.stride()[:x.dim() - columns])):
        if size != 1:
            if count != 1 and stride != step * count:
                return False
            step = stride if count == 1 else step
            count = count * size
    size, stride = (x.shape[-1], x.stride(-1)) if columns else (count, step)
    return any_stride or size == 1 or stride == 1


def like(x, columns, any_stride=False, dtype=None):
    """Returns the fake of a result like x, with x's strides if the library accepts them, else
    contiguous."""
    if is_taken(x, columns, any_stride):
        return torch.empty_like(x, dtype=dtype)
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


def register(name, schema, operator, fake):
    _library.define(name + schema, tags=(torch.Tag.needs_fixed_stride_order,))
    for device in ("CPU", "CUDA"):
        _library.impl(name, operator, device)
    torch.library.register_fake(f"ligerdsl::{name}", fake, lib=_library)


def _workspace(device):
    """Returns a function that allocates GPU memory on the current stream, by bytes.

    torch.empty takes twice the time."""
    return torch.empty(0, dtype=torch.uint8, device=torch.device("cuda", device)).new_empty


_bind.set_torch(torch.Tensor, torch.nn.Parameter, torch._C._len_torch_dispatch_stack,
                getattr(torch._C, "_cuda_getCurrentRawStream", None), explained)
_bind.set_workspace(_workspace)
_raw = [getattr(torch._C, f"_cuda_{name}", None) for name in (
    "cudaCachingAllocator_raw_alloc", "cudaCachingAllocator_raw_delete", "getDevice")]
if all(_raw):  # only torch with CUDA has these functions, which allocate without creating a tensor
    _bind.set_raw_workspace(*_raw)

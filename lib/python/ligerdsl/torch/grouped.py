"""Grouped matmul: each group of rows has its own matrix, as in the experts of a mixture."""

import torch
from torch.autograd import Function

from .. import ops as arrays
from .dispatch import (added, call, device_type, first_order, gradient, is_direct, main_grad_of,
                       operations, wants_grad)


def _product(x, weight, offsets, transposed):
    made = operations(x, weight, offsets)
    return (made.grouped_matmul_nt if transposed else made.grouped_matmul_nn)(x, weight, offsets)


def _d_weight(rows, columns, offsets, weight):
    """Returns the gradient of the weight in the weight's dtype, or None after adding it to
    main_grad.

    The weights are [E, width of rows, width of columns]."""
    groups, main_grad = weight.shape[0], main_grad_of(weight)
    if main_grad is not None and main_grad.dtype == torch.float32 and is_direct(rows, columns,
                                                                                offsets, main_grad):
        arrays.grouped_matmul_tn(rows, columns, offsets, n_groups=groups, c=main_grad,
                                 accumulate=True)
        added(weight, main_grad)
        return None
    made = operations(rows, columns, offsets).grouped_matmul_tn(
        rows, columns, offsets, n_groups=groups, c_dtype=weight.dtype)
    if main_grad is None:
        return made
    main_grad.add_(made)
    added(weight, main_grad)
    return None


class GroupedLinearFunction(Function):
    @staticmethod
    def forward(ctx, x, weight, offsets, transposed):
        taken = weight.to(x.dtype)
        ctx.save_for_backward(x, taken, weight, offsets)
        ctx.transposed = transposed
        return _product(x, taken, offsets, transposed)

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        x, taken, weight, offsets = ctx.saved_tensors
        needs_x, needs_weight, *_ = ctx.needs_input_grad
        d_y = gradient(d_y, "grouped_matmul")
        d_weight = None
        if needs_weight:
            d_weight = _d_weight(*((d_y, x) if ctx.transposed else (x, d_y)), offsets, weight)
        return (_product(d_y, taken, offsets, not ctx.transposed) if needs_x else None, d_weight,
                None, None)


def grouped_linear(x, weight, offsets, *, transposed=True):
    """Multiplies the rows of each group by the group's matrix.

    * x: [T, K], rows sorted by group.
    * weight: [E, N, K], y = x weight[e]^T as in nn.Linear; with transposed=False [E, K, N], y = x
      weight[e].
    * offsets: int32 or int64 [E + 1] on x's device. Group e has the rows [offsets[e], offsets[e +
      1]); it may be empty. The device reads the offsets, so the host does not wait.

    Under autocast, x and weight are cast as in torch.nn.functional.linear; the weight's gradient
    has the weight's dtype and is not rounded to the cast's. Rows outside all groups have result 0
    and gradient 0. Offsets that decrease or exceed x's rows raise BoundsError, on a GPU later
    (ligerdsl.check)."""
    casts = torch.is_autocast_enabled(device_type(x))
    if casts:
        x = x.to(torch.get_autocast_dtype(x.device.type))
    if wants_grad(x, weight) and (casts or weight.dtype == x.dtype):
        return call(GroupedLinearFunction, x, weight, offsets, transposed)
    return _product(x, weight.to(x.dtype) if casts else weight, offsets, transposed)

"""Matmuls with autograd: a linear layer with its activation, and matmul with torch's shapes."""

import torch
from torch.autograd import Function

from .. import ops as arrays
from ..enums import Activation, Epilogue
from ..errors import InvalidArgument
from .dispatch import (added, call, choice, first_order, gradient, is_direct, main_grad_of,
                       names_of, operations, require_tensors, wants_grad)
from .fused_linear import accumulated
from .rows import sum_dtype

_ACTIVATIONS = names_of(Activation)
_EPILOGUES = (
    {None: int(Epilogue.NONE)} | {int(kind): int(Epilogue[kind.name]) for kind in Activation})
# activations whose derivative is a function of their result
_IN_EPILOGUE = (None, int(Activation.RELU))

# Matmuls for d_a and d_b, by the layout of c = a b. Each is (operand, operand, layout); d is the
# gradient of c. A layout has a letter per operand: n if it is stored as is, t if transposed.
_GRADIENTS = {
    "nn": (("d", "b", "nt"), ("a", "d", "tn")), "nt": (("d", "b", "nn"), ("d", "a", "tn")),
    "tn": (("b", "d", "nt"), ("a", "d", "nn")), "tt": (("b", "d", "tt"), ("d", "a", "tt"))}


def _operation(layout, batched):
    return f"batched_matmul_{layout}" if batched else f"matmul_{layout}"


def _product(a, b, layout, batched, bias=None, epilogue=0, dtype=None):
    """Returns the matmul's result in new memory. dtype: default a's dtype."""
    rows = (a.shape[-1],) if layout[0] == "t" else a.shape[-2:-1] if batched else a.shape[:-1]
    batch = a.shape[:1] if batched else ()
    c = a.new_empty((*batch, *rows, b.shape[-2 if layout[1] == "t" else -1]),
                    dtype=dtype or a.dtype)
    getattr(operations(a, b, bias), _operation(layout, batched))(a, b, bias, c, epilogue=epilogue)
    return c


def _gradient_of(operand, a, b, layout, batched):
    """Returns the gradient of an operand in its dtype, or None after adding it to its main_grad."""
    main_grad = main_grad_of(operand)
    if main_grad is not None and main_grad.dtype == torch.float32 and is_direct(a, b, main_grad):
        getattr(arrays, _operation(layout, batched))(a, b, None, main_grad, beta=1.0)
        added(operand, main_grad)
        return None
    dtype = operand.dtype if operand.dtype in (a.dtype, torch.float32) else a.dtype
    return accumulated(operand, _product(a, b, layout, batched, dtype=dtype).to(operand.dtype))


class ProductFunction(Function):
    """activation(a b + bias). The forward itself casts b to a's dtype, so that b's gradient is not
    rounded to that dtype.

    numbers: layout, whether the matmul is batched, the activation or None."""

    @staticmethod
    def forward(ctx, a, b, bias, numbers):
        layout, batched, kind = ctx.numbers = numbers
        taken = b.to(a.dtype)
        if kind in _IN_EPILOGUE:
            y = _product(a, taken, layout, batched, bias, _EPILOGUES[kind])
            sums = None if kind is None else y
        else:
            sums = _product(a, taken, layout, batched, bias)
            y = operations(sums).activation_forward(sums, kind=kind)
        ctx.save_for_backward(a, b, taken, bias, sums)
        return y

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        layout, batched, kind = ctx.numbers
        a, b, taken, bias, sums = ctx.saved_tensors
        needs_a, needs_b, needs_bias, _ = ctx.needs_input_grad
        d = gradient(d_y, _operation(layout, batched))
        if kind is not None:
            d = operations(d, sums).activation_backward(d, sums, kind=kind)
        operands = {"a": a, "b": taken, "d": d}
        made = []
        for operand, needed, (one, other, of) in zip((a, b), (needs_a, needs_b),
                                                     _GRADIENTS[layout]):
            made.append(
                _gradient_of(operand, operands[one], operands[other], of, batched) if needed
                else None)
        d_bias = None
        if needs_bias:
            sums_of_columns = operations(d).bias_add_backward(d,
                                                              d_bias_dtype=sum_dtype(d, bias.dtype))
            d_bias = accumulated(bias, sums_of_columns.to(bias.dtype))
        return *made, d_bias, None


def _as_in_memory(matrix, may_be_transposed=True):
    """Returns the matrix and "n", or if its transpose is stored by rows, the transpose and "t"."""
    if may_be_transposed and matrix.stride(-1) != 1 and matrix.stride(-2) == 1:
        return matrix.mT, "t"
    return matrix, "n"


def _run(a, b, bias, layout, batched, kind, casts):
    if wants_grad(a, b, bias) and (casts or a.dtype == b.dtype):
        return call(ProductFunction, a, b, bias, (layout, batched, kind))
    return _product(a, b.to(a.dtype) if casts else b, layout, batched, bias, _EPILOGUES[kind])


def _autocast_dtype(tensor):
    """Returns the dtype to which autocast casts operands of matmuls on this device, or None."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def linear(x, weight, bias=None, activation=None):
    """Returns activation(x weight^T + bias), like torch.nn.functional.linear.

    * x: [..., K], f32, f16 or bf16.
    * weight: [N, K], of x's dtype. The transpose of a weight stored by rows is not copied.
    * bias: [N], of x's dtype or f32, or None.
    * activation: None, "gelu_tanh", "gelu_erf", "silu", "relu" or "relu_squared".

    Returns [..., N] of x's dtype; the accumulator is f32. For ReLU, or without gradients, the
    activation is in the epilogue. Otherwise the matmul's result is stored in x's dtype for
    backward, and the activation is a second kernel. The gradient of a frozen input is not computed.
    Under autocast x and weight are cast as torch casts them, and the weight's gradient keeps the
    weight's dtype. With config.main_grad the matmul adds the weight's gradient to its f32
    main_grad. Mismatched shapes or dtypes raise InvalidArgument, an unknown activation ValueError.
    There is no sharding for DTensors."""
    require_tensors("linear", x=x, weight=weight)
    if weight.dim() != 2 or x.dim() < 1 or x.shape[-1] != weight.shape[-1]:
        raise InvalidArgument(f"linear: expected x [..., K] and weight [N, K], got {list(x.shape)} "
                              f"and {list(weight.shape)}")
    kind = None if activation is None else choice("activation", activation, _ACTIVATIONS)
    dtype = _autocast_dtype(x)
    if dtype is not None:
        x, bias = (x.to(dtype),
                   bias if bias is None or bias.dtype == torch.float32 else bias.to(dtype))
    weight, of_weight = _as_in_memory(weight)
    return _run(x, weight, bias, "nt" if of_weight == "n" else "nn", False, kind, dtype is not None)


def matmul(a, b):
    """Returns a b, with the shapes of torch.matmul.

    a: [..., M, K] or [K]. b: [..., K, N] or [K]. Both have one dtype: f32, f16 or bf16. Leading
    dimensions are broadcast. Returns [..., M, N], without M or N if that operand has one dimension;
    the accumulator is f32. Matrices whose transposes are stored by rows are not copied. If b has
    two dimensions, the leading dimensions of a count as rows. Under autocast both are cast as torch
    casts them. Mismatched shapes or dtypes raise InvalidArgument."""
    require_tensors("matmul", a=a, b=b)
    if a.dim() == 0 or b.dim() == 0 or a.shape[-1] != b.shape[-2 if b.dim() > 1 else -1]:
        raise InvalidArgument("matmul: expected a [..., M, K] and b [..., K, N], got "
                              f"{list(a.shape)} and {list(b.shape)}")
    dtype = _autocast_dtype(a)
    if dtype is not None:
        a = a.to(dtype)
    rows, columns = a.dim() > 1, b.dim() > 1
    a, b = a if rows else a.unsqueeze(0), b if columns else b.unsqueeze(-1)
    batched = b.dim() > 2
    if batched:
        try:
            batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except RuntimeError:
            raise InvalidArgument("matmul: leading dimensions cannot be broadcast: "
                                  f"{list(a.shape)} and {list(b.shape)}") from None
        a, b = (
            t.expand(*batch, *t.shape[-2:]).reshape(batch.numel(), *t.shape[-2:]) for t in (a, b))
    a, of_a = _as_in_memory(a, batched or a.dim() == 2)
    b, of_b = _as_in_memory(b)
    c = _run(a, b, None, of_a + of_b, batched, None, dtype is not None)
    c = c.view(*batch, *c.shape[-2:]) if batched else c
    c = c if columns else c.squeeze(-1)
    return c if rows else c.squeeze(-1 if not columns else -2)

"""Row functions whose backward uses the forward's result or input, such as softmax, activations and
dropout."""

import torch
from torch.autograd import Function

from ..enums import Activation
from .direct import direct
from .dispatch import call, choice, first_order, gradient, names_of, operations, wants_grad

_ACTIVATIONS = names_of(Activation)


class SoftmaxFunction(Function):
    @staticmethod
    def forward(ctx, x, numbers):
        scale, causal = ctx.numbers = numbers
        y = operations(x).softmax_forward(x, scale=scale, causal=causal)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        y, = ctx.saved_tensors
        d_y = gradient(d_y, "softmax_backward")
        scale, causal = ctx.numbers
        return operations(y, d_y).softmax_backward(y, d_y, scale=scale, causal=causal), None


_direct_softmax = direct(SoftmaxFunction, "x", "scale causal", "d_y",
                         forward="softmax_forward x y=x .scale .causal", saved="y",
                         backward="softmax_backward y d_y d_x=y .scale .causal", gradients="d_x")


def softmax(x, *, scale=1.0, causal=False):
    """Returns softmax(scale * x) over the last dimension. causal: the last two dimensions are
    queries and keys; later keys are masked."""
    if wants_grad(x):
        return call(SoftmaxFunction, x, (scale, causal), within=_direct_softmax)
    return operations(x).softmax_forward(x, scale=scale, causal=causal)


class SparsemaxFunction(Function):
    @staticmethod
    def forward(ctx, x):
        y = operations(x).sparsemax_forward(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        y, = ctx.saved_tensors
        d_y = gradient(d_y, "sparsemax_backward")
        return operations(y, d_y).sparsemax_backward(y, d_y)


def sparsemax(x):
    """The nearest point of the simplex to each row of the last dimension."""
    return call(SparsemaxFunction, x) if wants_grad(x) else operations(x).sparsemax_forward(x)


class ActivationFunction(Function):
    @staticmethod
    def forward(ctx, x, numbers):
        kind, = ctx.numbers = numbers
        ctx.save_for_backward(x)
        return operations(x).activation_forward(x, kind=kind)

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        x, = ctx.saved_tensors
        d_y = gradient(d_y, "activation_backward")
        return operations(d_y, x).activation_backward(d_y, x, kind=ctx.numbers[0]), None


_direct_activation = direct(ActivationFunction, "x", "kind", "d_y",
                            forward="activation_forward x y=x .kind", saved="x",
                            backward="activation_backward d_y x d_x=x .kind 0", gradients="d_x")


def activation(x, kind="gelu_tanh"):
    """Applies an activation to each element. `kind`: "gelu_tanh", "gelu_erf", "silu", "relu" or
    "relu_squared"."""
    kind = choice("kind", kind, _ACTIVATIONS)
    if wants_grad(x):
        return call(ActivationFunction, x, (kind,), within=_direct_activation)
    return operations(x).activation_forward(x, kind=kind)


class DropoutFunction(Function):
    @staticmethod
    def forward(ctx, x, residual, p, seed, offset):
        ctx.numbers = (p, seed, offset)
        return operations(x, residual).dropout_forward(x, residual, p=p, seed=seed, offset=offset)

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        p, seed, offset = ctx.numbers
        needs_x, needs_residual, *_ = ctx.needs_input_grad
        d_x = None
        if needs_x:
            d_y = gradient(d_y, "dropout_backward")
            d_x = operations(d_y).dropout_backward(d_y, p=p, seed=seed, offset=offset)
        return d_x, d_y if needs_residual else None, None, None, None


def dropout(x, p=0.5, *, residual=None, seed=None, offset=0):
    """Dropout, added to `residual` if given. No mask is stored: seed and offset determine the
    dropped elements.

    Without a seed, one is drawn from torch's CPU generator."""
    if seed is None:
        seed = int(torch.randint(-2**63, 2**63 - 1, ()))
    if wants_grad(x, residual):
        return call(DropoutFunction, x, residual, p, seed, offset)
    return operations(x, residual).dropout_forward(x, residual, p=p, seed=seed, offset=offset)


class BiasAddFunction(Function):
    @staticmethod
    def forward(ctx, x, bias):
        ctx.bias_dtype = bias.dtype
        return operations(x, bias).bias_add_forward(x, bias)

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        needs_x, needs_bias = ctx.needs_input_grad
        d_bias = None
        if needs_bias:
            rows = gradient(d_y, "bias_add_backward")
            d_bias = operations(rows).bias_add_backward(
                rows, d_bias_dtype=sum_dtype(rows, ctx.bias_dtype)).to(ctx.bias_dtype)
        return d_y if needs_x else None, d_bias


def sum_dtype(rows, wanted):
    """Returns the dtype of column sums: `wanted` if it is the rows' dtype, else f32."""
    return wanted if wanted in (torch.float32, rows.dtype) else torch.float32


def bias_add(x, bias):
    """Adds bias to each row of x."""
    return call(BiasAddFunction, x, bias) if wants_grad(x, bias) else operations(
        x, bias).bias_add_forward(x, bias)


class EmbeddingFunction(Function):
    @staticmethod
    def forward(ctx, indices, weight, padding_idx, first_row, total_rows):
        ctx.save_for_backward(indices)
        ctx.weight_like = (weight.shape[0], weight.dtype)
        ctx.padding_idx, ctx.shard = padding_idx, dict(first_row=first_row, total_rows=total_rows)
        return operations(indices, weight).embedding_forward(indices, weight, **ctx.shard)

    @staticmethod
    @first_order
    def backward(ctx, d_out):
        indices, = ctx.saved_tensors
        n_rows, dtype = ctx.weight_like
        if ctx.padding_idx is not None:
            indices = indices.masked_fill(indices == ctx.padding_idx, -1)  # index -1 adds no
                                                                           # gradient
        d_out = gradient(d_out, "embedding_backward")
        d_weight, _ = operations(indices, d_out).embedding_backward(
            indices, d_out, n_rows=n_rows, d_weight_dtype=dtype, **ctx.shard)
        return None, d_weight, None, None, None


def embedding(indices, weight, padding_idx=None, *, first_row=0, total_rows=0):
    """Returns rows of weight. The row `padding_idx` gets no gradient.

    total_rows: if not 0, weight is a shard: the rows from `first_row` on, of a table with this
    number of rows. Indices of other shards give zero rows and no gradient, so the sum over shards
    is the embedding. padding_idx then refers to the whole table."""
    if padding_idx is not None and padding_idx < 0:
        padding_idx += total_rows or weight.shape[0]
    if wants_grad(weight):
        return call(EmbeddingFunction, indices, weight, padding_idx, first_row, total_rows)
    return operations(indices, weight).embedding_forward(indices, weight, first_row=first_row,
                                                         total_rows=total_rows)

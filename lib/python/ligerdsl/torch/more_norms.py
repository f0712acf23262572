"""GroupNorm, PolyNorm, DyT, and RMSNorm with a modulation (AdaLN)."""

from torch.autograd import Function

from ..enums import Casting
from .dispatch import (call, choice, dtype_if, first_order, gradient, names_of, operations,
                       require_torch, wants_grad)

_CASTING = names_of(Casting)


class GroupNormFunction(Function):
    @staticmethod
    def forward(ctx, x, weight, bias, n_groups, eps):
        y, mean, rstd = operations(x, weight, bias).group_norm_forward(
            x, weight, bias, n_groups=n_groups, eps=eps, with_mean=True, with_rstd=True)
        ctx.save_for_backward(x, weight, bias, mean, rstd)
        return y

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        x, weight, bias, mean, rstd = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        d_y = gradient(d_y, "group_norm_backward")
        d_x, d_weight, d_bias = operations(d_y, x, weight, mean, rstd).group_norm_backward(
            d_y, x, weight, mean, rstd, without_d_x=not needs_x,
            d_weight_dtype=dtype_if(needs_weight, weight), d_bias_dtype=dtype_if(needs_bias, bias))
        return (d_x if needs_x else None, d_weight if needs_weight else None,
                d_bias if needs_bias else None, None, None)


def group_norm(x, num_groups, weight, bias=None, eps=1e-5):
    """Returns GroupNorm of x [batch, channel, ...]."""
    require_torch((x, weight, bias))
    flat = x.flatten(2) if x.dim() > 3 else x.unsqueeze(-1) if x.dim() == 2 else x
    if wants_grad(x, weight, bias):
        y = call(GroupNormFunction, flat, weight, bias, num_groups, eps)
    else:
        y = operations(flat, weight, bias).group_norm_forward(flat, weight, bias,
                                                              n_groups=num_groups, eps=eps)[0]
    return y.view(x.shape)


class PolyNormFunction(Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        y, rstd = operations(x, weight, bias).poly_norm_forward(x, weight, bias, eps=eps,
                                                                with_rstd=True)
        ctx.save_for_backward(x, weight, rstd)
        ctx.bias_dtype = bias.dtype
        return y

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        x, weight, rstd = ctx.saved_tensors
        _, needs_weight, needs_bias, _ = ctx.needs_input_grad
        d_y = gradient(d_y, "poly_norm_backward")
        d_x, d_weight, d_bias = operations(d_y, x, weight, rstd).poly_norm_backward(
            d_y, x, weight, rstd, d_weight_dtype=dtype_if(needs_weight, weight),
            d_bias_dtype=ctx.bias_dtype if needs_bias else None)
        return d_x, d_weight if needs_weight else None, d_bias if needs_bias else None, None


def poly_norm(x, weight, bias, eps=1e-6):
    """Returns weight[0] * norm(x^3) + weight[1] * norm(x^2) + weight[2] * norm(x) + bias. bias has
    one element."""
    if wants_grad(x, weight, bias):
        return call(PolyNormFunction, x, weight, bias, eps)
    return operations(x, weight, bias).poly_norm_forward(x, weight, bias, eps=eps)[0]


class DyTFunction(Function):
    @staticmethod
    def forward(ctx, x, alpha, weight, bias):
        ctx.save_for_backward(x, alpha, weight, bias)
        return operations(x, alpha, weight, bias).dyt_forward(x, alpha, weight, bias)

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        x, alpha, weight, bias = ctx.saved_tensors
        needs_x, needs_alpha, needs_weight, needs_bias = ctx.needs_input_grad
        d_y = gradient(d_y, "dyt_backward")
        d_x, d_alpha, d_weight, d_bias = operations(d_y, x, alpha, weight).dyt_backward(
            d_y, x, alpha, weight, without_d_x=not needs_x,
            d_alpha_dtype=dtype_if(needs_alpha, alpha),
            d_weight_dtype=dtype_if(needs_weight, weight), d_bias_dtype=dtype_if(needs_bias, bias))
        return (d_x if needs_x else None, d_alpha if needs_alpha else None,
                d_weight if needs_weight else None, d_bias if needs_bias else None)


def dyt(x, alpha, weight, bias=None):
    """Returns weight * tanh(alpha * x) + bias. alpha has one element."""
    if wants_grad(x, alpha, weight, bias):
        return call(DyTFunction, x, alpha, weight, bias)
    return operations(x, alpha, weight, bias).dyt_forward(x, alpha, weight, bias)


class ModulatedRMSNormFunction(Function):
    @staticmethod
    def forward(ctx, x, weight, scale, shift, eps, offset, casting):
        y, rstd = operations(x, weight, scale, shift).modulated_rms_norm_forward(
            x, weight, scale, shift, eps=eps, offset=offset, casting=casting, with_rstd=True)
        ctx.save_for_backward(x, weight, scale, shift, rstd)
        ctx.numbers = {"offset": offset, "casting": casting}
        return y

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        x, weight, scale, shift, rstd = ctx.saved_tensors
        needs_x, needs_weight, needs_scale, needs_shift, *_ = ctx.needs_input_grad
        d_y = gradient(d_y, "modulated_rms_norm_backward")
        d_x, d_weight, d_scale, d_shift = operations(d_y, x, weight, scale,
                                                     rstd).modulated_rms_norm_backward(
            d_y, x, weight, scale, rstd, **ctx.numbers, without_d_x=not needs_x,
            d_weight_dtype=dtype_if(needs_weight, weight),
            d_scale_dtype=dtype_if(needs_scale, scale), d_shift_dtype=dtype_if(needs_shift, shift))
        return (d_x if needs_x else None, d_weight if needs_weight else None,
                d_scale if needs_scale else None, d_shift if needs_shift else None, None, None,
                None)


def modulated_rms_norm(x, scale, shift=None, weight=None, eps=1e-6, *, offset=0.0, casting="llama"):
    """Returns rms_norm(x) * (1 + scale) + shift. scale and shift are [K, H]; row i of x's N rows
    uses row i // (N / K)."""
    casting = choice("casting", casting, _CASTING)
    if wants_grad(x, weight, scale, shift):
        return call(ModulatedRMSNormFunction, x, weight, scale, shift, eps, offset, casting)
    return operations(x, weight, scale, shift).modulated_rms_norm_forward(
        x, weight, scale, shift, eps=eps, offset=offset, casting=casting)[0]

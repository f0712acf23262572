"""RMSNorm and LayerNorm, with or without a residual sum."""

from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import increment_version

from .. import ops as arrays
from ..enums import Casting
from .config import config
from .direct import direct
from .dispatch import (added, call, choice, dtype_if, first_order, gradient, is_compiling,
                       is_direct, main_grad_of, names_of, operations, wants_grad)

_CASTING = names_of(Casting)


def _backward(name, inputs, parameters, needs_x, numbers, overwritten=None):
    """Runs a norm's backward with gradients in existing memory: parameters' in main_grad, d_x in
    `overwritten`.

    parameters: list of (name, tensor, wanted). Returns d_x, and for each parameter a gradient or
    None."""
    sums = {f"d_{key}": main_grad_of(tensor) for key, tensor, wanted in parameters if wanted}
    accumulate = bool(sums) and all(tensor is not None for tensor in sums.values())
    if not is_direct(*inputs):
        accumulate, overwritten = False, None
    wanted = {} if accumulate else {
        f"d_{key}_dtype": tensor.dtype for key, tensor, wanted in parameters if wanted}
    if accumulate or overwritten is not None:
        memory = sums if accumulate else {}
        results = getattr(arrays, name)(*inputs, without_d_x=not needs_x, accumulate=accumulate,
                                        d_x=overwritten, **memory, **wanted, **numbers)
    else:
        results = getattr(operations(*inputs), name)(*inputs, without_d_x=not needs_x, **wanted,
                                                     **numbers)
    if overwritten is not None:
        increment_version(overwritten)
    for key, tensor, given in parameters:
        if given and accumulate:
            added(tensor, sums[f"d_{key}"])
    made = [result if given and not accumulate else None
            for result, (_, _, given) in zip(results[1:], parameters)]
    return (results[0] if needs_x else None), made


class RMSNormFunction(Function):
    @staticmethod
    def forward(ctx, x, weight, numbers):
        eps, offset, casting, _ = ctx.numbers = numbers
        y, rstd = operations(x, weight).rms_norm_forward(x, weight, eps=eps, offset=offset,
                                                         casting=casting, with_rstd=True)
        ctx.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        x, weight, rstd = ctx.saved_tensors
        d_y = gradient(d_y, "rms_norm_backward")
        _, offset, casting, in_place = ctx.numbers
        needs_x, needs_weight, _ = ctx.needs_input_grad
        if in_place or config.main_grad:
            d_x, (d_weight,) = _backward("rms_norm_backward", (d_y, x, weight, rstd),
                                         [("weight", weight, needs_weight)], needs_x,
                                         {"offset": offset, "casting": casting},
                                         d_y if in_place and needs_x else None)
        else:
            d_x, d_weight = operations(d_y, x, weight, rstd).rms_norm_backward(
                d_y, x, weight, rstd, casting=casting, offset=offset, without_d_x=not needs_x,
                d_weight_dtype=weight.dtype if needs_weight else None)
        return d_x if needs_x else None, d_weight if needs_weight else None, None


def _rms_norm_direct(d_x):
    return direct(RMSNormFunction, "x weight", "eps offset casting in_place", "d_y",
                  saved="x weight rstd",
                  forward="rms_norm_forward x weight y=x rstd=rows(x) .casting .eps .offset",
                  backward=f"rms_norm_backward d_y x weight rstd d_x={d_x}?x "
                           "d_weight=weight?weight .casting .offset 0",
                  gradients="d_x d_weight")


# indexed by in_place as a number, because torch.compile of torch 2.11 accepts no bool as an index
_RMS_NORMS = _rms_norm_direct("x"), _rms_norm_direct("over(d_y)")


def rms_norm(x, weight=None, eps=1e-6, *, offset=0.0, casting="llama", in_place=False):
    """RMSNorm over the last dimension.

    offset: added to the weight (Gemma: 1). casting: rounding points of the model "llama" or
    "gemma", or "none". in_place: backward overwrites the gradient of the result, so nothing else
    may use it."""
    casting = choice("casting", casting, _CASTING)
    if wants_grad(x, weight):
        return call(RMSNormFunction, x, weight, (eps, offset, casting, in_place),
                    within=_RMS_NORMS[1 if in_place else 0])
    return operations(x, weight).rms_norm_forward(x, weight, eps=eps, offset=offset,
                                                  casting=casting)[0]


class FusedAddRMSNormFunction(Function):
    @staticmethod
    def forward(ctx, x, residual, weight, numbers):
        ctx.set_materialize_grads(False)
        eps, offset, casting = ctx.numbers = numbers
        y, sum, rstd = operations(x, residual, weight).fused_add_rms_norm_forward(
            x, residual, weight, eps=eps, offset=offset, casting=casting, with_rstd=True)
        ctx.save_for_backward(sum, weight, rstd)
        return y, sum

    @staticmethod
    @first_order
    def backward(ctx, d_y, d_sum):
        if d_y is None:  # only the residual sum has a gradient
            return d_sum, d_sum, None, None
        sum, weight, rstd = ctx.saved_tensors
        _, offset, casting = ctx.numbers
        needs_x, needs_residual, needs_weight, *_ = ctx.needs_input_grad
        either = needs_x or needs_residual
        d_y, d_sum = (gradient(d_y, "fused_add_rms_norm_backward"),
                      gradient(d_sum if either else None, "fused_add_rms_norm_backward"))
        inputs = (d_y, d_sum, sum, weight, rstd)
        if config.main_grad:
            d_x, (d_weight,) = _backward("fused_add_rms_norm_backward", inputs,
                                         [("weight", weight, needs_weight)], either,
                                         {"offset": offset, "casting": casting})
        else:
            d_x, d_weight = operations(*inputs).fused_add_rms_norm_backward(
                *inputs, casting=casting, offset=offset, without_d_x=not either,
                d_weight_dtype=weight.dtype if needs_weight else None)
        return (d_x if needs_x else None, d_x if needs_residual else None,
                d_weight if needs_weight else None, None)


_direct_fused_add_rms_norm = direct(
    FusedAddRMSNormFunction, "x residual weight", "eps offset casting", "d_y d_sum",
    forward="fused_add_rms_norm_forward x residual weight y=x sum=x rstd=rows(x) .casting .eps "
            ".offset",
    saved="sum weight rstd", returned="y sum",
    backward="fused_add_rms_norm_backward d_y d_sum?x,residual sum weight rstd d_x=sum?x,residual "
             "d_weight=weight?weight .casting .offset 0",
    gradients="d_x d_x d_weight")


def fused_add_rms_norm(x, residual, weight=None, eps=1e-6, *, offset=0.0, casting="llama"):
    """Returns (RMSNorm of x + residual, x + residual)."""
    casting = choice("casting", casting, _CASTING)
    if wants_grad(x, residual, weight):
        return call(FusedAddRMSNormFunction, x, residual, weight, (eps, offset, casting),
                    within=_direct_fused_add_rms_norm)
    return operations(x, residual, weight).fused_add_rms_norm_forward(
        x, residual, weight, eps=eps, offset=offset, casting=casting)[:2]


def _statistics(x, mean, *rest):
    """Returns mean, rstd and the rest of the saved statistics. `direct` saves mean and rstd in one
    tensor."""
    return (*mean.unbind(), *rest) if mean.dim() == x.dim() else (mean, *rest)


def _kept(mean, rstd):
    """Returns the statistics to save: in one tensor, as `direct` saves them.

    A checkpoint requires equal numbers of saved tensors, but a mode may make only its second run
    use `direct`. Under torch.compile, and for tensor subclasses, mean and rstd remain separate."""
    if type(mean) is not Tensor or is_compiling():
        return mean, rstd
    rows = mean.numel()
    # mean and rstd both begin at a multiple of 16 bytes
    both = mean.new_empty((2, (rows + 3) // 4 * 4)).narrow(1, 0, rows).view(2, *mean.shape)
    both[0], both[1] = mean, rstd
    return both,


class LayerNormFunction(Function):
    @staticmethod
    def forward(ctx, x, weight, bias, numbers):
        eps, in_place = ctx.numbers = numbers
        y, mean, rstd = operations(x, weight, bias).layer_norm_forward(
            x, weight, bias, eps=eps, with_mean=True, with_rstd=True)
        statistics = (mean, rstd) if config.main_grad else _kept(mean, rstd)
        bias_itself = (bias,) if in_place or config.main_grad else ()
        ctx.save_for_backward(x, weight, *statistics, *bias_itself)
        return y

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        x, weight, *rest = ctx.saved_tensors
        mean, rstd, *rest = _statistics(x, *rest)
        d_y = gradient(d_y, "layer_norm_backward")
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        if rest:
            bias, = rest
            d_x, (d_weight, d_bias) = _backward(
                "layer_norm_backward", (d_y, x, weight, mean, rstd),
                [("weight", weight, needs_weight), ("bias", bias, needs_bias)], needs_x, {},
                d_y if ctx.numbers[1] and needs_x else None)
        else:
            d_x, d_weight, d_bias = operations(d_y, x, weight, mean, rstd).layer_norm_backward(
                d_y, x, weight, mean, rstd, without_d_x=not needs_x,
                d_weight_dtype=dtype_if(needs_weight, weight),
                d_bias_dtype=dtype_if(needs_bias, weight))
        return (d_x if needs_x else None, d_weight if needs_weight else None,
                d_bias if needs_bias else None, None)


def _layer_norm_direct(d_x, saved):
    return direct(LayerNormFunction, "x weight bias", "eps in_place", "d_y", saved=saved,
                  forward="layer_norm_forward x weight bias y=x stats=pair(x)[0] stats[1] .eps",
                  backward=f"layer_norm_backward d_y x weight stats[0] stats[1] d_x={d_x}?x "
                           "d_weight=weight?weight d_bias=weight?bias 0",
                  gradients="d_x d_weight d_bias")


_LAYER_NORMS = (_layer_norm_direct("x", "x weight stats"),
                _layer_norm_direct("over(d_y)", "x weight stats bias"))  # index: in_place


def layer_norm(x, weight, bias=None, eps=1e-5, *, in_place=False):
    """LayerNorm over the last dimension. in_place: see rms_norm."""
    if wants_grad(x, weight, bias):
        return call(LayerNormFunction, x, weight, bias, (eps, in_place),
                    within=None if config.main_grad else _LAYER_NORMS[1 if in_place else 0])
    return operations(x, weight, bias).layer_norm_forward(x, weight, bias, eps=eps)[0]


class FusedAddLayerNormFunction(Function):
    @staticmethod
    def forward(ctx, x, residual, weight, bias, numbers):
        ctx.set_materialize_grads(False)
        eps, = ctx.numbers = numbers
        y, sum, mean, rstd = operations(x, residual, weight, bias).fused_add_layer_norm_forward(
            x, residual, weight, bias, eps=eps, with_mean=True, with_rstd=True)
        ctx.save_for_backward(sum, weight, bias, *_kept(mean, rstd))
        return y, sum

    @staticmethod
    @first_order
    def backward(ctx, d_y, d_sum):
        if d_y is None:
            return d_sum, d_sum, None, None, None
        sum, weight, bias, *rest = ctx.saved_tensors
        mean, rstd = _statistics(sum, *rest)
        needs_x, needs_residual, needs_weight, needs_bias, _ = ctx.needs_input_grad
        either = needs_x or needs_residual
        d_y, d_sum = (gradient(d_y, "fused_add_layer_norm_backward"),
                      gradient(d_sum if either else None, "fused_add_layer_norm_backward"))
        d_x, (d_weight, d_bias) = _backward(
            "fused_add_layer_norm_backward", (d_y, d_sum, sum, weight, mean, rstd),
            [("weight", weight, needs_weight), ("bias", bias, needs_bias)], either, {})
        return d_x if needs_x else None, d_x if needs_residual else None, d_weight, d_bias, None


_direct_fused_add_layer_norm = direct(
    FusedAddLayerNormFunction, "x residual weight bias", "eps", "d_y d_sum",
    forward="fused_add_layer_norm_forward x residual weight bias y=x sum=x stats=pair(x)[0] "
            "stats[1] .eps",
    saved="sum weight bias stats", returned="y sum",
    backward="fused_add_layer_norm_backward d_y d_sum?x,residual sum weight stats[0] stats[1] "
             "d_x=sum?x,residual d_weight=weight?weight d_bias=bias?bias 0",
    gradients="d_x d_x d_weight d_bias")


def fused_add_layer_norm(x, residual, weight, bias=None, eps=1e-5):
    """Returns (LayerNorm of x + residual, x + residual)."""
    if wants_grad(x, residual, weight, bias):
        return call(FusedAddLayerNormFunction, x, residual, weight, bias, (eps,),
                    within=_direct_fused_add_layer_norm)
    return operations(x, residual, weight, bias).fused_add_layer_norm_forward(x, residual, weight,
                                                                              bias, eps=eps)[:2]

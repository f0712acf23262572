"""A head's matmul fused with its loss, over chunks of the logits.

The forward computes the gradients while it has the logits."""

import torch
from torch.autograd import Function

from .. import ops as arrays
from ..errors import NotSupported
from .config import config
from .direct import direct
from .dispatch import (added, call, choice, device_type, dtype_if, first_order, gradient,
                       is_compiling, is_direct, is_first_backward, main_grad_of, operations,
                       require_torch, wants_grad)
from .losses import REDUCTIONS, LossOutput, mark, numbers_of, report_labels


def _scaled(tensor, factor):
    """Returns tensor * factor, in place if that is safe. The kernel skips a factor of 1."""
    if tensor is None:
        return None
    if not is_direct(tensor, factor):
        return operations(tensor, factor).scale(tensor, factor)
    arrays.scale(tensor, factor, out=tensor)
    return tensor


def _spend(ctx, name):
    """Raises if an earlier backward used the forward's gradients, which are scaled in place."""
    if is_compiling():
        return
    if not is_first_backward(ctx):
        raise NotSupported(f"{name}: a second backward is not possible: the forward computed the "
                           "gradients, and the first backward scaled them in place; call the "
                           "forward again")


def accumulated(parameter, d_parameter):
    """Returns the gradient for autograd, or None after adding it to main_grad."""
    main_grad = None if d_parameter is None else main_grad_of(parameter)
    if main_grad is None:
        return d_parameter
    main_grad.add_(d_parameter)
    added(parameter, main_grad)
    return None


_NUMBERS = ("ignore_index", "reduction", "label_smoothing", "lse_square_scale", "softcap",
            "temperature", "use_token_scaling", "max_workspace_bytes", "chunk_rows")


class FusedLinearCrossEntropyFunction(Function):
    """inverse: factor of every row's loss, or None. grad_scale: expected upstream gradient, or
    None.

    numbers: the values of _NUMBERS, a dict of extras, and `later`. If `later` is true, the forward
    does not know the rows' upstream gradients; backward computes the gradients from lse, entropy
    and recomputed logits."""

    @staticmethod
    def forward(ctx, x, weight, bias, labels, class_weight, inverse, grad_scale, numbers):
        ctx.set_materialize_grads(False)
        *given, extras, later = ctx.numbers = numbers
        inputs = (x, weight, bias, labels, class_weight)
        needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        factor = (None if later else grad_scale if inverse is None else inverse
                  if grad_scale is None else inverse * grad_scale)
        wanted = {"with_lse": True} if later else {"with_d_x": needs_x,
                                                   "d_weight_dtype": dtype_if(needs_weight, weight),
                                                   "d_bias_dtype": dtype_if(needs_bias, bias)}
        loss, z_loss, accuracy, predictions, d_x, d_weight, d_bias, entropy, lse = operations(
            *inputs, factor).fused_linear_cross_entropy(
            *inputs, factor, **dict(zip(_NUMBERS, given)), **extras, **wanted)
        mark(ctx, z_loss, accuracy, predictions,
             *(() if later and extras["with_entropy"] else (entropy,)))
        if inverse is not None:
            loss = loss * inverse
            z_loss = z_loss if z_loss is None else z_loss * inverse
            mark(ctx, z_loss)
        if later:
            ctx.save_for_backward(weight, bias, inverse, x, labels, class_weight, lse,
                                  entropy if extras["with_entropy"] else None)
        else:  # the loss is for first_order, because x is not saved
            # an operator returns empty tensors for gradients that are not wanted
            made = zip((d_x, d_weight, d_bias), (needs_x, needs_weight, needs_bias))
            ctx.save_for_backward(weight, bias, grad_scale, loss,
                                  *(tensor if needed else None for tensor, needed in made))
        return loss, z_loss, accuracy, predictions, entropy

    @staticmethod
    @first_order
    def backward(ctx, d_loss, _z, _accuracy, _predictions, d_entropy):
        report_labels()
        nothing = (None,) * 5
        *given, extras, later = ctx.numbers
        # under torch.compile, an absent d_entropy is zeros instead of None
        if not (later and extras["with_entropy"]):
            d_entropy = None
        if d_loss is None and d_entropy is None:
            return (None, None, None, *nothing)
        needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        if not later:  # before reading saved_tensors, which the first backward overwrote
            _spend(ctx, "fused_linear_cross_entropy")
        weight, bias, factor, *rest = ctx.saved_tensors
        if later:
            x, labels, class_weight, lse, entropy = rest
            numbers = dict(zip(_NUMBERS, given))
            if d_loss is None:
                d_loss = lse.new_zeros(
                    labels.shape if numbers["reduction"] == REDUCTIONS["none"] else ())
            elif factor is not None:
                d_loss = d_loss * factor
            d_loss, d_entropy = (gradient(each, "fused_linear_cross_entropy_backward")
                                 for each in (d_loss, d_entropy))
            inputs = (x, weight, bias, labels, class_weight, lse, d_loss,
                      None if d_entropy is None else entropy, d_entropy)
            d_x, d_weight, d_bias = operations(*inputs).fused_linear_cross_entropy_backward(
                *inputs, **numbers, with_d_x=needs_x, d_weight_dtype=dtype_if(needs_weight, weight),
                d_bias_dtype=dtype_if(needs_bias, bias))
        else:
            factor = d_loss if factor is None else d_loss / factor
            _, *made = rest
            d_x, d_weight, d_bias = (_scaled(tensor, factor) if needed else None
                                     for tensor, needed in zip(made,
                                                               (needs_x, needs_weight, needs_bias)))
        return (d_x if needs_x else None, accumulated(weight, d_weight) if needs_weight else None,
                accumulated(bias, d_bias) if needs_bias else None, *nothing)


# Direct form for a scalar loss without num_items, grad_scale and extras.
_direct_head = direct(
    FusedLinearCrossEntropyFunction, "x weight bias labels class_weight inverse grad_scale",
    " ".join(_NUMBERS) + " extras later", "d_loss d_z d_accuracy d_predictions d_entropy",
    forward="fused_linear_cross_entropy x weight bias labels class_weight None loss=loss(x) None "
            "None None d_x=x?x d_weight=weight?weight d_bias=bias?bias None None None "
            ".ignore_index .reduction .label_smoothing .lse_square_scale .softcap "
            ".use_token_scaling 0 .max_workspace_bytes .chunk_rows .temperature 0 0",
    saved="weight bias grad_scale loss d_x d_weight d_bias", returned="loss None None None None",
    backward=["scale d_x?x d_loss scaled_x=over(d_x)?x 0",
              "scale d_weight?weight d_loss scaled_weight=over(d_weight)?weight 0",
              "scale d_bias?bias d_loss scaled_bias=over(d_bias)?bias 0"],
    gradients="scaled_x scaled_weight scaled_bias None None None None", labels=True)


def _under_autocast(x, *weights):
    """Casts as torch.nn.functional.linear does, except f32 weights, which the kernels accept with
    16-bit x."""
    kind = device_type(x)
    if not torch.is_autocast_enabled(kind):
        return (x, *weights)
    dtype = torch.get_autocast_dtype(kind)
    cast = [weight if weight is None or weight.dtype in (torch.float32, dtype) else weight.to(dtype)
            for weight in weights]
    return (x if x.dtype == dtype else x.to(dtype), *cast)


def _reciprocal(count, like):
    if count is None:
        return None
    if isinstance(count, torch.Tensor):
        return count.to(device=like.device, dtype=torch.float32).reciprocal().reshape(())
    return torch.full((), 1.0 / count, dtype=torch.float32, device=like.device)


def _limit(max_workspace_bytes):
    return (config.max_workspace_bytes if max_workspace_bytes is None else max_workspace_bytes) or 0


def fused_linear_cross_entropy(x, weight, labels, bias=None, *, class_weight=None,
                               ignore_index=-100, reduction="mean", label_smoothing=0.0,
                               lse_square_scale=0.0, softcap=None, temperature=None,
                               use_token_scaling=False, num_items=None, grad_scale=None,
                               with_z_loss=False, with_accuracy=False, with_predictions=False,
                               with_entropy=False, max_workspace_bytes=None, chunk_rows=0):
    """Returns cross_entropy of x weight^T + bias. The logits never exist as a whole.

    Computes no gradient that x or weight does not need. Other arguments are those of cross_entropy.

    * num_items: divisor of the sum of losses for any `reduction`: a number, or a tensor of one
      element (gradient accumulation).
    * grad_scale: factor of a GradScaler, a tensor of one element; f16 gradients are computed with
      it.
    * with_entropy: also returns the entropy of each row's probabilities, with a gradient;
      "detached": without one.
    * max_workspace_bytes: None means config.max_workspace_bytes.

    With reduction="none", or an entropy with a gradient, backward computes the gradients from
    recomputed logits."""
    if with_entropy not in (False, True, "detached"):
        raise ValueError("fused_linear_cross_entropy: with_entropy: expected False, True or "
                         f"'detached', got {with_entropy!r}")
    inverse = _reciprocal(num_items, x)
    numbers = numbers_of(ignore_index, "sum" if inverse is not None else reduction, label_smoothing,
                         lse_square_scale, softcap, temperature)
    numbers |= {"use_token_scaling": use_token_scaling,
                "max_workspace_bytes": _limit(max_workspace_bytes),
                "chunk_rows": chunk_rows}
    extras = {"with_z_loss": with_z_loss, "with_accuracy": with_accuracy,
              "with_predictions": with_predictions, "with_entropy": bool(with_entropy)}
    x, weight, bias = _under_autocast(x, weight, bias)
    if wants_grad(x, weight, bias):
        later = numbers["reduction"] == REDUCTIONS["none"] or with_entropy is True
        alone = not later and inverse is None and grad_scale is None and not any(extras.values())
        results = call(FusedLinearCrossEntropyFunction, x, weight, bias, labels, class_weight,
                       inverse, grad_scale, (*(numbers[name] for name in _NUMBERS), extras, later),
                       within=_direct_head if alone else None)
    else:
        made = operations(x, weight, bias, labels, class_weight).fused_linear_cross_entropy(
            x, weight, bias, labels, class_weight, **numbers, **extras)
        results = (made[0] if inverse is None else made[0] * inverse,
                   made[1] if inverse is None or not with_z_loss else made[1] * inverse, *made[2:4],
                   made[7])
    if not any(extras.values()):
        return results[0]
    asked = (True, with_z_loss, with_accuracy, with_predictions, with_entropy)
    return LossOutput(*(result if wanted else None for result, wanted in zip(results, asked)))


class FusedLinearJSDFunction(Function):
    @staticmethod
    def forward(ctx, x, weight, target_x, target_weight, labels, numbers):
        needs_x, needs_weight, *_ = ctx.needs_input_grad
        inputs = (x, weight, target_x, target_weight, labels)
        loss, d_x, d_weight = operations(*inputs).fused_linear_jsd(
            *inputs, **numbers, with_d_x=needs_x, d_weight_dtype=dtype_if(needs_weight, weight))
        # first_order needs the loss, because x is not saved
        ctx.save_for_backward(weight, d_x, d_weight, loss)
        return loss

    @staticmethod
    @first_order
    def backward(ctx, d_loss):
        _spend(ctx, "fused_linear_jsd")
        needs_x, needs_weight, *_ = ctx.needs_input_grad
        weight, d_x, d_weight, _ = ctx.saved_tensors
        d_x = _scaled(d_x, d_loss) if needs_x else None
        d_weight = accumulated(weight, _scaled(d_weight, d_loss)) if needs_weight else None
        return d_x, d_weight, None, None, None, None


def fused_linear_jsd(x, weight, target_x, target_weight, labels=None, *, beta=0.5, temperature=None,
                     reduction="batchmean", ignore_index=-100, max_workspace_bytes=None,
                     chunk_rows=0):
    """Returns the jsd of a student head's and a teacher head's softmax. The logits never exist as a
    whole, and the teacher has no gradient."""
    if reduction == "none":
        raise NotSupported("fused_linear_jsd: reduction: expected sum, mean or batchmean, got none")
    require_torch((x, weight, target_x, target_weight))
    x, weight, target_x, target_weight = _under_autocast(x, weight, target_x, target_weight)
    weight, target_x, target_weight = (
        tensor.to(x.dtype) for tensor in (weight, target_x, target_weight))
    numbers = {"reduction": choice("reduction", reduction, REDUCTIONS),
               "ignore_index": ignore_index,
               "beta": beta,
               "temperature": temperature or 0.0,
               "max_workspace_bytes": _limit(max_workspace_bytes),
               "chunk_rows": chunk_rows}
    target_x, target_weight = target_x.detach(), target_weight.detach()
    if wants_grad(x, weight):
        return call(FusedLinearJSDFunction, x, weight, target_x, target_weight, labels, numbers)
    return operations(x, weight, target_x, target_weight, labels).fused_linear_jsd(
        x, weight, target_x, target_weight, labels, **numbers)[0]

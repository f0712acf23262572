"""Row losses: cross-entropy, and divergences of two distributions.

Backward computes the gradients from the forward's inputs."""

from typing import NamedTuple, Optional

from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import increment_version

from .. import _bind
from .. import ops as arrays
from ..enums import Reduction
from ..errors import NotSupported
from .config import config
from .direct import direct
from .dispatch import (call, choice, first_order, gradient, is_compiling, is_direct, names_of,
                       operations, wants_grad)

REDUCTIONS = names_of(Reduction)
_OF_CROSS_ENTROPY = {name: REDUCTIONS[name] for name in ("none", "sum", "mean")}


class LossOutput(NamedTuple):
    """A loss with its optional extra results. Only loss and entropy have gradients."""

    loss: Tensor
    z_loss: Optional[Tensor] = None
    accuracy: Optional[Tensor] = None
    predictions: Optional[Tensor] = None
    entropy: Optional[Tensor] = None


def report_labels():
    """Raises LabelError or BoundsError for errors that kernels have reported so far."""
    if not is_compiling() and config.check_labels != "off":
        _bind.poll()


def numbers_of(ignore_index, reduction, label_smoothing, lse_square_scale, softcap, temperature):
    return {"ignore_index": ignore_index,
            "reduction": choice("reduction", reduction, _OF_CROSS_ENTROPY),
            "label_smoothing": label_smoothing,
            "lse_square_scale": lse_square_scale,
            "softcap": softcap or 0.0,
            "temperature": temperature or 0.0}


_NUMBERS = ("ignore_index", "reduction", "label_smoothing", "lse_square_scale", "softcap",
            "temperature")
_WORDS = " ".join("." + name for name in _NUMBERS)


def _by_name(numbers):
    """Returns CrossEntropyFunction's numeric arguments by name, without the last, a dict."""
    return dict(zip(_NUMBERS, numbers))


def mark(ctx, *tensors):
    ctx.mark_non_differentiable(*[tensor for tensor in tensors if tensor is not None])


class CrossEntropyFunction(Function):
    @staticmethod
    def forward(ctx, logits, labels, class_weight, numbers):
        ctx.set_materialize_grads(False)
        ctx.numbers = numbers
        loss, z_loss, accuracy, predictions, _, _, entropy = operations(logits, labels,
                                                                        class_weight).cross_entropy(
            logits, labels, class_weight, **_by_name(numbers), **numbers[-1])
        ctx.save_for_backward(logits, labels, class_weight)
        mark(ctx, z_loss, accuracy, predictions)
        return loss, z_loss, accuracy, predictions, entropy

    @staticmethod
    @first_order
    def backward(ctx, d_loss, _z, _accuracy, _predictions, d_entropy):
        report_labels()
        logits, labels, class_weight = ctx.saved_tensors
        # under torch.compile, an absent d_entropy is an empty tensor instead of None
        if not ctx.numbers[-1].get("with_entropy"):
            d_entropy = None
        if d_loss is None and d_entropy is None:
            return None, None, None, None
        numbers = _by_name(ctx.numbers)
        if d_loss is None:
            d_loss = logits.new_zeros(labels.shape if numbers["reduction"] == 0 else (),
                                      dtype=d_entropy.dtype)
        results = operations(logits, labels, class_weight, d_loss, d_entropy).cross_entropy(
            logits, labels, class_weight, gradient(d_entropy, "cross_entropy"),
            gradient(d_loss, "cross_entropy"), **numbers, with_d_logits=True, without_loss=True)
        return results[5], None, None, None


_direct_cross_entropy = direct(
    CrossEntropyFunction, "logits labels class_weight", " ".join(_NUMBERS) + " extras",
    "d_loss d_z d_accuracy d_predictions d_entropy",
    forward="cross_entropy logits labels class_weight loss=loss(logits) None None None None None "
            "None None None " + _WORDS,
    saved="logits labels class_weight", returned="loss None None None None",
    backward="cross_entropy logits labels class_weight None None None None None d_logits=logits "
             "None None d_loss " + _WORDS,
    gradients="d_logits None None")


class CrossEntropyInPlaceFunction(Function):
    """Cross-entropy whose forward overwrites the logits with their gradient."""

    @staticmethod
    def forward(ctx, logits, labels, class_weight, numbers, extras):
        ctx.set_materialize_grads(False)
        loss, z_loss, accuracy, predictions, _, _, _ = arrays.cross_entropy(
            logits, labels, class_weight, with_d_logits=True, d_logits=logits, **numbers, **extras)
        increment_version(logits)
        ctx.d_logits = logits.detach()
        ctx.save_for_backward(loss)  # for first_order: the logits are not saved
        ctx.per_row = numbers["reduction"] == 0
        mark(ctx, z_loss, accuracy, predictions)
        return loss, z_loss, accuracy, predictions, None

    @staticmethod
    @first_order
    def backward(ctx, d_loss, *_):
        report_labels()
        d_logits, ctx.d_logits = ctx.d_logits, None
        if d_logits is None:
            raise NotSupported("cross_entropy: a second backward is not possible with "
                               "in_place=True: the first one used the gradient; pass "
                               "in_place=False")
        if d_loss is None:
            return None, None, None, None, None
        arrays.scale(d_logits, gradient(d_loss, "scale"), per_row=ctx.per_row, out=d_logits)
        return d_logits, None, None, None, None


def cross_entropy(logits, labels, *, class_weight=None, ignore_index=-100, reduction="mean",
                  label_smoothing=0.0, lse_square_scale=0.0, softcap=None, temperature=None,
                  with_z_loss=False, with_accuracy=False, with_predictions=False,
                  with_entropy=False, in_place=False):
    """Returns the cross-entropy over the last dimension of logits; `labels` have the leading
    dimensions of logits.

    The loss is f32: a tensor, or a LossOutput if an extra result is requested. in_place: the
    forward overwrites the logits with the gradient, so nothing else may use them."""
    numbers = numbers_of(ignore_index, reduction, label_smoothing, lse_square_scale, softcap,
                         temperature)
    extras = {"with_z_loss": with_z_loss, "with_accuracy": with_accuracy,
              "with_predictions": with_predictions, "with_entropy": with_entropy}
    if wants_grad(logits):
        if in_place and with_entropy:
            raise NotSupported("cross_entropy: entropy has no gradient with in_place=True")
        overwrite = in_place and is_direct(logits, labels, class_weight)
        if overwrite:
            results = call(CrossEntropyInPlaceFunction, logits, labels, class_weight, numbers,
                           extras)
        else:
            results = call(CrossEntropyFunction, logits, labels, class_weight,
                           (*numbers.values(), extras),
                           within=None if any(extras.values()) else _direct_cross_entropy)
    else:
        loss, z_loss, accuracy, predictions, _, _, entropy = operations(
            logits, labels,
            class_weight).cross_entropy(logits, labels, class_weight, **numbers, **extras)
        results = loss, z_loss, accuracy, predictions, entropy
    if not any(extras.values()):
        return results[0]
    asked = (True, with_z_loss, with_accuracy, with_predictions, with_entropy)
    return LossOutput(*(result if wanted else None for result, wanted in zip(results, asked)))


class DivergenceFunction(Function):
    """The divergence `name`: kl_div, jsd or tvd."""

    @staticmethod
    def forward(ctx, input, target, labels, name, numbers):
        ctx.name, ctx.numbers = name, numbers
        ctx.save_for_backward(input, target, labels)
        rest = () if name == "kl_div" else (labels,)
        return getattr(operations(input, target, labels), name)(input, target, *rest, **numbers)[0]

    @staticmethod
    @first_order
    def backward(ctx, d_loss):
        input, target, labels = ctx.saved_tensors
        rest = () if ctx.name == "kl_div" else (labels,)
        results = getattr(operations(input, target, labels, d_loss), ctx.name)(
            input, target, *rest, gradient(d_loss, ctx.name), with_d_input=True, without_loss=True,
            **ctx.numbers)
        return results[1], None, None, None, None


def _divergence(name, input, target, labels, reduction, numbers):
    if target.requires_grad and wants_grad(target):
        raise NotSupported(f"{name}: target has no gradient; detach it")
    numbers["reduction"] = choice("reduction", reduction, REDUCTIONS)
    if wants_grad(input):
        return call(DivergenceFunction, input, target, labels, name, numbers)
    rest = () if name == "kl_div" else (labels,)
    return getattr(operations(input, target, labels), name)(input, target, *rest, **numbers)[0]


def kl_div(input, target, *, reduction="batchmean", log_target=False, eps=1e-10):
    """Returns the Kullback-Leibler divergence of log-probabilities `input` from probabilities
    `target`."""
    return _divergence("kl_div", input, target, None, reduction,
                       {"log_target": log_target, "eps": eps})


def jsd(input, target, labels=None, *, beta=0.5, reduction="batchmean", ignore_index=-100):
    """Returns the generalised Jensen-Shannon divergence of two sets of log-probabilities. Rows with
    the label ignore_index do not count."""
    return _divergence("jsd", input, target, labels, reduction,
                       {"beta": beta, "ignore_index": ignore_index})


def tvd(input, target, labels=None, *, reduction="batchmean", ignore_index=-100):
    """Returns the total variation distance of two sets of probabilities. labels: see jsd."""
    return _divergence("tvd", input, target, labels, reduction, {"ignore_index": ignore_index})

"""Autograd Functions that _bind runs without a Python frame, for tensors without wrappers or modes.

A plan lists the source of each argument of an operation, in the order of the C ABI:

    name            tensor: an input, a gradient or a saved tensor
    .name           element of the Function's tuple of numbers
    0, None         this constant
    new=like        new tensor `new` with the shape and dtype of `like`
    new=rows(t)     f32 with the leading sizes of t
    new=pair(t)     two of rows(t) in one tensor
    new=gated(t)    like t; if t is None, half of the input that is two inputs later
    new=loss(t)     f32 loss: the shape of the labels, which follow t, or no dimension
    new=over(t)     the memory of t, which is overwritten
    ...[0]          this part of the tensor
    ...?a,b         only if the gradient of a or of b is wanted

Backward may consist of several operations, each with its plan. An operation whose first tensor is
None is skipped. The Function's own forward and backward must compute the same, because they run for
all other tensors. The Function's own backward also runs for second derivatives, for
`config.main_grad`, and if the first gradient is missing."""

import re

from torch import empty_like, float32, is_grad_enabled
from torch.autograd.graph import increment_version

from .. import _bind
from . import copies

_MAKERS = {maker: getattr(_bind, f"DIRECT_NEW_{maker.upper()}")
           for maker in ("like", "rows", "pair", "gated", "loss", "over")}
_bind.set_autograd(is_grad_enabled, empty_like, increment_version, float32, copies.count_gradient)


def _encoded(words, slots, numbers, inputs):
    """Encodes each argument in four bytes. Each new tensor gets the next slot."""
    out = []
    for word in words:
        word, _, wanted = word.partition("?")
        mask = sum(1 << inputs.index(name) for name in wanted.split(",")) if wanted else 0
        part = re.search(r"\[(\d)\]$", word)
        word = word[:part.start()] if part else word
        made = re.fullmatch(r"(\w+)=(?:(\w+)\((\w+)\)|(\w+))", word)
        if made:
            code = _MAKERS[made[2] or "like"], slots.index(made[3] or made[4])
            slots.append(made[1])
        elif word.startswith("."):
            code = _bind.DIRECT_FROM_NUMBER, numbers.index(word[1:])
        elif word in ("0", "None"):
            code = (_bind.DIRECT_FROM_ZERO if word == "0" else _bind.DIRECT_FROM_NONE), 0
        else:
            code = _bind.DIRECT_FROM_SLOT, slots.index(word)
        out += [*code, mask, int(part[1]) + 1 if part else 0]
    return bytes(out)


def _indices(names, slots):
    return bytes(_bind.DIRECT_NOTHING if name == "None" else slots.index(name)
                 for name in names.split())


def direct(function, inputs, numbers, upstream, *, forward, saved, returned="y", backward,
           gradients, columns_together=False, labels=False):
    """Returns the replacement of this Function for apply().

    It takes `inputs` (tensors or None) and the tuple of numbers.
    * upstream: names of backward's gradients; the first must not be None.
    * backward: one plan, or a list of them.
    * columns_together: gradients may have any strides except in the last dimension.
    * labels: backward reports labels out of range."""
    inputs, numbers, upstream = inputs.split(), numbers.split(), upstream.split()
    operation, *words = forward.split()
    slots = list(inputs)
    forward_bytes = _encoded(words, slots, numbers, inputs)
    of_saved, of_returned = _indices(saved, slots), _indices(returned, slots)
    slots = upstream + saved.split()
    backward_names, backward_bytes = [], b""
    for name, *words in map(str.split, [backward] if isinstance(backward, str) else backward):
        backward_names.append(name)
        backward_bytes += _encoded(words, slots, numbers, inputs)
    flags = (
        (len(upstream) > 1) * _bind.DIRECT_KEEPS_NONE
        | columns_together * _bind.DIRECT_COLUMNS_TOGETHER | labels * _bind.DIRECT_REPORTS_LABELS)
    run = _bind.direct_forward(function.forward, len(inputs), len(upstream), flags, operation,
                               forward_bytes, " ".join(backward_names), backward_bytes, of_saved,
                               of_returned, _indices(gradients, slots))
    twin = type(function)(function.__name__, (function,),
                          {"forward": run, "__module__": function.__module__})
    _bind.direct_backward(run, twin._backward_cls)
    return twin

"""Functions of autograd that _bind runs without a frame of Python, for tensors that are memory and nothing else.

A plan says in words where each argument of the two operations comes from, in the order of the C ABI:

    name            a tensor: an input, a gradient, what was saved
    .name           of the Function's numbers, which are one tuple
    0, None         this
    new=name        made like a tensor; rows(name): f32 of its leading sizes; pair(name): two of those as one tensor; gated(name): like it,
                    or where it is None half of the tensor two inputs on; loss(name): f32, of the labels behind it or no dimension;
                    over(name): in its memory
    ...[0]          not the tensor, but this part of it
    ...?a,b         only where the gradient of a or of b is wanted

Backward may be several operations, each with its plan; one whose first tensor is not there is left out. The Function's own forward and
backward have to do the same. They do it for all other tensors, and backward for second derivatives, `config.main_grad` and where the first
gradient is missing."""

import re

from torch import empty_like, float32, is_grad_enabled
from torch.autograd.graph import increment_version

from .. import _bind
from . import copies

_MAKERS = {maker: getattr(_bind, f"DIRECT_NEW_{maker.upper()}") for maker in ("like", "rows", "pair", "gated", "loss", "over")}
_bind.set_autograd(is_grad_enabled, empty_like, increment_version, float32, copies.count)


def _encoded(words, slots, numbers, inputs):
    """Four bytes for each argument. What is made gets the next slot."""
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
    return bytes(_bind.DIRECT_NOTHING if name == "None" else slots.index(name) for name in names.split())


def direct(function, inputs, numbers, upstream, *, forward, saved, returned="y", backward, gradients, columns_together=False, labels=False):
    """What apply() of this Function is to be in its place. It takes `inputs`, which are tensors or None, and the tuple of numbers.

    `upstream`: names of the gradients that backward gets, the first of which must be there. backward: one plan, or a list of them.
    columns_together: gradients may have strides but for the last dimension. labels: backward reports labels that are out of range."""
    inputs, numbers, upstream = inputs.split(), numbers.split(), upstream.split()
    operation, *words = forward.split()
    slots = list(inputs)
    forward_bytes = _encoded(words, slots, numbers, inputs)
    of_saved, of_returned = _indices(saved, slots), _indices(returned, slots)
    slots = upstream + saved.split()
    behind, backward_bytes = [], b""
    for name, *words in map(str.split, [backward] if isinstance(backward, str) else backward):
        behind.append(name)
        backward_bytes += _encoded(words, slots, numbers, inputs)
    flags = ((len(upstream) > 1) * _bind.DIRECT_KEEPS_NONE | columns_together * _bind.DIRECT_COLUMNS_TOGETHER
             | labels * _bind.DIRECT_REPORTS_LABELS)
    run = _bind.direct_forward(function.forward, len(inputs), len(upstream), flags, operation, forward_bytes,
                               " ".join(behind), backward_bytes, of_saved, of_returned, _indices(gradients, slots))
    twin = type(function)(function.__name__, (function,), {"forward": run, "__module__": function.__module__})
    _bind.direct_backward(run, twin._backward_cls)
    return twin

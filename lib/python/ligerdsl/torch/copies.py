"""Contiguous copies of tensors whose strides the kernels do not support, as torch makes them.

Copies are counted, and each operation warns once. The library's error names the refused tensor, so
calls without copies have no extra cost."""

import functools
import inspect
import re
import threading
import warnings

import torch

from ..errors import CopyWarning
from .config import config

_INVALID_SHAPE = 2002
_lock = threading.Lock()


# Reasons for a copy. {} is the tensor's shape and strides.
ROWS = ("`NAME` {} was copied, because the kernel takes only rows that are contiguous and evenly "
        "strided; pass a contiguous tensor to avoid the copy")
LAST_DIMENSION = ("`NAME` {} was copied, because the kernel takes only tensors whose last "
                  "dimension has stride 1; pass such a tensor to avoid the copy")
GRADIENT = ("the gradient of a result, {}, was copied, because the backward kernel does not take "
            "these strides; they come from the operation that uses the result")


def count_gradient(operation, tensor):
    """Counts a copy of a gradient."""
    count(operation, tensor, GRADIENT)


def count(operation, tensor, reason):
    """Counts one copy in config.copies. The first copy of each operation warns.

    An expanded tensor does not warn, because users cannot avoid it: a sum's upstream gradient is
    expanded."""
    with _lock:
        config.copies[operation] = config.copies.get(operation, 0) + 1
        expanded = any(stride == 0 and size > 1
                       for stride, size in zip(tensor.stride(), tensor.shape))
        warns = not expanded and operation not in config.copies_warned
        if warns:
            config.copies_warned.add(operation)
    if warns:
        layout = f"{list(tensor.shape)} with strides {list(tensor.stride())}"
        warnings.warn(
            f"{operation}: {reason.format(layout)}. Later copies of this operation are counted in "
            "ligerdsl.torch.config.copies and do not warn.",
            CopyWarning, stacklevel=2)


def contiguous(tensor, operation, reason):
    """Returns the tensor if it is contiguous, else a counted copy."""
    made = tensor.contiguous()
    if made is not tensor:
        count(operation, tensor, reason)
    return made


def _argument(tensor, operation, name):
    return contiguous(tensor, operation, ROWS.replace("NAME", name))


def _refused(error, tensors):
    """Returns the operation that failed, or None, and the names of the tensors to copy.

    These are the tensor that the error names, or all noncontiguous ones if the error is about a
    result. There are no names if strides cannot be the reason."""
    if error.status != _INVALID_SHAPE:
        return None, ()
    scattered = [name for name, tensor in tensors.items()
                 if isinstance(tensor, torch.Tensor) and not tensor.is_contiguous()]
    found = re.search(r"(?:(\w+): )?`(\w+)`", str(error))
    operation, named = found.groups() if found else (None, None)
    return operation, [named] if named in scattered else scattered


def retried(error, function, tensors, numbers):
    """Calls function(**tensors, **numbers) with copies, or raises `error` if there is nothing to
    copy. The function must only read the tensors."""
    _, names = _refused(error, tensors)
    if not names:
        raise error
    copied = {name: _argument(tensors[name], function.__name__, name) for name in names}
    return function(**{**tensors, **copied}, **numbers)


@functools.cache
def _names(function):
    """Returns the parameter names of a Function's forward, without ctx."""
    return [
        parameter.name for parameter in inspect.signature(function.forward).parameters.values()][1:]


def in_arguments(error, function, arguments):
    """Returns a Function's arguments with differentiable copies, or None if there is nothing to
    copy."""
    tensors = dict(zip(_names(function), arguments))
    operation, names = _refused(error, tensors)
    if not names:
        return None
    operation = operation or function.__name__.removesuffix("Function")
    return [_argument(value, operation, name) if name in names else value
            for name, value in tensors.items()] + list(arguments[len(tensors):])

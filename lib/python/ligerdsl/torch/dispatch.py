"""Chooses between direct calls and torch operators; helpers that the autograd Functions share."""

import functools
import sys
from operator import index

import torch
from torch import is_grad_enabled, no_grad
from torch.autograd import Function
from torch.autograd.graph import increment_version
from torch.compiler import is_compiling

from .. import _bind
from ..errors import InvalidArgument, NotSupported
from . import copies, ops, register
from .config import config

_plain = _bind.plain
_operators = torch.ops.ligerdsl


def operations(*tensors):
    """Returns direct calls for tensors without wrappers or modes, and torch operators for
    others."""
    if is_compiling():
        return _operators
    if _plain(*tensors):
        return ops
    require_torch(tensors)
    if "torch.distributed.tensor" in sys.modules:
        _learn_sharding()
        _refuse_mixtures(tensors)
    return _operators


@functools.cache
def _learn_sharding():
    from . import sharding  # noqa: F401


def learn_sharding():
    """Registers the operators' sharding once DTensors may exist.

    torch.distributed.tensor takes a second to import."""
    if "torch.distributed.tensor" in sys.modules:
        _learn_sharding()


def _refuse_mixtures(tensors):
    """Raises if DTensors are mixed with tensors, because torch's own error gives no remedy.

    Most likely one is an FSDP parameter that is not gathered."""
    from torch.distributed.tensor import DTensor
    shards = [tensor for tensor in tensors if isinstance(tensor, DTensor)]
    others = [tensor for tensor in tensors
              if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.numel() != 1]
    implicit = getattr(getattr(DTensor, "_op_dispatcher", None), "_allow_implicit_replication",
                       False)
    if not shards or not others or implicit:
        return
    one, other = shards[0], others[0]
    raise NotSupported(
        f"expected only tensors or only DTensors, got both: a DTensor of {list(one.shape)} with "
        f"placements {one.placements} and a tensor of {list(other.shape)}. FSDP gathers a "
        "parameter only during its module's forward: call the function there (ligerdsl.patch "
        "computes a head's loss inside lm_head), or pass weight.full_tensor()")


def is_direct(*tensors):
    return not is_compiling() and _plain(*tensors)


def wants_grad(*tensors):
    """Returns true if a gradient is wanted; ctx.needs_input_grad is True even under no_grad."""
    if not is_grad_enabled():
        return False
    try:
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    except AttributeError:
        require_torch(tensors)
        raise
    return False


def require_torch(arrays):
    """Raises TypeError if one of the arrays is neither a tensor nor None."""
    for array in arrays:
        if array is not None and not isinstance(array, torch.Tensor):
            raise TypeError("expected a torch.Tensor, got a "
                            f"{type(array).__module__}.{type(array).__qualname__}; convert it with "
                            "torch.as_tensor(), or call ligerdsl.ops, which takes arrays of other "
                            "libraries")


def device_type(tensor):
    """Returns "cpu" or "cuda"."""
    try:
        return tensor.device.type
    except AttributeError:
        require_torch((tensor,))
        raise


_transforms_active = torch._C._are_functorch_transforms_active
_applies = {}


def call(function, *arguments, within=None):
    """Calls function.apply(*arguments) without apply's inspection of each argument.

    within: the same Function from `direct`, called instead except under torch.compile. Copies
    tensors whose strides the kernel does not support."""
    if is_compiling():
        return function.apply(*arguments)
    if _transforms_active():
        raise NotSupported(f"{function.__name__.removesuffix('Function')}: "
                           f"{register.NO_TRANSFORMS}")
    called = within or function
    apply = _applies.get(called)
    if apply is None:
        apply = _applies[called] = super(Function, called).apply
    try:
        return apply(*arguments)
    except InvalidArgument as error:
        arguments = copies.in_arguments(error, function, arguments)
        if arguments is None:
            raise
    return call(function, *arguments, within=within)


def choice(name, value, choices):
    """Returns the enumerator that a string names, or `value` itself if it is an integer already."""
    if isinstance(value, str):
        try:
            return choices[value]
        except KeyError:
            raise ValueError(f"{name}: expected one of {', '.join(choices)}, got "
                             f"{value!r}") from None
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}: expected one of {', '.join(choices)}, got {value!r}") from None


def whole(name, value):
    """Returns an integer, of any library's type, as an int."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {value!r}") from None


def require_tensors(operation, **tensors):
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{operation}: `{name}`: expected a tensor, got "
                            f"{type(tensor).__name__}")


def names_of(enum):
    return {member.name.lower(): int(member) for member in enum}


def gradient(tensor, operation):
    """Returns a contiguous gradient. autograd may pass one element with strides of 0."""
    return None if tensor is None else _contiguous(tensor, operation, copies.GRADIENT)


def _contiguous(tensor, operation, reason):
    """Returns a contiguous tensor. Under torch.compile the copy is in the graph and is not
    counted."""
    return tensor.contiguous() if is_compiling() else copies.contiguous(tensor, operation, reason)


# Before torch 2.11, torch.compile does not allow backward to query strides.
_ASKS_FOR_STRIDES = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 11)


def columns_together(tensor, operation, reason=copies.GRADIENT):
    """Makes the last dimension contiguous. Heads may have any strides."""
    if tensor is None:
        return None
    if is_compiling() and not _ASKS_FOR_STRIDES:
        return tensor.contiguous()
    return tensor if tensor.stride(-1) == 1 else _contiguous(tensor, operation, reason)


def queries_keys_values(q, k, v, operation):
    """Makes the last dimension of attention's inputs contiguous."""
    return tuple(
        columns_together(tensor, operation, copies.LAST_DIMENSION.replace("NAME", name))
        for name, tensor in (("q", q), ("k", k), ("v", v)))


def as_autocast_has_it(*tensors):
    """Under autocast, casts all tensors but f64 to its dtype, as torch does for matmul operands."""
    kind = device_type(tensors[0])
    if not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(tensor if tensor.dtype in (dtype, torch.float64) else tensor.to(dtype)
                 for tensor in tensors)


def main_grad_of(parameter):
    """Returns the f32 tensor that accumulates this parameter's gradient, or None."""
    if not config.main_grad or is_compiling():
        return None
    return getattr(parameter, "main_grad", None)


def added(parameter, main_grad):
    increment_version(main_grad)
    parameter.grad_added_to_main_grad = True


def is_first_backward(ctx):
    """Returns true only once per ctx, across all threads, because backward overwrites saved
    tensors."""
    mine = object()
    return ctx.__dict__.setdefault("spent", mine) is mine


def dtype_if(wanted, tensor):
    return tensor.dtype if wanted else None


class SecondOrder(Function):
    """Returns the gradients `made` unchanged, but dependent on all `sources`. Differentiating this
    node raises."""

    @staticmethod
    def forward(ctx, name, made, *tensors):
        ctx.name = name
        return tuple(gradient.view_as(gradient) for gradient in tensors[:made])

    @staticmethod
    def backward(ctx, *gradients):
        raise NotSupported(f"{ctx.name}: second derivatives are not supported; call backward once, "
                           "without create_graph=True")


class _UnpackedOnce:
    """A ctx whose saved tensors can be read repeatedly; torch's checkpoint hooks unpack only
    once."""

    __slots__ = ("_ctx", "_unpacked")

    def __init__(self, ctx):
        object.__setattr__(self, "_ctx", ctx)
        object.__setattr__(self, "_unpacked", None)

    @property
    def saved_tensors(self):
        if self._unpacked is None:
            object.__setattr__(self, "_unpacked", self._ctx.saved_tensors)
        return self._unpacked

    def __getattr__(self, name):
        return getattr(self._ctx, name)

    def __setattr__(self, name, value):
        setattr(self._ctx, name, value)


def first_order(backward):
    """Decorates a backward whose kernels have no second derivative, so that differentiating its
    gradients raises.

    With create_graph=True every gradient depends, through SecondOrder, on the upstream gradients
    and on the saved tensors. torch.autograd.grad visits only nodes that lead to the requested
    inputs. Without these sources it would skip this node. A Function whose gradients depend on an
    input that it does not save must therefore save one of its outputs, which leads to all
    inputs."""

    @functools.wraps(backward)
    def checked(ctx, *gradients):
        if not is_grad_enabled() or is_compiling():
            return backward(ctx, *gradients)
        unpacked = _UnpackedOnce(ctx)
        with no_grad():
            results = backward(unpacked, *gradients)
        results = results if isinstance(results, tuple) else (results,)
        made = [result.detach() for result in results if result is not None]
        if not made:
            return results
        sources = [tensor for tensor in (*gradients, *unpacked.saved_tensors)
                   if tensor is not None and tensor.requires_grad]
        if not sources:  # no second derivative: the gradient is constant
            return results
        marked = iter(SecondOrder.apply(type(ctx).__name__.removesuffix("FunctionBackward"),
                                        len(made), *made, *sources))
        return tuple(None if result is None else next(marked) for result in results)

    return checked

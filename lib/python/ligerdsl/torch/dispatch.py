"""Which way a call takes, and what the autograd functions share."""

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
    """Direct calls for tensors that are memory and nothing else, operators of torch's for all others."""
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
    """Tells DTensors about the operators, once there may be any: torch.distributed.tensor takes a second to import."""
    if "torch.distributed.tensor" in sys.modules:
        _learn_sharding()


def _refuse_mixtures(tensors):
    """A DTensor beside tensors: most likely a parameter of FSDP's where it is not gathered. torch's own words do not say what to do."""
    from torch.distributed.tensor import DTensor
    shards = [tensor for tensor in tensors if isinstance(tensor, DTensor)]
    others = [tensor for tensor in tensors if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.numel() != 1]
    implicit = getattr(getattr(DTensor, "_op_dispatcher", None), "_allow_implicit_replication", False)
    if not shards or not others or implicit:
        return
    one, other = shards[0], others[0]
    raise NotSupported(
        f"expected tensors alone or DTensors alone, got both: a DTensor of {list(one.shape)} with placements {one.placements} beside a tensor of "
        f"{list(other.shape)}. A parameter that FSDP shards is whole inside its module's forward only: call the function there (ligerdsl.patch "
        "computes a head's loss inside lm_head), or pass weight.full_tensor()")


def is_direct(*tensors):
    return not is_compiling() and _plain(*tensors)


def wants_grad(*tensors):
    """ctx.needs_input_grad is True under no_grad, too; this is not."""
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
    """Raises where one of these is neither a tensor nor None."""
    for array in arrays:
        if array is not None and not isinstance(array, torch.Tensor):
            raise TypeError(f"expected a torch.Tensor, got a {type(array).__module__}.{type(array).__qualname__}; torch.as_tensor() makes "
                            "one of it, and ligerdsl.ops takes other arrays as they are")


def device_type(tensor):
    """"cpu" or "cuda"."""
    try:
        return tensor.device.type
    except AttributeError:
        require_torch((tensor,))
        raise


_transforms_active = torch._C._are_functorch_transforms_active
_applies = {}


def call(function, *arguments, within=None):
    """function.apply(*arguments), without what that looks for in each argument. `within`, if given, is the same Function as `direct` makes
    it, and is called in its place outside torch.compile. Tensors whose strides the kernel does not take are copied."""
    if is_compiling():
        return function.apply(*arguments)
    if _transforms_active():
        raise NotSupported(f"{function.__name__.removesuffix('Function')}: {register.NO_TRANSFORMS}")
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
    """A number for a word, which may be one of the library's enumerators already."""
    if isinstance(value, str):
        try:
            return choices[value]
        except KeyError:
            raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {value!r}") from None
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}: expected one of {', '.join(choices)}, got {value!r}") from None


def whole(name, value):
    """A whole number of any library."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {value!r}") from None


def require_tensors(operation, **tensors):
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{operation}: `{name}`: expected a tensor, got {type(tensor).__name__}")


def names_of(enum):
    return {member.name.lower(): int(member) for member in enum}


def gradient(tensor, operation):
    """A gradient as the operation takes it. autograd may give one element for all of them, with strides of 0."""
    return None if tensor is None else _contiguous(tensor, operation)


def _contiguous(tensor, operation):
    """Compiled, the copy is part of the graph, and is not counted."""
    return tensor.contiguous() if is_compiling() else copies.contiguous(tensor, operation, "gradient")


# Before, torch.compile allows no backward to ask for strides.
_ASKS_FOR_STRIDES = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 11)


def columns_together(tensor, operation):
    """Heads may lie anywhere; the columns of one must be side by side."""
    if tensor is None:
        return None
    if is_compiling() and not _ASKS_FOR_STRIDES:
        return tensor.contiguous()
    return tensor if tensor.stride(-1) == 1 else _contiguous(tensor, operation)


def as_autocast_has_it(*tensors):
    """In autocast's dtype where that is on, as torch casts what it multiplies: all but f64."""
    kind = device_type(tensors[0])
    if not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(tensor if tensor.dtype in (dtype, torch.float64) else tensor.to(dtype) for tensor in tensors)


def main_grad_of(parameter):
    """Where this parameter's gradient is summed, or None."""
    if not config.main_grad or is_compiling():
        return None
    return getattr(parameter, "main_grad", None)


def added(parameter, main_grad):
    increment_version(main_grad)
    parameter.grad_added_to_main_grad = True


def is_first_backward(ctx):
    """Once for each ctx, whichever threads ask: what was saved is overwritten."""
    mine = object()
    return ctx.__dict__.setdefault("spent", mine) is mine


def dtype_if(wanted, tensor):
    return tensor.dtype if wanted else None


class SecondOrder(Function):
    """Returns `made` gradients as they are. They depend on all `sources`, through a node that raises when it is differentiated."""

    @staticmethod
    def forward(ctx, name, made, *tensors):
        ctx.name = name
        return tuple(gradient.view_as(gradient) for gradient in tensors[:made])

    @staticmethod
    def backward(ctx, *gradients):
        raise NotSupported(f"{ctx.name}: its gradient has no gradient of its own; expected one backward, without create_graph=True "
                           "behind it")


class _UnpackedOnce:
    """A ctx whose saved tensors can be read again: hooks of torch's checkpoints unpack them once only."""

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
    """Decorates the backward of a Function whose kernels have no second derivative: differentiating its gradients raises.

    With create_graph=True every gradient depends on the gradients that came in and on the saved tensors, through SecondOrder. A Function
    whose gradients depend on an input that it does not save must therefore save one of its outputs, which leads to all inputs.
    torch.autograd.grad runs only nodes that lead to the inputs it is asked for, so a node without these sources would be left out."""

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
        sources = [tensor for tensor in (*gradients, *unpacked.saved_tensors) if tensor is not None and tensor.requires_grad]
        if not sources:  # the gradient is the same whatever the inputs are
            return results
        marked = iter(SecondOrder.apply(type(ctx).__name__.removesuffix("FunctionBackward"), len(made), *made, *sources))
        return tuple(None if result is None else next(marked) for result in results)

    return checked

"""SwiGLU and GeGLU: activation(gate) * up."""

from torch.autograd import Function
from torch.autograd.graph import increment_version

from .. import ops as arrays
from ..errors import NotSupported
from .direct import direct
from .dispatch import (call, first_order, gradient, is_direct, is_first_backward, operations,
                       wants_grad)


def _overwriting(name, d_out, inputs, numbers):
    """Runs backward and stores the gradients in the memory of the forward's inputs."""
    gate, up, gate_up = inputs
    results = getattr(arrays, name)(d_out, gate, up, gate_up, d_gate=gate, d_up=up,
                                    d_gate_up=gate_up, **numbers)
    for tensor in inputs:
        if tensor is not None:
            increment_version(tensor)
    return results


def _backward(ctx, name, d_out, in_place, numbers):
    again = NotSupported(f"{name}: a second backward is not possible with in_place=True: the first "
                         "one wrote the gradients over the inputs, by an inplace operation; pass "
                         "in_place=False")
    if getattr(ctx, "spent", None) is not None:
        raise again
    gate, up, gate_up = ctx.saved_tensors
    d_out = gradient(d_out, name)
    if in_place and is_direct(d_out, gate, up, gate_up):
        if not is_first_backward(ctx):
            raise again
        results = _overwriting(name, d_out, (gate, up, gate_up), numbers)
    else:
        results = getattr(operations(d_out, gate, up, gate_up),
                          name)(d_out, gate, up, gate_up, **numbers)
    return [result if needed else None for result, needed in zip(results, ctx.needs_input_grad)]


class SwiGLUFunction(Function):
    """Inputs: `gate_up`, or gate and up; the others are None."""

    @staticmethod
    def forward(ctx, gate, up, gate_up, numbers):
        gate_multiplier, down_multiplier, _ = ctx.numbers = numbers
        ctx.save_for_backward(gate, up, gate_up)
        return operations(gate, up, gate_up).swiglu_forward(
            gate, up, gate_up, gate_multiplier=gate_multiplier, down_multiplier=down_multiplier)

    @staticmethod
    @first_order
    def backward(ctx, d_out):
        gate_multiplier, down_multiplier, in_place = ctx.numbers
        numbers = {"gate_multiplier": gate_multiplier, "down_multiplier": down_multiplier}
        return (*_backward(ctx, "swiglu_backward", d_out, in_place, numbers), None)


class GeGLUFunction(Function):
    @staticmethod
    def forward(ctx, gate, up, gate_up, numbers):
        ctx.numbers = numbers
        ctx.save_for_backward(gate, up, gate_up)
        return operations(gate, up, gate_up).geglu_forward(gate, up, gate_up)

    @staticmethod
    @first_order
    def backward(ctx, d_out):
        return (*_backward(ctx, "geglu_backward", d_out, *ctx.numbers, {}), None)


def _directly(function, name, numbers):
    """Returns two versions of the Function from `direct`, indexed by in_place."""
    words = "".join(f" .{number}" for number in numbers.split())
    return [direct(function, "gate up gate_up", numbers + " in_place", "d_out", returned="out",
                   saved="gate up gate_up",
                   forward=f"{name}_forward gate up gate_up out=gated(gate)" + words,
                   backward=f"{name}_backward d_out gate up gate_up d_gate={where % 'gate'} "
                            f"d_up={where % 'up'} d_gate_up={where % 'gate_up'}" + words,
                   gradients="d_gate d_up d_gate_up") for where in ("%s", "over(%s)")]


# indexed by in_place as a number, see norms.py
_SWIGLUS = _directly(SwiGLUFunction, "swiglu", "gate_multiplier down_multiplier")
_GEGLUS = _directly(GeGLUFunction, "geglu", "")


def _halves(gate, up):
    return (None, None, gate) if up is None else (gate, up, None)


def swiglu(gate, up=None, *, gate_multiplier=1.0, down_multiplier=1.0, in_place=False):
    """Returns SiLU(gate) * up. If up is None, gate and up are the halves of the first tensor's last
    dimension.

    in_place: backward overwrites gate and up with their gradients, so nothing else may use them."""
    gate, up, gate_up = _halves(gate, up)
    if wants_grad(gate, up, gate_up):
        numbers = (gate_multiplier, down_multiplier, in_place)
        return call(SwiGLUFunction, gate, up, gate_up, numbers,
                    within=_SWIGLUS[1 if in_place else 0])
    return operations(gate, up, gate_up).swiglu_forward(
        gate, up, gate_up, gate_multiplier=gate_multiplier, down_multiplier=down_multiplier)


def geglu(gate, up=None, *, in_place=False):
    """Returns GELU(gate) * up with the tanh form of GELU. up, in_place: see swiglu."""
    gate, up, gate_up = _halves(gate, up)
    if wants_grad(gate, up, gate_up):
        return call(GeGLUFunction, gate, up, gate_up, (in_place,),
                    within=_GEGLUS[1 if in_place else 0])
    return operations(gate, up, gate_up).geglu_forward(gate, up, gate_up)

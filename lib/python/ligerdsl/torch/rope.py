"""Rotary position embedding."""

from torch.autograd import Function

from ..enums import Rope
from ..errors import NotSupported
from .direct import direct
from .dispatch import (call, choice, columns_together, first_order, names_of, operations,
                       require_torch, wants_grad)

_LAYOUTS = names_of(Rope)


_NUMBERS = ("inverse", "complex_table", "layout", "rotary_dim", "time_section", "height_section",
            "width_section")


class RopeFunction(Function):
    """numbers: the values of _NUMBERS, then the backward rotation's `inverse`."""

    @staticmethod
    def forward(ctx, q, k, cos, sin, numbers):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(cos, sin)
        ctx.numbers = numbers
        q_out, k_out = operations(q, k, cos, sin).rope(q, k, cos, sin,
                                                       **dict(zip(_NUMBERS, numbers)))
        return q_out, (None if k is None else k_out)

    @staticmethod
    @first_order
    def backward(ctx, d_q, d_k):
        cos, sin = ctx.saved_tensors
        d_q, d_k = columns_together(d_q, "rope"), columns_together(d_k, "rope")
        inverse = {**dict(zip(_NUMBERS, ctx.numbers)), "inverse": ctx.numbers[-1]}
        if d_q is None:
            d_k = None if d_k is None else operations(d_k, cos, sin).rope(d_k, None, cos, sin,
                                                                          **inverse)[0]
            return None, d_k, None, None, None
        q_grad, k_grad = operations(d_q, d_k, cos, sin).rope(d_q, d_k, cos, sin, **inverse)
        return q_grad, (None if d_k is None else k_grad), None, None, None


_WORDS = " ".join("." + name for name in _NUMBERS[1:])
_direct_rope = direct(RopeFunction, "q k cos sin", " ".join(_NUMBERS) + " back", "d_q d_k",
                      forward=f"rope q k cos sin q_out=q k_out=k .inverse {_WORDS}",
                      saved="cos sin", returned="q_out k_out",
                      backward=f"rope d_q d_k cos sin q_grad=d_q k_grad=d_k .back {_WORDS}",
                      gradients="q_grad k_grad None None", columns_together=True)


def rope(q, k, cos, sin=None, *, heads_dim=2, layout="half", rotary_dim=0, sections=(0, 0, 0),
         inverse=False):
    """Rotates q and k; k may be None. Returns (q_out, k_out).

    * q and k: [batch, position, head, column], or with heads_dim=1 [batch, head, position, column],
      also without a copy.
    * cos and sin: [S, D], [1, S, D] or [B, S, D]; without sin, cos alternates cosines and sines.
    * layout: "half", "interleaved" or "multimodal". "multimodal" has `sections` of angles, and cos
      and sin have three planes."""
    if cos.requires_grad or sin is not None and sin.requires_grad:
        raise NotSupported("rope: cos and sin have no gradients; detach them")
    if heads_dim not in (1, 2):
        raise ValueError(f"rope: heads_dim: expected 1 or 2, got {heads_dim}")
    time, height, width = sections
    numbers = (inverse, sin is None, choice("layout", layout, _LAYOUTS), rotary_dim, time, height,
               width)
    if heads_dim == 1:
        require_torch((q, k))
        q, k = q.transpose(1, 2), None if k is None else k.transpose(1, 2)
    if wants_grad(q, k):
        q_out, k_out = call(RopeFunction, q, k, cos, sin, (*numbers, not inverse),
                            within=_direct_rope)
    else:
        q_out, k_out = operations(q, k, cos, sin).rope(q, k, cos, sin,
                                                       **dict(zip(_NUMBERS, numbers)))
    if heads_dim == 1:
        q_out, k_out = q_out.transpose(1, 2), None if k is None else k_out.transpose(1, 2)
    return q_out, (None if k is None else k_out)

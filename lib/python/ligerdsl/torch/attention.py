"""Attention that does not store the scores."""

import torch
from torch.autograd import Function

from .dispatch import (as_autocast_has_it, call, columns_together, first_order, operations,
                       queries_keys_values, require_tensors, wants_grad, whole)


def _operation(bounds, direction, *tensors):
    return getattr(operations(*tensors),
                   f"attention_varlen_{direction}" if bounds else f"attention_{direction}")


class AttentionFunction(Function):
    """Attention over a batch, or over concatenated sequences if `bounds` is given: the bounds of
    their queries and of their keys."""

    @staticmethod
    def forward(ctx, q, k, v, sinks, numbers, *bounds):
        ctx.set_materialize_grads(False)
        o, lse = _operation(bounds, "forward", q, k, v, sinks)(q, k, v, *bounds, sinks,
                                                               with_lse=True, **numbers)
        ctx.save_for_backward(q, k, v, o, lse, sinks, *bounds)
        ctx.numbers = numbers
        return o, lse

    @staticmethod
    @first_order
    def backward(ctx, d_o, d_lse):
        others = [None] * (len(ctx.needs_input_grad) - 4)
        if d_o is None and d_lse is None:
            return None, None, None, None, *others
        q, k, v, o, lse, sinks, *bounds = ctx.saved_tensors
        name = "attention_varlen_backward" if bounds else "attention_backward"
        d_o = torch.zeros_like(o) if d_o is None else columns_together(d_o, name)
        d_lse = columns_together(d_lse, name)
        if not ctx.needs_input_grad[3]:
            sinks = None
        gradients = _operation(bounds, "backward", d_o, q, k, v, o, lse, sinks,
                               d_lse)(d_o, q, k, v, o, lse, *bounds, sinks, d_lse, **ctx.numbers)
        return (*(gradient if needed else None
                  for gradient, needed in zip(gradients, ctx.needs_input_grad)), *others)


def _sinks(name, sinks):
    """Returns sinks as contiguous f32; sinks of 16 bits are converted."""
    if sinks is None:
        return None
    require_tensors(name, sinks=sinks)
    half = sinks.dtype in (torch.float16, torch.bfloat16)
    return (sinks.float() if half else sinks).contiguous()


def _numbers(name, causal, window, softcap, scale):
    """Returns the fields of the descriptor."""
    left, right = window
    for side, keys in (("left", left), ("right", right)):
        if keys is not None and keys < 0:
            raise ValueError(f"{name}: window: expected 0 or more keys to the {side}, or None for "
                             f"all, got {keys}")
    if scale == 0:  # in the descriptor, 0 means 1 / sqrt(head_dim)
        raise ValueError(f"{name}: scale: expected a number other than 0, or None for 1 / "
                         f"sqrt(column), got {scale}")
    return {"causal": causal,
            "window_left": -1 if left is None else left,
            "window_right": -1 if right is None else right,
            "scale": 0.0 if scale is None else scale,
            "softcap": softcap}


def attention(q, k, v, *, causal=False, window=(None, None), softcap=0.0, scale=None, heads_dim=2,
              sinks=None, return_lse=False):
    """Returns softmax(scale q k^T) v over the keys that each query sees; the scores are not stored.

    * q: [batch, queries, heads, column]. k and v: [batch, keys, key heads, column]. With
      heads_dim=1 all three are [batch, heads, tokens, column], also without a copy. Groups of heads
      of q share one head of k and v. All have one dtype; under autocast they are cast as
      scaled_dot_product_attention does.
    * causal: masks later keys of each query; the last query is at the last key's position.
    * window: (left, right), the number of visible keys on each side of a query; None: all.
    * softcap: replaces scores z by softcap tanh(z / softcap); 0: no softcap.
    * scale: default 1 / sqrt(column).
    * sinks: [heads], an extra logit of each head. It enters the softmax denominator of each
      query and has no value. -inf means no sink. Sinks of 16 bits are converted to f32.
    * return_lse: also returns the lse of each query, f32 [batch, heads, queries], including the
      sink and with a gradient.

    A query that sees no key gives 0, and its lse is -inf or its sink. Backward is deterministic. It
    computes the gradients of q, k and v even if some of them are not needed."""
    if heads_dim not in (1, 2):
        raise ValueError(f"attention: heads_dim: expected 1 or 2, got {heads_dim}")
    require_tensors("attention", q=q, k=k, v=v)
    numbers = _numbers("attention", causal, window, softcap, scale)
    if heads_dim == 1:
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    q, k, v = as_autocast_has_it(q, k, v)
    q, k, v = queries_keys_values(q, k, v, "attention_forward")
    sinks = _sinks("attention", sinks)
    if wants_grad(q, k, v, sinks):
        o, lse = call(AttentionFunction, q, k, v, sinks, numbers)
    else:
        o, lse = operations(q, k, v, sinks).attention_forward(q, k, v, sinks, with_lse=return_lse,
                                                              **numbers)
    if heads_dim == 1:
        o = o.transpose(1, 2)
    return (o, lse) if return_lse else o


def attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, *,
                     causal=False, window=(None, None), softcap=0.0, scale=None, sinks=None,
                     return_lse=False):
    """Attention of concatenated sequences with different lengths.

    * q: [tokens, heads, column]. k and v: [tokens, key heads, column].
    * cu_seqlens_q, cu_seqlens_k: int32 or int64 [sequences + 1] on q's device, from 0 to the number
      of tokens. Sequence n has the queries [cu_seqlens_q[n], cu_seqlens_q[n + 1]), and keys
      likewise; it may be empty. The device reads the bounds, so the host does not wait.
    * max_seqlen_q, max_seqlen_k: upper bounds of the lengths. Larger values launch programs that
      end at once.

    Everything else is as in attention, applied to each sequence separately: a sequence's last query
    is at its last key's position. return_lse also returns f32 [heads, tokens]. Bounds that
    decrease, omit tokens or exceed the given lengths raise BoundsError, on a GPU later
    (ligerdsl.check)."""
    require_tensors("attention_varlen", q=q, k=k, v=v, cu_seqlens_q=cu_seqlens_q,
                    cu_seqlens_k=cu_seqlens_k)
    numbers = _numbers("attention_varlen", causal, window, softcap, scale)
    numbers |= {name: whole(name, longest) for name, longest in (("max_seqlen_q", max_seqlen_q),
                                                                 ("max_seqlen_k", max_seqlen_k))}
    q, k, v = as_autocast_has_it(q, k, v)
    q, k, v = queries_keys_values(q, k, v, "attention_varlen_forward")
    sinks = _sinks("attention_varlen", sinks)
    if wants_grad(q, k, v, sinks):
        o, lse = call(AttentionFunction, q, k, v, sinks, numbers, cu_seqlens_q, cu_seqlens_k)
    else:
        o, lse = operations(q, k, v, sinks).attention_varlen_forward(
            q, k, v, cu_seqlens_q, cu_seqlens_k, sinks, with_lse=return_lse, **numbers)
    return (o, lse) if return_lse else o

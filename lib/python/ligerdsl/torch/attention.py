"""Attention that stores no scores."""

from torch.autograd import Function

from .dispatch import as_autocast_has_it, call, columns_together, first_order, operations, wants_grad


class AttentionFunction(Function):
    @staticmethod
    def forward(ctx, q, k, v, numbers):
        ctx.set_materialize_grads(False)
        o, lse = operations(q, k, v).attention_forward(q, k, v, with_lse=True, **numbers)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.numbers = numbers
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    @first_order
    def backward(ctx, d_o, _):
        if d_o is None:
            return None, None, None, None
        q, k, v, o, lse = ctx.saved_tensors
        d_o = columns_together(d_o)
        gradients = operations(d_o, q, k, v, o, lse).attention_backward(d_o, q, k, v, o, lse, **ctx.numbers)
        return *(gradient if needed else None for gradient, needed in zip(gradients, ctx.needs_input_grad)), None


def attention(q, k, v, *, causal=False, window=(None, None), softcap=0.0, scale=None, heads_dim=2, return_lse=False):
    """softmax(scale q k^T) v over the keys that each query sees, without scores in memory.

    q is [batch, queries, heads, column], k and v [batch, keys, heads of keys, column], with heads_dim=1 [batch, heads, tokens, column],
    which is no copy; heads of q take those of k and v in groups. The last query is where the last key is: causal hides keys to the right of
    a query's own, window=(left, right) all but so many to its left and right, None: all are seen. softcap z = softcap tanh(z / softcap) of
    scores, 0: none; scale 1 / sqrt(column) unless said. A query that sees no key gives 0. With return_lse also the logarithms of the sums of
    exponentials, f32 [batch, heads, queries], which have no gradient. Backward is deterministic and makes all three gradients, whichever
    are wanted. q, k and v are of one dtype; under autocast they are cast as scaled_dot_product_attention casts them."""
    if heads_dim not in (1, 2):
        raise ValueError(f"attention: heads_dim: expected 1 or 2, got {heads_dim}")
    left, right = window
    for name, keys in (("left", left), ("right", right)):
        if keys is not None and keys < 0:
            raise ValueError(f"attention: window: expected 0 or more keys to the {name}, or None for all, got {keys}")
    if scale == 0:  # to the operation that is 1 / sqrt(column)
        raise ValueError(f"attention: scale: expected a number above 0, or None for 1 / sqrt(column), got {scale}")
    numbers = {"causal": causal, "window_left": -1 if left is None else left, "window_right": -1 if right is None else right,
               "scale": 0.0 if scale is None else scale, "softcap": softcap}
    if heads_dim == 1:
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    q, k, v = as_autocast_has_it(q, k, v)
    q, k, v = columns_together(q), columns_together(k), columns_together(v)
    if wants_grad(q, k, v):
        o, lse = call(AttentionFunction, q, k, v, numbers)
    else:
        o, lse = operations(q, k, v).attention_forward(q, k, v, with_lse=return_lse, **numbers)
    if heads_dim == 1:
        o = o.transpose(1, 2)
    return (o, lse) if return_lse else o

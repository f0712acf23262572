"""A decoder layer that is recomputed in backward, as one autograd node.

torch's checkpointing runs a layer's modules twice and handles every tensor that they save. With
small batches the GPU waits for this host work. Here the forward saves only the layer's input, and
the backward is written out:

    n1 = norm(x); q, k, v = rope(n1 Wq), rope(n1 Wk), n1 Wv; a = attention(q, k, v)
    h = x + a Wo; n2 = norm(h); y = h + (silu(n2 Wg) * (n2 Wu)) Wd

* If the weights of q, k and v are contiguous (`contiguous_weights.py`), one matmul computes q, k
  and v, and one computes the gradient of n1. If all three weight gradients are wanted, one matmul
  computes them into one storage.
* silu(gate) * up is recomputed for one piece of the rows at a time, and the gradients of gate and
  up overwrite them. So only two of four matrices of the MLP's width exist as a whole.
* If the weights of gate and up are contiguous (`contiguous_weights.py`), one kernel computes
  silu(gate) * up from the norm's output, and one the gradients in backward. Then gate and up are
  never stored.
* The residual exists before the matmul that adds to it, which accumulates in place (addmm_).
* Gradients of the same tensor are added by the matmul or norm that computes the last of them.
* Attention is torch's scaled_dot_product_attention. If its output is kept, its forward runs once.
"""

from dataclasses import dataclass

import torch
from torch.autograd import Function
from torch.nn.functional import linear, scaled_dot_product_attention

from .. import ops as arrays
from ..torch import ops
from ..torch.dispatch import first_order
from .contiguous_weights import is_faster


@dataclass(frozen=True)
class Shape:
    """Constants of a layer: everything that is not a tensor."""

    head_dim: int
    scale: float
    eps: tuple           # eps of both norms
    piece_rows: int      # largest number of rows that the MLP processes at a time
    keep: bool = False   # keep the output of attention until backward


def attention(q, k, v, scale):
    return scaled_dot_product_attention(q, k, v, scale=scale, is_causal=q.shape[2] > 1,
                                        enable_gqa=q.shape[1] != k.shape[1])


class Attention:
    """Attention together with its autograd graph."""

    def __init__(self, q, k, v, scale):
        with torch.enable_grad():
            self.leaves = [t.detach().requires_grad_() for t in (q, k, v)]
            self.out = attention(*self.leaves, scale)

    def backward(self, q, k, v, d_out):
        return torch.autograd.grad(self.out, self.leaves, d_out)


class KeptAttention(Attention):
    """Attention whose graph does not keep q, k and v. Backward supplies the recomputed ones."""

    def __init__(self, q, k, v, scale):
        self.given, self.known = None, {t.data_ptr(): i for i, t in enumerate((q, k, v))}
        with torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
            super().__init__(q, k, v, scale)
        self.known = {}
        for leaf in self.leaves:
            leaf.data = leaf.new_empty(0)

    def pack(self, tensor):
        index = self.known.get(tensor.data_ptr())
        return tensor if index is None else (index, tensor.shape, tensor.stride())

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        index, shape, stride = packed
        return self.given[index].as_strided(shape, stride)

    def backward(self, q, k, v, d_out):
        self.given = (q, k, v)
        try:
            return super().backward(q, k, v, d_out)
        finally:
            self.given = None


def product(wanted, d_out, x):
    """Returns the gradient of a weight, or None if it is not wanted."""
    return torch.mm(d_out.t(), x) if wanted else None


def cut(t, weights, dim=-1):
    """Splits t along `dim` into one part per weight. Each part's size is the weight's number of
    rows."""
    return t.split([len(weight) for weight in weights], dim)


def queries_keys_values(shape, w_qkv, n1, cos, sin, *weights):
    """Returns q, k and v, each [batch, head, position, column], with q and k rotated.

    w_qkv: the weights as one matrix, or None."""
    parts = [linear(n1, weight) for weight in weights] if w_qkv is None else cut(linear(n1, w_qkv),
                                                                                 weights)
    heads = [part.unflatten(-1, (-1, shape.head_dim)) for part in parts]
    arrays.rope(heads[0], heads[1], cos, sin, rotary_dim=cos.shape[-1], q_out=heads[0],
                k_out=heads[1])
    return [t.transpose(1, 2) for t in heads]


def queries_keys_values_backward(w_qkv, wanted, d_heads, n1, cos, sin, *weights):
    """Returns d_n1 and the list of the weights' gradients.

    wanted: one flag per weight. d_heads: gradients in the layout of queries_keys_values'
    results."""
    d_qkv = n1.new_empty(len(n1), sum(map(len, weights)))
    parts = cut(d_qkv, weights)
    d_heads = [d.transpose(1, 2) for d in d_heads]
    d_heads = [d if d.stride(-1) == 1 else d.contiguous() for d in d_heads]
    q_out, k_out, v_out = (part.view(d.shape) for part, d in zip(parts, d_heads))
    arrays.rope(*d_heads[:2], cos, sin, rotary_dim=cos.shape[-1], inverse=True, q_out=q_out,
                k_out=k_out)
    v_out.copy_(d_heads[2])
    if w_qkv is None:
        d_n1 = torch.mm(parts[0], weights[0]).addmm_(parts[1], weights[1]).addmm_(parts[2],
                                                                                  weights[2])
    else:
        d_n1 = torch.mm(d_qkv, w_qkv)
        if all(wanted):
            return d_n1, cut(product(True, d_qkv, n1), weights, dim=0)
    return d_n1, [product(wants, part, n1) for wants, part in zip(wanted, parts)]


def heads_joined(t):
    """Concatenates the heads: [batch, position, head * column]."""
    return t.transpose(1, 2).flatten(2)


def pieces(rows, limit):
    """Returns (begin, end) of about equal parts of at most `limit` rows."""
    count = -(-rows // limit)
    size = -(-rows // count)
    return [(begin, min(begin + size, rows)) for begin in range(0, rows, size)]


def gated_forward(shape, both, n2, h, wg, wu, wd):
    """Adds the MLP's result for n2 to h in place; returns h."""
    rows, y = n2.flatten(0, -2), h.flatten(0, -2)
    for begin, end in pieces(len(rows), shape.piece_rows):
        part = rows[begin:end]
        if both is None:
            out = ops.swiglu_forward(linear(part, wg), linear(part, wu))
        else:
            _, out = arrays.gated_matmul_nt(part, both)
        y[begin:end].addmm_(out, wd.t())
    return h


class Sum:
    """Sum of a weight's gradient over pieces, in f32 if there are several.

    in_memory: the matmul itself accumulates into the sum."""

    def __init__(self, like, several, in_memory=False):
        self.total = None
        self.dtype, self.several, self.in_memory = like.dtype, several, several and in_memory

    def add(self, d_out, x):
        if self.in_memory:
            first = self.total is None
            if first:
                self.total = d_out.new_empty(d_out.shape[1], x.shape[1], dtype=torch.float32)
            arrays.matmul_tn(d_out, x, None, self.total, beta=0.0 if first else 1.0)
            return
        part = torch.mm(d_out.t(), x)
        if self.total is None:
            self.total = part.float() if self.several else part
        else:
            self.total += part

    def result(self):
        return None if self.total is None else self.total.to(self.dtype)


def gated_backward(shape, both, wanted, d_y, n2, wg, wu, wd):
    """Returns d_n2, and the gradients of wg, wu and wd. wanted: one flag for each of these
    three."""
    if both is None:
        # d_gate and d_up hold gate and up until the gradients overwrite them
        d_gate, d_up = linear(n2, wg), linear(n2, wu)
    else:
        d_gate_up = n2.new_empty(len(n2), len(both))
        d_gate, d_up = d_gate_up.chunk(2, dim=1)
    parts = pieces(len(n2), shape.piece_rows)
    d_wd = Sum(wd, len(parts) > 1, in_memory=is_faster(wd))
    memory = d_gate.new_empty(1 + bool(wanted[2]), parts[0][1], d_gate.shape[1])
    for begin, end in parts:
        d_out, out = memory[0, :end - begin], memory[1, :end - begin] if wanted[2] else None
        torch.mm(d_y[begin:end], wd, out=d_out)
        if both is not None:
            arrays.gated_matmul_nt_backward(n2[begin:end], both, d_out,
                                            d_gate_up=d_gate_up[begin:end], out=out)
        else:
            gate, up = d_gate[begin:end], d_up[begin:end]
            if wanted[2]:
                arrays.swiglu_forward(gate, up, out=out)
            arrays.swiglu_backward(d_out, gate, up, d_gate=gate, d_up=up)
        if wanted[2]:
            d_wd.add(d_y[begin:end], out)
    del memory, out, d_out
    d_n2 = torch.mm(d_gate, wg).addmm_(d_up, wu) if both is None else torch.mm(d_gate_up, both)
    return d_n2, (product(wanted[0], d_gate, n2), product(wanted[1], d_up, n2), d_wd.result())


class LayerFunction(Function):
    """A whole decoder layer.

    joined: two Joined weights, (q, k, v) and (gate, up). Tensors: x, cos, sin, then the weights of
    the first norm, q, k, v, o, the second norm, gate, up and down."""

    @staticmethod
    def forward(ctx, shape, joined, x, cos, sin, w1, wq, wk, wv, wo, w2, wg, wu, wd):
        ctx.shape, ctx.joined = shape, joined
        ctx.save_for_backward(x, cos, sin, w1, wq, wk, wv, wo, w2, wg, wu, wd)
        n1, _ = ops.rms_norm_forward(x, w1, eps=shape.eps[0])
        q, k, v = queries_keys_values(shape, joined.qkv.of(wq, wk, wv), n1, cos, sin, wq, wk, wv)
        del n1
        ctx.kept = KeptAttention(q, k, v, shape.scale) if shape.keep else None
        a = ctx.kept.out.detach() if shape.keep else attention(q, k, v, shape.scale)
        del q, k, v
        n2, h, _ = ops.fused_add_rms_norm_forward(linear(heads_joined(a), wo), x, w2,
                                                  eps=shape.eps[1])
        del a
        return gated_forward(shape, joined.gate_up.of(wg, wu), n2, h, wg, wu, wd)

    @staticmethod
    @first_order
    def backward(ctx, d_y):
        shape, batch = ctx.shape, d_y.shape
        x, cos, sin, w1, wq, wk, wv, wo, w2, wg, wu, wd = ctx.saved_tensors
        needs_1, *needs_qkv, needs_o, needs_2, needs_gate, needs_up, needs_down = (
            ctx.needs_input_grad[5:])
        w_qkv = ctx.joined.qkv.of(wq, wk, wv)
        n1, rstd1 = ops.rms_norm_forward(x, w1, eps=shape.eps[0], with_rstd=True)
        q, k, v = queries_keys_values(shape, w_qkv, n1, cos, sin, wq, wk, wv)
        around, ctx.kept = ctx.kept or Attention(q, k, v, shape.scale), None
        a = heads_joined(around.out.detach()).flatten(0, 1)
        n2, h, rstd2 = ops.fused_add_rms_norm_forward(linear(a, wo).view(batch), x, w2,
                                                      eps=shape.eps[1], with_rstd=True)
        d_y = d_y.contiguous()
        d_n2, d_mlp = gated_backward(shape, ctx.joined.gate_up.of(wg, wu),
                                     (needs_gate, needs_up, needs_down), d_y.flatten(0, 1),
                                     n2.flatten(0, 1), wg, wu, wd)
        del n2
        d_h, d_w2 = arrays.fused_add_rms_norm_backward(d_n2.view(batch), d_y, h, w2, rstd2,
                                                       d_weight_dtype=w2.dtype if needs_2 else None,
                                                       d_x=d_n2.view(batch))
        del d_n2, h, d_y
        rows = d_h.flatten(0, 1)
        d_wo = product(needs_o, rows, a)
        d_a = torch.mm(rows, wo).view(*batch[:2], -1, shape.head_dim).transpose(1, 2)
        d_heads = around.backward(q, k, v, d_a)
        del q, k, v, a, d_a, around
        d_n1, d_qkv_weights = queries_keys_values_backward(w_qkv, needs_qkv, d_heads,
                                                           n1.flatten(0, 1), cos, sin, wq, wk, wv)
        del d_heads, n1
        d_x, d_w1 = arrays.fused_add_rms_norm_backward(d_n1.view(batch), d_h, x, w1, rstd1,
                                                       d_weight_dtype=w1.dtype if needs_1 else None,
                                                       d_x=d_n1.view(batch))
        return (None, None, d_x, None, None, d_w1, *d_qkv_weights, d_wo, d_w2, *d_mlp)

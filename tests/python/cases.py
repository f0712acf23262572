"""Functions with autograd, and their references of torch operators in float64."""

import math

import torch
import torch.nn.functional as F

import ligerdsl.torch as lt


def tensor(*shape, scale=1.0, shift=0.0):
    return torch.randn(*shape) * scale + shift


def positive(*shape):
    return torch.softmax(torch.randn(*shape), -1)


def rms(x, w, eps=1e-6, offset=0.0):
    return (
        x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * (1 if w is None else w + offset))


def rotate(q, cos, sin):
    half = q.shape[-1] // 2
    cos, sin = cos[:, :, None], sin[:, :, None]
    return q * cos + torch.cat([-q[..., half:], q[..., :half]], -1) * sin


def tables(b, s, d):
    angles = torch.rand(b, s, d // 2) * 6
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def poly(x, w, b):
    return sum(w[3 - p] * x**p * torch.rsqrt(x.pow(2 * p).mean(-1, keepdim=True) + 1e-6)
               for p in (1, 2, 3)) + b


def sparsemax(x):
    ordered, _ = x.sort(-1, descending=True)
    sums = ordered.cumsum(-1)
    counts = torch.arange(1, x.shape[-1] + 1)
    size = (1 + counts * ordered > sums).sum(-1, keepdim=True)
    return (x - (sums.gather(-1, size - 1) - 1) / size).clamp(min=0)


def causal(x):
    mask = torch.ones(x.shape[-2:], dtype=torch.bool).tril(x.shape[-1] - x.shape[-2])
    return torch.softmax(0.7 * x.masked_fill(~mask, -math.inf), -1)


def attention(q, k, v, left, right, scale, cap=None, sinks=None):
    """Attention over [batch, tokens, heads, column] with all scores stored; a query without visible
    keys gives 0. Returns lse, too, if there are sinks."""
    k, v = (t.repeat_interleave(q.shape[2] // t.shape[2], 2) for t in (k, v))
    z = scale * torch.einsum("bihd,bjhd->bhij", q, k)
    z = z if cap is None else cap * torch.tanh(z / cap)
    right_of = (
        torch.arange(k.shape[1]) - (torch.arange(q.shape[1]) + k.shape[1] - q.shape[1])[:, None])
    seen = (right_of >= -left) & (right_of <= right)
    if sinks is not None:
        z = z.masked_fill(~seen, -math.inf)
        sink = sinks[None, :, None, None].expand(*z.shape[:3], 1)
        lse = torch.cat([z, sink], -1).logsumexp(-1)
        return torch.einsum("bhij,bjhd->bihd", (z - lse[..., None]).exp(), v), lse
    p = torch.where(seen, z.masked_fill(~seen, -1e30).softmax(-1), 0)
    return torch.einsum("bhij,bjhd->bihd", p, v)


def joined(o, lse):
    """Returns one tensor that depends on both results of attention."""
    return o + lse.transpose(1, 2)[..., None]


def sequences(q, k, v, bounds_q, bounds_k, left, right, scale):
    """Applies attention to each sequence."""
    ends_q, ends_k = bounds_q.tolist(), bounds_k.tolist()
    return torch.cat([attention(q[None, a:b], k[None, c:d], v[None, c:d], left, right, scale)[0]
                      if d > c else torch.zeros_like(q[a:b])
                      for a, b, c, d in zip(ends_q, ends_q[1:], ends_k, ends_k[1:])])


def jsd(x, y, b=0.3):
    q, p = x.exp(), y.exp()
    m = (b * p + (1 - b) * q).log()
    return (b * p * (y - m) + (1 - b) * q * (x - m)).sum() / x.shape[0]


def heads(x, w, tx, tw, b=0.3):
    return jsd(F.log_softmax(x @ w.T, -1), F.log_softmax(tx @ tw.T, -1), b)


def modulated(x, scale, shift, w):
    rows = x.reshape(scale.shape[0], -1, x.shape[-1])
    return (rms(rows, w) * (1 + scale[:, None]) + shift[:, None]).reshape(x.shape)


def entropies(z):
    p = torch.softmax(z, -1)
    return -(p * p.log()).sum(-1)


def rows_of(z, l, reduction):
    """Returns the (reduced) loss and the entropies of rows; ignored rows have entropy 0."""
    loss = F.cross_entropy(z.flatten(0, 1), l.flatten(), reduction=reduction)
    return ((loss.view(l.shape) if reduction == "none" else loss),
            entropies(z).masked_fill(l == -100, 0))


def grouped(x, w, offsets):
    ends = offsets.tolist()
    parts = [x[begin:end] @ w[e].T for e, (begin, end) in enumerate(zip(ends, ends[1:]))]
    return torch.cat([x[:ends[0]] @ w[0].T * 0, *parts, x[ends[-1]:] @ w[0].T * 0])


def loss_and_entropy(result):
    return result.loss, result.entropy


LABELS = torch.tensor([[3, 0, -100], [9, 5, 1]])

# name: (function, reference, maker of inputs with gradients, maker of inputs without)
CASES = {
    "rms_norm": (lt.rms_norm, rms, lambda: [tensor(3, 5, 40), tensor(40)], lambda: []),
    "rms_norm without a weight": (lt.rms_norm, lambda x: rms(x, None), lambda: [tensor(7, 33)],
                                  lambda: []),
    "rms_norm of Gemma": (lambda x, w: lt.rms_norm(x, w, 1e-5, offset=1.0, casting="gemma"),
                          lambda x, w: rms(x, w, 1e-5, 1.0), lambda: [tensor(7, 33), tensor(33)],
                          lambda: []),
    "fused_add_rms_norm": (lt.fused_add_rms_norm, lambda x, r, w: (rms(x + r, w), x + r),
                           lambda: [tensor(3, 5, 40), tensor(3, 5, 40), tensor(40)], lambda: []),
    "layer_norm": (lt.layer_norm, lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
                   lambda: [tensor(3, 5, 40), tensor(40), tensor(40)], lambda: []),
    "layer_norm without a bias": (lt.layer_norm, lambda x, w: F.layer_norm(x, x.shape[-1:], w),
                                  lambda: [tensor(6, 40), tensor(40)], lambda: []),
    "fused_add_layer_norm": (lt.fused_add_layer_norm,
                             lambda x, r, w, b: (F.layer_norm(x + r, x.shape[-1:], w, b), x + r),
                             lambda: [tensor(6, 40), tensor(6, 40), tensor(40), tensor(40)],
                             lambda: []),
    "group_norm": (lambda x, w, b: lt.group_norm(x, 4, w, b),
                   lambda x, w, b: F.group_norm(x, 4, w, b),
                   lambda: [tensor(3, 8, 5, 6), tensor(8), tensor(8)], lambda: []),
    "poly_norm": (lt.poly_norm, poly, lambda: [tensor(6, 40), tensor(3), tensor(1)], lambda: []),
    "dyt": (lt.dyt, lambda x, a, w, b: w * torch.tanh(a * x) + b,
            lambda: [tensor(6, 40), tensor(1), tensor(40), tensor(40)], lambda: []),
    "modulated_rms_norm": (lt.modulated_rms_norm, modulated,
                           lambda: [tensor(6, 40), tensor(2, 40), tensor(2, 40), tensor(40)],
                           lambda: []),
    "swiglu": (lt.swiglu, lambda g, u: F.silu(g) * u, lambda: [tensor(3, 5, 40), tensor(3, 5, 40)],
               lambda: []),
    "swiglu of halves": (lambda x: lt.swiglu(x, gate_multiplier=0.5, down_multiplier=2.0),
                         lambda x: F.silu(0.5 * x.chunk(2, -1)[0]) * x.chunk(2, -1)[1] * 2,
                         lambda: [tensor(3, 5, 80)], lambda: []),
    "geglu": (lt.geglu, lambda g, u: F.gelu(g, approximate="tanh") * u,
              lambda: [tensor(6, 40), tensor(6, 40)], lambda: []),
    "rope": (lt.rope, lambda q, k, c, s: (rotate(q, c, s), rotate(k, c, s)),
             lambda: [tensor(2, 5, 4, 16), tensor(2, 5, 2, 16)], lambda: list(tables(2, 5, 16))),
    "rope of heads first": (
        lambda q, k, c, s: lt.rope(q, k, c, s, heads_dim=1),
        lambda q, k, c, s: tuple(rotate(t.transpose(1, 2), c, s).transpose(1, 2) for t in (q, k)),
        lambda: [tensor(2, 4, 5, 16), tensor(2, 2, 5, 16)], lambda: list(tables(1, 5, 16))),
    "attention": (lambda q, k, v: lt.attention(q, k, v, causal=True),
                  lambda q, k, v: attention(q, k, v, math.inf, 0, 8**-0.5),
                  lambda: [tensor(2, 7, 4, 8), tensor(2, 9, 2, 8), tensor(2, 9, 2, 8)], lambda: []),
    "attention of heads first": (
        lambda q, k, v: lt.attention(q, k, v, window=(3, 1), softcap=2.0, scale=0.5, heads_dim=1),
        lambda q, k, v: attention(*(t.transpose(1, 2) for t in (q, k, v)), 3, 1, 0.5,
                                  2.0).transpose(1, 2),
        lambda: [tensor(2, 4, 9, 8), tensor(2, 4, 5, 8), tensor(2, 4, 5, 8)], lambda: []),
    "attention with sinks": (
        lambda q, k, v, s: joined(*lt.attention(q, k, v, causal=True, sinks=s, return_lse=True)),
        lambda q, k, v, s: joined(*attention(q, k, v, math.inf, 0, 8**-0.5, sinks=s)),
        lambda: [tensor(2, 9, 4, 8), tensor(2, 7, 2, 8), tensor(2, 7, 2, 8), tensor(4)],
        lambda: []),
    "attention_varlen": (lambda q, k, v, a, b: lt.attention_varlen(q, k, v, a, b, 7, 6, causal=True,
                                                                   window=(4, None)),
                         lambda q, k, v, a, b: sequences(q, k, v, a, b, 4, 0, 8**-0.5),
                         lambda: [tensor(12, 4, 8), tensor(11, 2, 8), tensor(11, 2, 8)],
                         lambda: [torch.tensor(ends, dtype=torch.int32)
                                  for ends in ([0, 4, 4, 11, 12], [0, 6, 8, 11, 11])]),
    "softmax": (lt.softmax, lambda x: torch.softmax(x, -1), lambda: [tensor(6, 40)], lambda: []),
    "causal softmax": (lambda x: lt.softmax(x, scale=0.7, causal=True), causal,
                       lambda: [tensor(2, 3, 7, 7)], lambda: []),
    "sparsemax": (lt.sparsemax, sparsemax, lambda: [tensor(6, 40)], lambda: []),
    "activation": (lambda x: lt.activation(x, "relu_squared"), lambda x: F.relu(x).square(),
                   lambda: [tensor(6, 40)], lambda: []),
    "bias_add": (lt.bias_add, lambda x, b: x + b, lambda: [tensor(3, 5, 40), tensor(40)],
                 lambda: []),
    "embedding": (lambda w, i: lt.embedding(i, w, padding_idx=2),
                  lambda w, i: F.embedding(i, w, padding_idx=2), lambda: [tensor(9, 12)],
                  lambda: [torch.tensor([[1, 2, 8], [1, 0, 2]])]),
    "grouped_linear": (lt.grouped_linear, grouped, lambda: [tensor(9, 12), tensor(4, 10, 12)],
                       lambda: [torch.tensor([0, 3, 3, 8, 9])]),
    "grouped_linear of columns": (lambda x, w, o: lt.grouped_linear(x, w, o, transposed=False),
                                  lambda x, w, o: grouped(x, w.transpose(1, 2), o),
                                  lambda: [tensor(9, 12), tensor(3, 12, 10)],
                                  lambda: [torch.tensor([1, 1, 5, 8], dtype=torch.int32)]),
    "linear": (lt.linear, F.linear, lambda: [tensor(3, 5, 12), tensor(10, 12), tensor(10)],
               lambda: []),
    "linear and its activation": (lambda x, w, b: lt.linear(x, w, b, "gelu_tanh"),
                                  lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"),
                                  lambda: [tensor(3, 5, 12), tensor(10, 12, scale=0.3), tensor(10)],
                                  lambda: []),
    "linear and a ReLU": (
        lambda x, w, b: lt.linear(x, w, b, "relu"), lambda x, w, b: F.relu(F.linear(x, w, b)),
        lambda: [tensor(3, 5, 12), tensor(10, 12, scale=0.3), tensor(10)], lambda: []),
    "matmul": (lt.matmul, torch.matmul, lambda: [tensor(2, 3, 5, 12), tensor(12, 10)], lambda: []),
    "matmul of batches": (lt.matmul, torch.matmul, lambda: [tensor(2, 3, 5, 12), tensor(3, 12, 10)],
                          lambda: []),
    "cross_entropy": (
        lambda x, l: lt.cross_entropy(x, l, label_smoothing=0.1),
        lambda x, l: F.cross_entropy(x.flatten(0, 1), l.flatten(), label_smoothing=0.1),
        lambda: [tensor(2, 3, 10)], lambda: [LABELS]),
    "cross_entropy of rows": (lambda x, l: lt.cross_entropy(x, l, reduction="none", softcap=3.0),
                              lambda x, l: F.cross_entropy((3 * torch.tanh(x / 3)).flatten(0, 1),
                                                           l.flatten(),
                                                           reduction="none").view(l.shape),
                              lambda: [tensor(2, 3, 10)], lambda: [LABELS]),
    "fused_linear_cross_entropy": (
        lambda x, w, b, l: lt.fused_linear_cross_entropy(x, w, l, b),
        lambda x, w, b, l: F.cross_entropy((x @ w.T + b).flatten(0, 1), l.flatten()),
        lambda: [tensor(2, 3, 16), tensor(10, 16, scale=0.3), tensor(10)], lambda: [LABELS]),
    "fused_linear_cross_entropy of rows": (
        lambda x, w, l: lt.fused_linear_cross_entropy(x, w, l, reduction="none"),
        lambda x, w, l: F.cross_entropy((x @ w.T).flatten(0, 1), l.flatten(),
                                        reduction="none").view(l.shape),
        lambda: [tensor(2, 3, 16), tensor(10, 16, scale=0.3)], lambda: [LABELS]),
    "fused_linear_cross_entropy and entropy": (
        lambda x, w, b, l: loss_and_entropy(lt.fused_linear_cross_entropy(x, w, l, b,
                                                                          with_entropy=True)),
        lambda x, w, b, l: rows_of(x @ w.T + b, l, "mean"),
        lambda: [tensor(2, 3, 16), tensor(10, 16, scale=0.3), tensor(10)], lambda: [LABELS]),
    "fused_linear_cross_entropy of rows and entropy": (
        lambda x, w, l: loss_and_entropy(lt.fused_linear_cross_entropy(x, w, l, reduction="none",
                                                                       with_entropy=True)),
        lambda x, w, l: rows_of(x @ w.T, l, "none"),
        lambda: [tensor(2, 3, 16), tensor(10, 16, scale=0.3)], lambda: [LABELS]),
    "vocab_parallel_cross_entropy": (
        lambda x, l: lt.vocab_parallel_cross_entropy(x, l, label_smoothing=0.1),
        lambda x, l: F.cross_entropy(x.flatten(0, 1), l.flatten(), label_smoothing=0.1),
        lambda: [tensor(2, 3, 10)], lambda: [LABELS]),
    "kl_div": (lt.kl_div, lambda x, t: F.kl_div(x, t, reduction="batchmean"),
               lambda: [tensor(6, 20)], lambda: [positive(6, 20)]),
    "jsd": (lambda x, t: lt.jsd(x, t, beta=0.3), jsd, lambda: [positive(6, 20).log()],
            lambda: [positive(6, 20).log()]),
    "tvd": (lt.tvd, lambda x, t: (x - t).abs().sum() / 12, lambda: [positive(6, 20)],
            lambda: [positive(6, 20)]),
    "fused_linear_jsd": (lambda x, w, tx, tw: lt.fused_linear_jsd(x, w, tx, tw, beta=0.3), heads,
                         lambda: [tensor(6, 16), tensor(10, 16)],
                         lambda: [tensor(6, 24), tensor(10, 24)]),
}


def inputs_of(name, dtype=torch.float32):
    """Returns (inputs with gradients, inputs without) as leaves of the dtype."""
    _, _, first, second = CASES[name]
    cast = lambda t: t.to(dtype) if t.is_floating_point() else t
    return [cast(t).requires_grad_() for t in first()], [cast(t) for t in second()]


def outputs_of(result):
    return [t for t in (result if isinstance(result, tuple) else (result,)) if t is not None]

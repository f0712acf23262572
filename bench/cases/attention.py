"""Causal attention and its gradients, compared with torch's SDPA back ends and FlashAttention-4."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from .common import CODES, Case, Maker, autograd, case, normwise, ours


def exact_heads(q, k, v, d_o, at, head):
    """Returns float64 outputs and gradients of one key head and its query heads.

    o, d_q: [T, G, D]; d_k, d_v: [T, D].
    """
    group, scale = q.shape[2] // k.shape[2], q.shape[-1] ** -0.5
    keys, values = k[at, :, head].double(), v[at, :, head].double()
    unseen = torch.ones(q.shape[1], k.shape[1], device=q.device, dtype=torch.bool).triu_(1)
    o, d_q, d_k, d_v = [], [], torch.zeros_like(keys), torch.zeros_like(values)
    for i in range(head * group, (head + 1) * group):
        queries, d_out = q[at, :, i].double(), d_o[at, :, i].double()
        p = (queries @ keys.T).mul_(scale).masked_fill_(unseen, float("-inf")).softmax(-1)
        o.append(p @ values)
        d_v += p.T @ d_out
        d_s = d_out @ values.T
        d_s = d_s.sub_((d_s * p).sum(-1, keepdim=True)).mul_(p).mul_(scale)
        d_k += d_s.T @ queries
        d_q.append(d_s @ keys)
    return {"o": torch.stack(o, 1), "d_q": torch.stack(d_q, 1), "d_k": d_k, "d_v": d_v}


@case
def attention(context, B, T, A, K, D, dtype):
    """B batches of T tokens; A query heads share K key heads of D columns.

    Causal flops are half of the full ones: 2 B A T^2 D for fwd, 5 B A T^2 D for bwd.
    """
    make = Maker(context.device)
    q, k, v = (make.randn(B, T, heads, D, dtype=dtype).requires_grad_() for heads in (A, K, K))
    d_o = make.randn(B, T, A, D, dtype=dtype)
    at, head, group = B - 1, K - 1, A // K
    held = []

    def exact(name):
        if not held:
            with torch.no_grad():
                held.append(exact_heads(q, k, v, d_o, at, head))
        return held[0][name]

    def check(name):
        part = slice(head * group, A) if name in ("o", "d_q") else head
        compare = normwise(lambda: exact(name))
        return lambda found: compare(found[at, :, part])

    def ligerdsl():
        fields = dict(q_heads=A, k_heads=K, head_dim=D, n_queries=T, n_keys=T, causal=1,
                      dtype=CODES[dtype])
        o, lse = torch.empty_like(d_o), make.empty(B, A, T)
        grads = [torch.empty_like(t.detach()) for t in (q, k, v)]
        forward = context.plan("attention_forward", with_lse=1,
                               **fields).bind(B, q=q, k=k, v=v, o=o, lse=lse)
        backward = context.plan("attention_backward", **fields).bind(
            B, d_o=d_o, q=q, k=k, v=v, o=o, lse=lse, d_q=grads[0], d_k=grads[1], d_v=grads[2])
        forward()
        return ours(forward, backward, ({"o": o}, dict(zip(("d_q", "d_k", "d_v"), grads))), (lse,))

    def by(function):
        return lambda: autograd(function, (q, k, v), d_o, (("o",), ("d_q", "d_k", "d_v")))

    def sdpa(backend):
        def run():
            with sdpa_kernel(backend):
                heads_first = (t.transpose(1, 2) for t in (q, k, v))
                return F.scaled_dot_product_attention(*heads_first, is_causal=True,
                                                      enable_gqa=A != K).transpose(1, 2)
        return by(run)

    def flash4():
        from flash_attn.cute.interface import flash_attn_func

        def run():
            out = flash_attn_func(q, k, v, causal=True)
            return out[0] if isinstance(out, tuple) else out
        return by(run)()

    on_gpu = {"flash4": flash4,
              "torch_cudnn": sdpa(SDPBackend.CUDNN_ATTENTION),
              "torch_flash": sdpa(SDPBackend.FLASH_ATTENTION)}
    one, flops = B * T * (A + K) * D * q.element_size() * 2, B * A * T * T * D
    return Case("attention", (B, T, A, K, D), dtype, {"fwd": one, "bwd": 2 * one, "full": 3 * one},
                {"ligerdsl": ligerdsl,
                 **(on_gpu if context.device.type == "cuda" else {"torch": sdpa(SDPBackend.MATH)})},
                {name: check(name) for name in ("o", "d_q", "d_k", "d_v")},
                {"fwd": 2 * flops, "bwd": 5 * flops, "full": 7 * flops})

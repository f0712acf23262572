"""Training-step operations outside the layers: embedding, AdamW, the norm of all gradients."""

import torch
import torch.nn.functional as F

from .common import (CODES, Case, Contender, Maker, Pass, autograd, by_compiler, by_torch, case,
                     nbytes, normwise, ours, put_back, worst)


@case
def embedding(context, M, V, H, dtype):
    make = Maker(context.device)
    w, g = make.randn(V, H, dtype=dtype).requires_grad_(), make.randn(M, H, dtype=dtype)
    indices = torch.randint(V, (M,), device=context.device)
    used, names, rows = len(indices.unique()), (("out",), ("dw",)), make.rows(M)
    one = M * H * w.element_size()

    def ligerdsl():
        out, dw, d = torch.empty_like(g), torch.empty_like(w.detach()), CODES[dtype]
        common = {"n_cols": H, "n_rows": V, "dtype": d, "index_dtype": "i64"}
        forward = context.plan("embedding_forward", **common).bind(M, indices=indices, weight=w,
                                                                   out=out)
        backward = context.plan("embedding_backward", d_weight_dtype=d,
                                **common).bind(M, indices=indices, d_out=g, d_weight=dw)
        return ours(forward, backward, ({"out": out}, {"dw": dw}))

    def liger():
        from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction
        return autograd(lambda: LigerEmbeddingFunction.apply(w, indices), (w,), g, names)

    reference = lambda w: F.embedding(indices, w)

    def dw():
        total = torch.zeros(V, H, device=context.device, dtype=torch.float64)
        return total.index_add_(0, indices, g.double())

    forward = one + used * H * w.element_size()
    return Case(
        "embedding", (M, V, H), dtype,
        {"fwd": forward,
         "bwd": one + V * H * w.element_size(),
         "full": forward + one + V * H * w.element_size()},
        {"ligerdsl": ligerdsl,
         "liger": liger,
         **by_torch(reference, (w,), g, names)},
        {"out": worst(lambda: w.detach()[indices[rows]].double(), rows), "dw": normwise(dw)})


@case
def embedding_positions(context, M, V, H, P, dtype):
    """Embeddings of tokens and positions, as in GPT-2: M / P sequences of P tokens."""
    make = Maker(context.device)
    w, p, g = (make.randn(V, H, dtype=dtype).requires_grad_(),
               make.randn(P, H, dtype=dtype).requires_grad_(), make.randn(M, H, dtype=dtype))
    indices = torch.randint(V, (M,), device=context.device)
    used, names, rows, one = (len(indices.unique()), (("out",), ("dw", "dp")), make.rows(M),
                              M * H * w.element_size())
    positions = torch.arange(M, device=context.device) % P
    reference = lambda w, p: (F.embedding(indices, w).view(-1, P, H) + p).view(M, H)

    def ligerdsl():
        out, dw, dp, d = (torch.empty_like(g), torch.empty_like(w.detach()),
                          torch.empty_like(p.detach()), CODES[dtype])
        common = {"n_cols": H, "n_rows": V, "n_positions": P, "dtype": d, "index_dtype": "i64"}
        forward = context.plan("embedding_forward", with_position_weight=1, **common).bind(
            M, indices=indices, weight=w, position_weight=p, out=out)
        backward = context.plan(
            "embedding_backward", d_weight_dtype=d, d_position_weight_dtype=d,
            **common).bind(M, indices=indices, d_out=g, d_weight=dw, d_position_weight=dp)
        return ours(forward, backward, ({"out": out}, {"dw": dw, "dp": dp}))

    def dw():
        return torch.zeros(V, H, device=context.device,
                           dtype=torch.float64).index_add_(0, indices, g.double())

    eager = lambda f: autograd(lambda: f(w, p), (w, p), g, names)
    forward, backward = (one + (used + P) * H * w.element_size(),
                         one + (V + P) * H * w.element_size())
    return Case(
        "embedding_positions", (M, V, H, P), dtype,
        {"fwd": forward, "bwd": backward, "full": forward + backward},
        {"ligerdsl": ligerdsl, **by_compiler(reference, eager), "torch": lambda: eager(reference)},
        {"out": worst(
             lambda: w.detach()[indices[rows]].double() + p.detach()[positions[rows]].double(),
             rows),
         "dw": normwise(dw),
         "dp": normwise(lambda: g.double().view(-1, P, H).sum(0))})


@case
def adamw(context, n, dtype):
    """One AdamW step on one tensor with f32 moments."""
    make = Maker(context.device)
    p, g = make.randn(n, dtype=dtype), make.randn(n, dtype=dtype)
    m, v = make.randn(n, dtype=torch.float32), make.randn(n, dtype=torch.float32).abs_()
    lr, b1, b2, eps, decay, step = 1e-3, 0.9, 0.999, 1e-8, 0.1, 10

    def exact_step():
        m1, v1 = (b1 * m.double() + (1 - b1) * g.double(),
                  b2 * v.double() + (1 - b2) * g.double() ** 2)
        update = m1 / (1 - b1 ** step) / ((v1 / (1 - b2 ** step)).sqrt() + eps)
        return p.double() - lr * (update + decay * p.double())

    exact = exact_step()

    def ligerdsl():
        run = context.plan("adamw_step", dtype=CODES[dtype], grad_dtype=CODES[dtype]).bind(
            n, param=p, grad=g, m=m, v=v, lr=lr, beta1=b1, beta2=b2, eps=eps, weight_decay=decay,
            step=step)
        return Contender({"fwd": Pass(run, lambda: {"p": p}, run.workspace_bytes)},
                         put_back(p, m, v))

    def eager():
        count = torch.tensor(float(step - 1), device=context.device)

        def run():
            count.fill_(step - 1)
            torch._fused_adamw_([p], [g], [m], [v], [], [count.add_(1)], lr=lr, beta1=b1, beta2=b2,
                                weight_decay=decay, eps=eps, amsgrad=False, maximize=False)
            return {"p": p}

        return Contender({"fwd": Pass(run)}, put_back(p, m, v))

    return Case("adamw", (n,), dtype, {"fwd": 2 * nbytes(p, m, v) + nbytes(g)},
                {"ligerdsl": ligerdsl, "torch": eager}, {"p": worst(lambda: exact)})


@case
def global_norm(context, n, dtype):
    make = Maker(context.device)
    sizes = [n // 2, n // 4, n - n // 2 - n // 4]
    tensors = [make.randn(size, dtype=dtype) for size in sizes]

    def ligerdsl():
        norm, factor = make.empty(1), make.empty(1)
        run = context.plan("global_norm", dtype=CODES[dtype], with_clip_factor=1).bind(
            n + 65536 * len(tensors), tensors=tensors, norm=norm, clip_factor=factor)
        return Contender({"fwd": Pass(run, lambda: {"norm": norm},
                                      run.workspace_bytes + nbytes(norm, factor),
                                      run.workspace_bytes)})

    def eager():
        def run():
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors)))
            return {"norm": norm, "factor": torch.clamp(1.0 / (norm + 1e-6), max=1.0)}
        return Contender({"fwd": Pass(run)})

    exact = lambda: sum(t.double().pow(2).sum() for t in tensors).sqrt().reshape(1)
    return Case("global_norm", (n,), dtype, {"fwd": nbytes(*tensors)},
                {"ligerdsl": ligerdsl, "torch": eager}, {"norm": normwise(exact)})

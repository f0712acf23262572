"""The kernels to compare: for each provider a set of passes, the bytes each pass must move, and our error against float64.

A provider's function returns {pass: callable}. Two names are not passes: "error" (largest relative error of what the passes
wrote) and "restore" (puts inputs back before each repetition, outside the timing).
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

CODES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}


@dataclass
class Case:
    kernel: str
    shape: tuple
    dtype: torch.dtype
    bytes: dict                                   # pass -> bytes read and written at least once
    make: dict = field(default_factory=dict)      # provider -> function returning {pass: callable}


def randn(*shape, dtype, scale=1.0):
    return (torch.randn(*shape, device="cuda", dtype=torch.float32) * scale).to(dtype)


def autograd(fn, inputs, grads):
    """Passes of a differentiable function: fwd without a graph, bwd on a retained graph, full = both."""
    outputs = fn()

    def forward():
        with torch.no_grad():
            fn()

    def backward():
        torch.autograd.grad(outputs, inputs, grads, retain_graph=True)

    def full():
        torch.autograd.grad(fn(), inputs, grads)

    return {"fwd": forward, "bwd": backward, "full": full}


def both(forward, backward):
    def full():
        forward()
        backward()
    return {"fwd": forward, "bwd": backward, "full": full}


def worst(ours, exact, rows):
    """max |a - r| / max |r| over sampled rows."""
    exact = exact.detach().double()
    return float((ours.detach()[rows].double() - exact).abs().max() / exact.abs().max().clamp_min(1e-30))


def compiled(fn):
    return torch.compile(fn, dynamic=False)


def rms_norm(context, M, H, dtype=torch.bfloat16):
    x, w, g = randn(M, H, dtype=dtype).requires_grad_(), randn(H, dtype=dtype).requires_grad_(), randn(M, H, dtype=dtype)
    one = M * H * x.element_size()

    def reference(x, w):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return w * h.to(x.dtype)

    def ours():
        y, dx, rstd = torch.empty_like(g), torch.empty_like(g), torch.empty(M, device="cuda")
        dw = torch.empty_like(w)
        d = CODES[dtype]
        forward = context.plan("rms_norm_forward", n_cols=H, dtype=d, weight_dtype=d, eps=1e-6, with_rstd=1).bind(
            M, x=x, weight=w, y=y, rstd=rstd)
        backward = context.plan("rms_norm_backward", n_cols=H, dtype=d, weight_dtype=d, d_weight_dtype=d).bind(
            M, d_y=g, x=x, weight=w, rstd=rstd, d_x=dx, d_weight=dw)
        passes = both(forward, backward)

        def error():
            rows = torch.randint(M, (64,), device="cuda")
            xs, gs, ws = x[rows].double(), g[rows].double(), w.double()
            r = torch.rsqrt(xs.pow(2).mean(-1, keepdim=True) + 1e-6)
            m = gs * ws
            exact = r * (m - r * r * xs * (m * xs).mean(-1, keepdim=True))
            xd = x.detach().double()
            dw_exact = (g.double() * (xd * torch.rsqrt(xd.pow(2).mean(-1, keepdim=True) + 1e-6))).sum(0) if M * H < 2**28 else None
            return max(worst(y, xs * r * ws, rows), worst(dx, exact, rows),
                       float((dw.double() - dw_exact).norm() / dw_exact.norm()) if dw_exact is not None else 0.0)

        passes["error"] = error
        return passes

    def liger():
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction
        return autograd(lambda: LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False), (x, w), g)

    return Case("rms_norm", (M, H), dtype, {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
                {"ligerdsl": ours, "liger": liger, "torch": lambda: autograd(lambda: reference(x, w), (x, w), g),
                 "compile": lambda: autograd(lambda f=compiled(reference): f(x, w), (x, w), g)})


def fused_add_rms_norm(context, M, H, dtype=torch.bfloat16):
    x, r = randn(M, H, dtype=dtype).requires_grad_(), randn(M, H, dtype=dtype).requires_grad_()
    w, gy, gs = randn(H, dtype=dtype).requires_grad_(), randn(M, H, dtype=dtype), randn(M, H, dtype=dtype)
    one = M * H * x.element_size()

    def reference(x, r, w):
        s = x + r
        h = s.float()
        return w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype), s

    def ours():
        y, s, dx = torch.empty_like(gy), torch.empty_like(gy), torch.empty_like(gy)
        rstd, dw, d = torch.empty(M, device="cuda"), torch.empty_like(w), CODES[dtype]
        forward = context.plan("fused_add_rms_norm_forward", n_cols=H, dtype=d, weight_dtype=d, eps=1e-6, with_rstd=1).bind(
            M, x=x, residual=r, weight=w, y=y, sum=s, rstd=rstd)
        backward = context.plan("fused_add_rms_norm_backward", n_cols=H, dtype=d, weight_dtype=d, d_weight_dtype=d,
                                with_d_sum=1).bind(M, d_y=gy, d_sum=gs, sum=s, weight=w, rstd=rstd, d_x=dx, d_weight=dw)
        passes = both(forward, backward)

        def error():
            rows = torch.randint(M, (64,), device="cuda")
            sd = s[rows].double()
            return max(worst(s, x[rows].double() + r[rows].double(), rows),
                       worst(y, sd * torch.rsqrt(sd.pow(2).mean(-1, keepdim=True) + 1e-6) * w.double(), rows))

        passes["error"] = error
        return passes

    def liger():
        from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
        return autograd(lambda: LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6, 0.0, "llama", False), (x, r, w), (gy, gs))

    return Case("fused_add_rms_norm", (M, H), dtype, {"fwd": 4 * one, "bwd": 4 * one, "full": 8 * one},
                {"ligerdsl": ours, "liger": liger, "torch": lambda: autograd(lambda: reference(x, r, w), (x, r, w), (gy, gs)),
                 "compile": lambda: autograd(lambda f=compiled(reference): f(x, r, w), (x, r, w), (gy, gs))})


def layer_norm(context, M, H, dtype=torch.bfloat16):
    x, g = randn(M, H, dtype=dtype).requires_grad_(), randn(M, H, dtype=dtype)
    w, b = (randn(H, dtype=dtype).requires_grad_() for _ in range(2))
    one = M * H * x.element_size()
    reference = lambda x, w, b: F.layer_norm(x, (H,), w, b, 1e-5)

    def ours():
        y, dx, dw, db = torch.empty_like(g), torch.empty_like(g), torch.empty_like(w), torch.empty_like(b)
        mean, rstd, d = torch.empty(M, device="cuda"), torch.empty(M, device="cuda"), CODES[dtype]
        forward = context.plan("layer_norm_forward", n_cols=H, dtype=d, weight_dtype=d, eps=1e-5, with_mean=1, with_rstd=1).bind(
            M, x=x, weight=w, bias=b, y=y, mean=mean, rstd=rstd)
        backward = context.plan("layer_norm_backward", n_cols=H, dtype=d, weight_dtype=d, d_weight_dtype=d).bind(
            M, d_y=g, x=x, weight=w, mean=mean, rstd=rstd, d_x=dx, d_weight=dw, d_bias=db)
        passes = both(forward, backward)

        def error():
            def normalised(t):
                t = t.double() - t.double().mean(-1, keepdim=True)
                r = torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-5)
                return t * r, r
            rows = torch.randint(M, (64,), device="cuda")
            n, r = normalised(x.detach()[rows])
            q = g[rows].double() * w.double()
            exact = r * (q - n * (n * q).mean(-1, keepdim=True) - q.mean(-1, keepdim=True))
            found = [worst(y, n * w.double() + b.double(), rows), worst(dx, exact, rows)]
            if M * H < 2**28:
                gd = g.double()
                for mine, sums in ((dw, (gd * normalised(x.detach())[0]).sum(0)), (db, gd.sum(0))):
                    found.append(float((mine.double() - sums).norm() / sums.norm()))
            return max(found)

        passes["error"] = error
        return passes

    def liger():
        from liger_kernel.ops.layer_norm import LigerLayerNormFunction
        return autograd(lambda: LigerLayerNormFunction.apply(x, w, b, 1e-5), (x, w, b), g)

    return Case("layer_norm", (M, H), dtype, {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
                {"ligerdsl": ours, "liger": liger, "torch": lambda: autograd(lambda: reference(x, w, b), (x, w, b), g),
                 "compile": lambda: autograd(lambda f=compiled(reference): f(x, w, b), (x, w, b), g)})


def gated(context, kernel, M, N, dtype, activation, gradient, liger_function):
    """activation: of torch; gradient(u) = f(u), f'(u) in float64; liger_function: autograd function of Liger, looked up when asked."""
    a, b, g = (randn(M, N, dtype=dtype) for _ in range(3))
    a.requires_grad_()
    b.requires_grad_()
    one = M * N * a.element_size()
    reference = lambda a, b: activation(a) * b

    def ours():
        out, da, db, d = torch.empty_like(g), torch.empty_like(g), torch.empty_like(g), CODES[dtype]
        forward = context.plan(f"{kernel}_forward", n_cols=N, dtype=d).bind(M, gate=a, up=b, out=out)
        backward = context.plan(f"{kernel}_backward", n_cols=N, dtype=d).bind(M, d_out=g, gate=a, up=b, d_gate=da, d_up=db)
        passes = both(forward, backward)

        def error():
            rows = torch.randint(M, (64,), device="cuda")
            v, dc = b[rows].double(), g[rows].double()
            value, slope = gradient(a[rows].double())
            return max(worst(out, value * v, rows), worst(db, dc * value, rows), worst(da, dc * v * slope, rows))

        passes["error"] = error
        return passes

    def liger():
        function = liger_function()
        return autograd(lambda: function.apply(a, b), (a, b), g)

    return Case(kernel, (M, N), dtype, {"fwd": 3 * one, "bwd": 5 * one, "full": 8 * one},
                {"ligerdsl": ours, "liger": liger, "torch": lambda: autograd(lambda: reference(a, b), (a, b), g),
                 "compile": lambda: autograd(lambda f=compiled(reference): f(a, b), (a, b), g)})


def swiglu(context, M, N, dtype=torch.bfloat16):
    def gradient(u):
        s = torch.sigmoid(u)
        return u * s, s + u * s * (1 - s)

    def liger():
        from liger_kernel.ops.swiglu import LigerSiLUMulFunction
        return LigerSiLUMulFunction

    return gated(context, "swiglu", M, N, dtype, F.silu, gradient, liger)


def geglu(context, M, N, dtype=torch.bfloat16):
    def gradient(u):
        k, c = (2 / torch.pi) ** 0.5, 0.044715
        t = torch.tanh(k * (u + c * u**3))
        return u / 2 * (1 + t), (1 + t) / 2 + u / 2 * (1 - t * t) * k * (1 + 3 * c * u * u)

    def liger():
        from liger_kernel.ops.geglu import LigerGELUMulFunction
        return LigerGELUMulFunction

    return gated(context, "geglu", M, N, dtype, lambda a: F.gelu(a, approximate="tanh"), gradient, liger)


def rope(context, B, T, nq, nk, D, dtype=torch.bfloat16):
    q, k = (randn(B, T, n, D, dtype=dtype).requires_grad_() for n in (nq, nk))
    gq, gk = randn(B, T, nq, D, dtype=dtype), randn(B, T, nk, D, dtype=dtype)
    angle = torch.arange(T, device="cuda").double()[:, None] / 10000 ** (torch.arange(0, D, 2, device="cuda").double() / D)
    cos, sin = (torch.cat((f(angle), f(angle)), -1).to(dtype)[None] for f in (torch.cos, torch.sin))
    one = B * T * (nq + nk) * D * q.element_size()

    def reference(q, k, c, s):
        def rotate(x):
            a, b = x.chunk(2, -1)
            return torch.cat((-b, a), -1)
        c, s = c.unsqueeze(2), s.unsqueeze(2)
        return q * c + rotate(q) * s, k * c + rotate(k) * s

    def ours():
        qo, ko, dq, dk = (torch.empty_like(t) for t in (gq, gk, gq, gk))
        d = CODES[dtype]
        plan = lambda inverse: context.plan("rope", head_dim=D, q_heads=nq, k_heads=nk, dtype=d, table_dtype=d, with_k=1, inverse=inverse)
        forward = plan(0).bind(B * T, q=q, k=k, cos=cos, sin=sin, q_out=qo, k_out=ko)
        backward = plan(1).bind(B * T, q=gq, k=gk, cos=cos, sin=sin, q_out=dq, k_out=dk)
        passes = both(forward, backward)

        def error():
            exact = reference(q[:1].double(), k[:1].double(), cos.double(), sin.double())
            return max(float((mine[:1].double() - e).abs().max() / e.abs().max()) for mine, e in zip((qo, ko), exact))

        passes["error"] = error
        return passes

    def liger():
        from liger_kernel.ops.rope import LigerRopeFunction
        qt, kt = q.transpose(1, 2), k.transpose(1, 2)
        return autograd(lambda: LigerRopeFunction.apply(qt, kt, cos, sin), (q, k), (gq.transpose(1, 2), gk.transpose(1, 2)))

    eager = lambda f: autograd(lambda: f(q, k, cos, sin), (q, k), (gq, gk))
    return Case("rope", (B, T, nq, nk, D), dtype, {"fwd": 2 * one, "bwd": 2 * one, "full": 4 * one},
                {"ligerdsl": ours, "liger": liger, "torch": lambda: eager(reference), "compile": lambda: eager(compiled(reference))})


def rope_interleaved(context, B, T, nq, nk, D, dtype=torch.bfloat16):
    """Neighbouring columns turned by complex numbers, as Llama 4 stores its angles."""
    q, k = (randn(B, T, n, D, dtype=dtype).requires_grad_() for n in (nq, nk))
    gq, gk = randn(B, T, nq, D, dtype=dtype), randn(B, T, nk, D, dtype=dtype)
    angle = torch.arange(T, device="cuda").double()[:, None] / 10000 ** (torch.arange(0, D, 2, device="cuda").double() / D)
    freqs = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
    one = B * T * (nq + nk) * D * q.element_size()

    def reference(q, k, f):
        f = f[None, :, None]
        wide = lambda x: x if x.dtype == torch.float64 else x.float()
        turn = lambda x: torch.view_as_real(torch.view_as_complex(wide(x).unflatten(-1, (-1, 2))) * f).flatten(-2).to(x.dtype)
        return turn(q), turn(k)

    def ours():
        qo, ko, dq, dk = (torch.empty_like(t) for t in (gq, gk, gq, gk))
        d, table = CODES[dtype], torch.view_as_real(freqs).flatten(-2).contiguous()
        plan = lambda inverse: context.plan("rope", head_dim=D, q_heads=nq, k_heads=nk, dtype=d, table_dtype="f32", with_k=1, layout=1,
                                            complex_table=1, inverse=inverse)
        forward = plan(0).bind(B * T, q=q, k=k, cos=table, q_out=qo, k_out=ko)
        backward = plan(1).bind(B * T, q=gq, k=gk, cos=table, q_out=dq, k_out=dk)
        passes = both(forward, backward)

        def error():
            exact = reference(q[:1].double(), k[:1].double(), freqs.to(torch.complex128))
            return max(float((mine[:1].double() - e).abs().max() / e.abs().max()) for mine, e in zip((qo, ko), exact))

        passes["error"] = error
        return passes

    def liger():
        from liger_kernel.ops.llama4_rope import LigerLlama4RopeFunction
        return autograd(lambda: LigerLlama4RopeFunction.apply(q, k, freqs), (q, k), (gq, gk))

    eager = lambda f: autograd(lambda: f(q, k, freqs), (q, k), (gq, gk))
    return Case("rope_interleaved", (B, T, nq, nk, D), dtype, {"fwd": 2 * one, "bwd": 2 * one, "full": 4 * one},
                {"ligerdsl": ours, "liger": liger, "torch": lambda: eager(reference), "compile": lambda: eager(compiled(reference))})


def softmax(context, M, N, dtype=torch.bfloat16):
    x, g = randn(M, N, dtype=dtype, scale=2.0).requires_grad_(), randn(M, N, dtype=dtype)
    one = M * N * x.element_size()

    def ours():
        y, dx, d = torch.empty_like(g), torch.empty_like(g), CODES[dtype]
        forward = context.plan("softmax_forward", n_cols=N, dtype=d).bind(M, x=x, y=y)
        backward = context.plan("softmax_backward", n_cols=N, dtype=d).bind(M, y=y, d_y=g, d_x=dx)
        passes = both(forward, backward)

        def error():
            rows = torch.randint(M, (64,), device="cuda")
            return worst(y, torch.softmax(x[rows].double(), -1), rows)

        passes["error"] = error
        return passes

    def liger():
        from liger_kernel.ops.softmax import LigerSoftmaxFunction
        return autograd(lambda: LigerSoftmaxFunction.apply(x), (x,), g)

    reference = lambda x: torch.softmax(x, -1)
    return Case("softmax", (M, N), dtype, {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
                {"ligerdsl": ours, "liger": liger, "torch": lambda: autograd(lambda: reference(x), (x,), g),
                 "compile": lambda: autograd(lambda f=compiled(reference): f(x), (x,), g)})


def cross_entropy(context, M, V, dtype=torch.bfloat16):
    """fwd = loss only; full = loss and gradient. Ours writes the gradient over the logits, restored before every repetition."""
    pristine = randn(M, V, dtype=dtype, scale=2.0)
    x = pristine.clone().requires_grad_()
    labels = torch.randint(V, (M,), device="cuda")
    labels[::16] = -100
    one = M * V * x.element_size()
    loss_of = lambda x, t: F.cross_entropy(x.float(), t)

    def passes_of(fn):
        def forward():
            with torch.no_grad():
                fn()
        return {"fwd": forward, "full": lambda: torch.autograd.grad(fn(), (x,))}

    def ours():
        logits, loss, d = pristine.clone(), torch.empty(1, device="cuda"), CODES[dtype]
        forward = context.plan("cross_entropy", n_classes=V, dtype=d, label_dtype="i64").bind(
            M, logits=logits, labels=labels, loss=loss)
        full = context.plan("cross_entropy", n_classes=V, dtype=d, label_dtype="i64", with_d_logits=1, in_place=1).bind(
            M, logits=logits, labels=labels, loss=loss, d_logits=logits)

        def error():
            logits.copy_(pristine)
            full()
            rows = torch.arange(1, M, max(1, M // 32), device="cuda")
            exact = torch.softmax(pristine[rows].double(), -1)
            valid = labels[rows] != -100
            exact[torch.arange(len(rows), device="cuda"), labels[rows].clamp_min(0)] -= 1
            exact = exact * valid[:, None] / (labels != -100).sum()
            losses = torch.cat([F.cross_entropy(p.double(), t, reduction="none") for p, t in
                                zip(pristine.split(256), labels.split(256))])
            mean = losses.sum() / (labels != -100).sum()
            return max(worst(logits, exact, rows), float((loss.double() - mean).abs() / mean))

        return {"fwd": forward, "full": full, "error": error, "restore": lambda: logits.copy_(pristine)}

    def liger():
        from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
        return passes_of(lambda: LigerCrossEntropyFunction.apply(x, labels, None, -100, 0.0, 0.0, "mean", None, False)[0])

    return Case("cross_entropy", (M, V), dtype, {"fwd": one, "full": 2 * one},
                {"ligerdsl": ours, "liger": liger, "torch": lambda: passes_of(lambda: loss_of(x, labels)),
                 "compile": lambda: passes_of(lambda f=compiled(loss_of): f(x, labels))})


def fused_linear_cross_entropy(context, M, H, V, dtype=torch.bfloat16):
    """full = loss and the gradients of x and weight. floor = the three bare products of the same tensors, by cuBLAS.

    Bound by 6 M H V flops, not by its bytes: compare us with the floor's. Variants of ours with d_weight in f32: _f32 with the
    default workspace, _300mb with at most 300 MB.
    """
    x, w = randn(M, H, dtype=dtype).requires_grad_(), randn(V, H, dtype=dtype, scale=H ** -0.5).requires_grad_()
    labels = torch.randint(V, (M,), device="cuda")
    loss_of = lambda x, w, t: F.cross_entropy((x @ w.t()).float(), t)

    def ours(d_weight_dtype="bf16", **limits):
        def make():
            loss, d = torch.empty(1, device="cuda"), CODES[dtype]
            dx = torch.empty(M, H, device="cuda", dtype=dtype)
            dw = torch.empty(V, H, device="cuda", dtype=torch.float32 if d_weight_dtype == "f32" else dtype)
            full = context.plan("fused_linear_cross_entropy", n_classes=V, n_cols=H, dtype=d, label_dtype="i64", with_d_x=1,
                                d_weight_dtype=d_weight_dtype, **limits).bind(
                M, x=x, weight=w, labels=labels, loss=loss, d_x=dx, d_weight=dw)

            def error():
                full()
                total = torch.zeros((), device="cuda", dtype=torch.float64)
                rows = torch.arange(0, M, max(1, M // 32), device="cuda")
                for part, t in zip(x.detach().split(512), labels.split(512)):
                    total += F.cross_entropy((part.float() @ w.detach().float().t()).double(), t, reduction="sum")
                d_logits = torch.softmax(x.detach()[rows].double() @ w.detach().double().t(), -1)
                d_logits[torch.arange(len(rows), device="cuda"), labels[rows]] -= 1
                exact = d_logits @ w.detach().double() / M
                normwise = (dx[rows].double() - exact).norm() / exact.norm()
                column = torch.zeros(V, device="cuda", dtype=torch.float64)  # d_weight of one column of x
                for part, t in zip(x.detach().split(512), labels.split(512)):
                    p = torch.softmax((part.float() @ w.detach().float().t()).double(), -1)
                    p[torch.arange(len(t), device="cuda"), t] -= 1
                    column += p.t() @ part[:, 0].double() / M
                normwise_w = (dw[:, 0].double() - column).norm() / column.norm()
                return max(float((loss[0].double() - total / M).abs() / (total / M)), float(normwise), float(normwise_w))

            return {"full": full, "error": error}
        return make

    def floor():
        logits, dx = torch.empty(M, V, device="cuda", dtype=dtype), torch.empty(M, H, device="cuda", dtype=dtype)
        dw, xd, wd = torch.empty(V, H, device="cuda", dtype=dtype), x.detach(), w.detach()
        logits.copy_(randn(M, V, dtype=dtype))

        def products():
            torch.mm(xd, wd.t(), out=logits)
            torch.mm(logits, wd, out=dx)
            torch.mm(logits.t(), xd, out=dw)

        return {"full": products}

    def liger():
        from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
        return passes_of(lambda: LigerFusedLinearCrossEntropyFunction.apply(x, w, labels)[0])

    def passes_of(fn):
        return {"full": lambda: torch.autograd.grad(fn(), (x, w))}

    nbytes = 2 * (M * H + V * H) * x.element_size()
    return Case("fused_linear_cross_entropy", (M, H, V), dtype, {"full": nbytes},
                {"ligerdsl": ours(), "ligerdsl_f32": ours("f32"), "ligerdsl_300mb": ours("f32", max_workspace_bytes=300_000_000),
                 "floor": floor, "liger": liger, "torch": lambda: passes_of(lambda: loss_of(x, w, labels)),
                 "compile": lambda: passes_of(lambda f=compiled(loss_of): f(x, w, labels))})


def vector_add(context, n, dtype=torch.float32):
    a, b, out = (randn(n, dtype=dtype) for _ in range(3))

    def ours():
        run = context.plan("vector_add", dtype=CODES[dtype]).bind(n, a=a, b=b, out=out)
        return {"fwd": run, "error": lambda: float((out - (a + b)).abs().max())}

    return Case("vector_add", (n,), dtype, {"fwd": 3 * n * a.element_size()},
                {"ligerdsl": ours, "torch": lambda: {"fwd": lambda: torch.add(a, b, out=out)}})


CASES = {
    "vector_add": (vector_add, [(1 << 26,)]),
    "rms_norm": (rms_norm, [(2048, 4096), (16384, 2048), (16384, 4096), (16384, 8192), (16384, 16384)]),
    "fused_add_rms_norm": (fused_add_rms_norm, [(16384, 4096), (16384, 8192)]),
    "layer_norm": (layer_norm, [(16384, 4096), (16384, 8192), (16384, 16384)]),
    "swiglu": (swiglu, [(8192, 11008), (16384, 14336)]),
    "geglu": (geglu, [(8192, 11008), (16384, 14336)]),
    "rope": (rope, [(8, 2048, 32, 8, 128), (1, 16384, 64, 8, 128)]),
    "rope_interleaved": (rope_interleaved, [(8, 2048, 32, 8, 128)]),
    "softmax": (softmax, [(16384, 4096), (16384, 8192)]),
    "cross_entropy": (cross_entropy, [(4096, 40960), (8192, 128256), (4096, 163840)]),
    "fused_linear_cross_entropy": (fused_linear_cross_entropy, [(4096, 4096, 128256), (8192, 4096, 128256)]),
}

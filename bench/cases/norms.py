"""RMSNorm and LayerNorm, each also with a residual add; modulated RMSNorm, GroupNorm, PolyNorm,
DyT."""

import torch
import torch.nn.functional as F

from .common import (CODES, Case, Maker, autograd, by_torch, case, chunks, direct, normwise, ours,
                     worst, written_over)
from .peers import liger_cute, quack_tuned_rms_norm


def rms_exact(x, w, g, rows, eps, extra=None):
    """Checks y, dx and dw for rows x, weight w and gradient g; extra is added to dx."""
    wd = w.detach().double()
    rstd = lambda t: torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + eps)

    def y():
        t = x.detach()[rows].double()
        return t * rstd(t) * wd

    def dx():
        t, m = x.detach()[rows].double(), g[rows].double() * wd
        r = rstd(t)
        exact = r * (m - r * r * t * (m * t).mean(-1, keepdim=True))
        return exact if extra is None else exact + extra[rows].double()

    def dw():
        total = torch.zeros_like(wd)
        for part in chunks(*x.shape):
            t = x.detach()[part].double()
            total += (g[part].double() * t * rstd(t)).sum(0)
        return total

    return {"y": worst(y, rows), "dx": worst(dx, rows), "dw": normwise(dw)}


@case
def rms_norm(context, M, H, dtype):
    make = Maker(context.device)
    x, w, g = (make.randn(M, H, dtype=dtype).requires_grad_(),
               make.randn(H, dtype=dtype).requires_grad_(), make.randn(M, H, dtype=dtype))
    one, names = M * H * x.element_size(), (("y",), ("dx", "dw"))

    def reference(x, w):
        h = x.float()
        return w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def ligerdsl():
        y, dx, dw, rstd, d = (torch.empty_like(g), torch.empty_like(g), torch.empty_like(w),
                              make.empty(M), CODES[dtype])
        forward = context.plan("rms_norm_forward", n_cols=H, dtype=d, weight_dtype=d, eps=1e-6,
                               with_rstd=1).bind(M, x=x, weight=w, y=y, rstd=rstd)
        backward = context.plan(
            "rms_norm_backward", n_cols=H, dtype=d, weight_dtype=d,
            d_weight_dtype=d).bind(M, d_y=g, x=x, weight=w, rstd=rstd, d_x=dx, d_weight=dw)
        return ours(forward, backward, ({"y": y}, {"dx": dx, "dw": dw}), (rstd,))

    exact = rms_exact(x, w, g, make.rows(M), 1e-6)

    def by_liger(function, in_place):  # in_place, the default: dx overwrites the upstream gradient
        return autograd(lambda: function.apply(x, w, 1e-6, 0.0, "llama", in_place), (x, w), g,
                        names, written_over(exact, g) if in_place else None)

    def liger(in_place):
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction
        return by_liger(LigerRMSNormFunction, in_place)

    def cute(in_place):
        from liger_kernel.ops.cutedsl.ops import LigerRMSNormFunction
        return by_liger(LigerRMSNormFunction, in_place)

    def quack():
        from quack.rmsnorm import rmsnorm_bwd, rmsnorm_fwd
        xd, wd = x.detach(), w.detach()

        def forward():
            y, _, rstd = rmsnorm_fwd(xd, wd, eps=1e-6, store_rstd=True)
            return {"y": y}, rstd

        return direct(forward, lambda rstd: dict(zip(("dx", "dw"), rmsnorm_bwd(xd, wd, g, rstd))))

    def quack_tuned():
        forward, backward = quack_tuned_rms_norm(x.detach(), w.detach(), 1e-6)

        def outputs():
            y, rstd = forward()
            return {"y": y}, rstd

        return direct(outputs, lambda rstd: dict(zip(("dx", "dw"), backward(g, rstd))))

    return Case("rms_norm", (M, H), dtype, {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
                {"ligerdsl": ligerdsl,
                 "liger": lambda: liger(False),
                 "liger_inplace": lambda: liger(True),
                 "liger_cute": lambda: cute(True),
                 "liger_cute_new": lambda: cute(False),
                 "quack": quack,
                 **by_torch(reference, (x, w), g, names),
                 "quack_tuned": quack_tuned}, exact)


@case
def fused_add_rms_norm(context, M, H, dtype):
    make = Maker(context.device)
    x, r = (make.randn(M, H, dtype=dtype).requires_grad_(),
            make.randn(M, H, dtype=dtype).requires_grad_())
    w, gy, gs = (make.randn(H, dtype=dtype).requires_grad_(), make.randn(M, H, dtype=dtype),
                 make.randn(M, H, dtype=dtype))
    one, names, rows = M * H * x.element_size(), (("y", "s"), ("dx", "dr", "dw")), make.rows(M)
    rounded = x.detach() + r.detach()

    def reference(x, r, w):
        s = x + r
        h = s.float()
        return w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype), s

    def ligerdsl():
        y, s, dx, rstd, dw, d = (*(torch.empty_like(gy) for _ in range(3)), make.empty(M),
                                 torch.empty_like(w), CODES[dtype])
        forward = context.plan(
            "fused_add_rms_norm_forward", n_cols=H, dtype=d, weight_dtype=d, eps=1e-6,
            with_rstd=1).bind(M, x=x, residual=r, weight=w, y=y, sum=s, rstd=rstd)
        backward = context.plan(
            "fused_add_rms_norm_backward", n_cols=H, dtype=d, weight_dtype=d, d_weight_dtype=d,
            with_d_sum=1).bind(M, d_y=gy, d_sum=gs, sum=s, weight=w, rstd=rstd, d_x=dx, d_weight=dw)
        return ours(forward, backward, ({"y": y, "s": s}, {"dx": dx, "dw": dw}), (rstd,))

    def liger():
        from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
        return autograd(
            lambda: LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6, 0.0, "llama", False),
            (x, r, w), (gy, gs), names)

    def cute():
        f = liger_cute("fused_add_rms_norm", x, r, w)
        return autograd(lambda: f(x, r, w), (x, r, w), (gy, gs), names)

    def quack():
        from quack.rmsnorm import rmsnorm_bwd, rmsnorm_fwd
        xd, rd, wd = x.detach(), r.detach(), w.detach()

        def forward():
            y, s, rstd = rmsnorm_fwd(xd, wd, residual=rd, eps=1e-6, store_rstd=True)
            return {"y": y, "s": s}, (s, rstd)

        return direct(forward,
                      lambda kept: dict(zip(
                          ("dx", "dw"),
                          rmsnorm_bwd(kept[0], wd, gy, kept[1], gs, has_residual=True))))

    exact = rms_exact(rounded, w, gy, rows, 1e-6, gs)
    exact["s"] = worst(lambda: x.detach()[rows].double() + r.detach()[rows].double(), rows)
    return Case(
        "fused_add_rms_norm", (M, H), dtype, {"fwd": 4 * one, "bwd": 4 * one, "full": 8 * one},
        {"ligerdsl": ligerdsl,
         "liger": liger,
         "liger_cute": cute,
         "quack": quack,
         **by_torch(reference, (x, r, w), (gy, gs), names)}, exact)


def layer_exact(x, w, b, g, rows, extra=None):
    """Checks y, dx, dw and db for rows x, weight w, bias b and gradient g; extra is added to dx."""
    def normalised(t):
        t = t.double() - t.double().mean(-1, keepdim=True)
        r = torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-5)
        return t * r, r

    def dx():
        n, r = normalised(x.detach()[rows])
        q = g[rows].double() * w.detach().double()
        exact = r * (q - n * (n * q).mean(-1, keepdim=True) - q.mean(-1, keepdim=True))
        return exact if extra is None else exact + extra[rows].double()

    return {"y": worst(
                lambda: normalised(x.detach()[rows])[0] * w.detach().double() + b.detach().double(),
                rows),
            "dx": worst(dx, rows),
            "dw": normwise(lambda: sum((g[p].double() * normalised(x.detach()[p])[0]).sum(0)
                                       for p in chunks(*x.shape))),
            "db": normwise(lambda: sum(g[p].double().sum(0) for p in chunks(*x.shape)))}


@case
def fused_add_layer_norm(context, M, H, dtype):
    make = Maker(context.device)
    x, r = (make.randn(M, H, dtype=dtype).requires_grad_(),
            make.randn(M, H, dtype=dtype).requires_grad_())
    w, b = (make.randn(H, dtype=dtype).requires_grad_() for _ in range(2))
    gy, gs = make.randn(M, H, dtype=dtype), make.randn(M, H, dtype=dtype)
    one, names, rows = (M * H * x.element_size(), (("y", "s"), ("dx", "dr", "dw", "db")),
                        make.rows(M))
    rounded = x.detach() + r.detach()

    def reference(x, r, w, b):
        s = x + r
        return F.layer_norm(s, (H,), w, b, 1e-5), s

    def ligerdsl():
        y, s, dx, d = *(torch.empty_like(gy) for _ in range(3)), CODES[dtype]
        mean, rstd, dw, db = make.empty(M), make.empty(M), torch.empty_like(w), torch.empty_like(b)
        forward = context.plan("fused_add_layer_norm_forward", n_cols=H, dtype=d, weight_dtype=d,
                               bias_dtype=d, eps=1e-5, with_mean=1, with_rstd=1).bind(
            M, x=x, residual=r, weight=w, bias=b, y=y, sum=s, mean=mean, rstd=rstd)
        backward = context.plan("fused_add_layer_norm_backward", n_cols=H, dtype=d, weight_dtype=d,
                                d_weight_dtype=d, d_bias_dtype=d,
                                with_d_sum=1).bind(M, d_y=gy, d_sum=gs, sum=s, weight=w, mean=mean,
                                                   rstd=rstd, d_x=dx, d_weight=dw, d_bias=db)
        return ours(forward, backward, ({"y": y, "s": s}, {"dx": dx, "dw": dw, "db": db}),
                    (mean, rstd))

    exact = layer_exact(rounded, w, b, gy, rows, gs)
    exact["s"] = worst(lambda: x.detach()[rows].double() + r.detach()[rows].double(), rows)
    return Case(
        "fused_add_layer_norm", (M, H), dtype, {"fwd": 4 * one, "bwd": 4 * one, "full": 8 * one},
        {"ligerdsl": ligerdsl,
         **by_torch(reference, (x, r, w, b), (gy, gs), names)},
        exact)


@case
def layer_norm(context, M, H, dtype):
    make = Maker(context.device)
    x, g = make.randn(M, H, dtype=dtype).requires_grad_(), make.randn(M, H, dtype=dtype)
    w, b = (make.randn(H, dtype=dtype).requires_grad_() for _ in range(2))
    one, names, rows = M * H * x.element_size(), (("y",), ("dx", "dw", "db")), make.rows(M)
    reference = lambda x, w, b: F.layer_norm(x, (H,), w, b, 1e-5)

    def ligerdsl():
        y, dx, dw, db = (torch.empty_like(g), torch.empty_like(g), torch.empty_like(w),
                         torch.empty_like(b))
        mean, rstd, d = make.empty(M), make.empty(M), CODES[dtype]
        forward = context.plan(
            "layer_norm_forward", n_cols=H, dtype=d, weight_dtype=d, bias_dtype=d, eps=1e-5,
            with_mean=1, with_rstd=1).bind(M, x=x, weight=w, bias=b, y=y, mean=mean, rstd=rstd)
        backward = context.plan("layer_norm_backward", n_cols=H, dtype=d, weight_dtype=d,
                                d_weight_dtype=d, d_bias_dtype=d).bind(
            M, d_y=g, x=x, weight=w, mean=mean, rstd=rstd, d_x=dx, d_weight=dw, d_bias=db)
        return ours(forward, backward, ({"y": y}, {"dx": dx, "dw": dw, "db": db}), (mean, rstd))

    def liger():
        from liger_kernel.ops.layer_norm import LigerLayerNormFunction
        return autograd(lambda: LigerLayerNormFunction.apply(x, w, b, 1e-5), (x, w, b), g, names)

    def cute():
        f = liger_cute("layer_norm", x, w, b)
        return autograd(lambda: f(x, w, b, 1e-5), (x, w, b), g, names)

    def quack():  # this peer accepts weight and bias only in f32
        from quack.rmsnorm import layernorm_bwd, layernorm_fwd
        xd, wd, bd = x.detach(), w.detach().float(), b.detach().float()

        def forward():
            y, rstd, mean = layernorm_fwd(xd, wd, bd, 1e-5, return_rstd=True, return_mean=True)
            return {"y": y}, (rstd, mean)

        return direct(forward,
                      lambda kept: dict(zip(("dx", "dw", "db"), layernorm_bwd(xd, wd, g, *kept))))

    exact = layer_exact(x, w, b, g, rows)
    return Case(
        "layer_norm", (M, H), dtype, {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
        {"ligerdsl": ligerdsl,
         "liger": liger,
         "liger_cute": cute,
         "quack": quack,
         **by_torch(reference, (x, w, b), g, names)}, exact)


@case
def modulated_rms_norm(context, M, H, K, dtype):
    make = Maker(context.device)
    x, g = make.randn(M, H, dtype=dtype).requires_grad_(), make.randn(M, H, dtype=dtype)
    w, s, t = (make.randn(H, dtype=dtype).requires_grad_(),
               *(make.randn(K, H, dtype=dtype).requires_grad_() for _ in range(2)))
    one, names, each = M * H * x.element_size(), (("y",), ("dx", "dw", "ds", "dt")), M // K

    def norm(x, w):
        h = x.float()
        return w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def reference(x, w, s, t):
        return (norm(x, w).view(K, each, H) * (1 + s[:, None]) + t[:, None]).view(M, H)

    def exact_y(x, w, s, t):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w * (1 + s) + t

    def gradients(k, part):  # gradients for some rows of modulation k
        inputs = [u.detach().double().requires_grad_() for u in (x.detach()[part], w, s[k], t[k])]
        return torch.autograd.grad(exact_y(*inputs), inputs, g[part].double())

    def modulation_rows(k):
        return [slice(k * each + p.start, k * each + p.stop) for p in chunks(each, H)]

    def ligerdsl():
        y, dx, dw, ds, dt, d = *(torch.empty_like(u) for u in (g, g, w, s, t)), CODES[dtype]
        rstd, sizes = make.empty(M), {"n_cols": H, "n_modulations": K, "dtype": d,
                                      "weight_dtype": d, "scale_dtype": d}
        forward = context.plan("modulated_rms_norm_forward", **sizes, eps=1e-6, with_shift=1,
                               with_rstd=1).bind(M, x=x, weight=w, scale=s, shift=t, y=y, rstd=rstd)
        backward = context.plan("modulated_rms_norm_backward", **sizes, d_weight_dtype=d,
                                d_scale_dtype=d, d_shift_dtype=d).bind(
            M, d_y=g, x=x, weight=w, scale=s, rstd=rstd, d_x=dx, d_weight=dw, d_scale=ds,
            d_shift=dt)
        return ours(forward, backward, ({"y": y}, {"dx": dx, "dw": dw, "ds": ds, "dt": dt}),
                    (rstd,))

    def liger(in_place):
        from liger_kernel.ops.modulated_rms_norm import LigerModulatedRMSNormFunction
        return autograd(
            lambda: LigerModulatedRMSNormFunction.apply(x, w, s, t, 1e-6, 0.0, "llama", in_place),
            inputs, g, names, written_over(exact, g) if in_place else None)

    inputs, rows = (x, w, s, t), slice(0, min(64, each))  # rows of the first modulation
    exact = {"y": worst(
                 lambda: exact_y(*(u.detach().double() for u in (x.detach()[rows], w, s[0], t[0]))),
                 rows),
             "dx": worst(lambda: gradients(0, rows)[0], rows),
             "dw": normwise(
                 lambda: sum(gradients(k, p)[1] for k in range(K) for p in modulation_rows(k))),
             "ds": normwise(lambda: torch.stack([
                 sum(gradients(k, p)[2] for p in modulation_rows(k)) for k in range(K)])),
             "dt": normwise(lambda: torch.stack([
                 sum(gradients(k, p)[3] for p in modulation_rows(k)) for k in range(K)]))}
    return Case("modulated_rms_norm", (M, H, K), dtype,
                {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
                {"ligerdsl": ligerdsl,
                 "liger": lambda: liger(False),
                 "liger_inplace": lambda: liger(True),
                 **by_torch(reference, inputs, g, names)}, exact)


def gradients_exact(gradients, rows, parts, names):
    """Checks x's gradient for some rows, and parameter gradients as sums over all parts.
    gradients(part) returns all gradients in the order of `names`."""
    checks = {names[0]: worst(lambda: gradients(rows)[0], rows)}
    for i, name in enumerate(names[1:], 1):
        checks[name] = normwise(lambda i=i: sum(gradients(part)[i] for part in parts))
    return checks


@case
def group_norm(context, N, C, S, G, dtype):
    make = Maker(context.device)
    x, g = make.randn(N, C, S, dtype=dtype).requires_grad_(), make.randn(N, C, S, dtype=dtype)
    w, b = (make.randn(C, dtype=dtype).requires_grad_() for _ in range(2))
    one, names, rows = N * C * S * x.element_size(), (("y",), ("dx", "dw", "db")), make.rows(N, 4)
    reference = lambda x, w, b: F.group_norm(x, G, w, b, 1e-6)

    def gradients(part):
        inputs = [t.detach().double().requires_grad_() for t in (x.detach()[part], w, b)]
        return torch.autograd.grad(reference(*inputs), inputs, g[part].double())

    def ligerdsl():
        y, dx, dw, db = (torch.empty_like(g), torch.empty_like(g), torch.empty_like(w),
                         torch.empty_like(b))
        mean, rstd, d = make.empty(N, G), make.empty(N, G), CODES[dtype]
        sizes = {"n_channels": C, "n_positions": S, "n_groups": G, "dtype": d, "weight_dtype": d}
        forward = context.plan(
            "group_norm_forward", **sizes, bias_dtype=d, eps=1e-6, with_mean=1,
            with_rstd=1).bind(N, x=x, weight=w, bias=b, y=y, mean=mean, rstd=rstd)
        backward = context.plan("group_norm_backward", **sizes, d_weight_dtype=d,
                                d_bias_dtype=d).bind(N, d_y=g, x=x, weight=w, mean=mean, rstd=rstd,
                                                     d_x=dx, d_weight=dw, d_bias=db)
        return ours(forward, backward, ({"y": y}, {"dx": dx, "dw": dw, "db": db}), (mean, rstd))

    def liger():
        from liger_kernel.ops.group_norm import LigerGroupNormFunction
        return autograd(lambda: LigerGroupNormFunction.apply(x, w, b, C, G, 1e-6), (x, w, b), g,
                        names)

    exact = {"y": worst(lambda: reference(*(t.detach().double() for t in (x.detach()[rows], w, b))),
                        rows),
             **gradients_exact(gradients, rows, chunks(N, C * S), names[1])}
    statistics = 8 * N * G  # bytes of mean and rstd; a large share if groups are small
    return Case(
        "group_norm", (N, C, S, G), dtype,
        {"fwd": 2 * one + statistics, "bwd": 3 * one + statistics,
         "full": 5 * one + 2 * statistics},
        {"ligerdsl": ligerdsl,
         "liger": liger,
         **by_torch(reference, (x, w, b), g, names)}, exact)


@case
def poly_norm(context, M, H, dtype):
    make = Maker(context.device)
    x, g = make.randn(M, H, dtype=dtype).requires_grad_(), make.randn(M, H, dtype=dtype)
    w, b = make.randn(3, dtype=dtype).requires_grad_(), make.randn(1, dtype=dtype).requires_grad_()
    one, names, rows = M * H * x.element_size(), (("y",), ("dx", "dw", "db")), make.rows(M)

    def exact_y(x, w, b):
        normalised = lambda u: u * torch.rsqrt(u.pow(2).mean(-1, keepdim=True) + 1e-6)
        return w[0] * normalised(x ** 3) + w[1] * normalised(x ** 2) + w[2] * normalised(x) + b

    def gradients(part):
        inputs = [t.detach().double().requires_grad_() for t in (x.detach()[part], w, b)]
        return torch.autograd.grad(exact_y(*inputs), inputs, g[part].double())

    def reference(x, w, b):
        return exact_y(x.float(), w.float(), b.float()).to(x.dtype)

    def ligerdsl():
        y, dx, dw, db = (torch.empty_like(g), torch.empty_like(g), torch.empty_like(w),
                         torch.empty_like(b))
        rstd, d = make.empty(M, 3), CODES[dtype]
        forward = context.plan("poly_norm_forward", n_cols=H, dtype=d, weight_dtype=d, eps=1e-6,
                               with_rstd=1).bind(M, x=x, weight=w, bias=b, y=y, rstd=rstd)
        backward = context.plan(
            "poly_norm_backward", n_cols=H, dtype=d, weight_dtype=d, d_weight_dtype=d,
            d_bias_dtype=d).bind(M, d_y=g, x=x, weight=w, rstd=rstd, d_x=dx, d_weight=dw, d_bias=db)
        return ours(forward, backward, ({"y": y}, {"dx": dx, "dw": dw, "db": db}), (rstd,))

    def liger():
        from liger_kernel.ops.poly_norm import LigerPolyNormFunction
        scalar = b.detach().reshape(()).requires_grad_()  # a scalar, as in Liger's module
        return autograd(lambda: LigerPolyNormFunction.apply(x, w, scalar, 1e-6, False),
                        (x, w, scalar), g, names)

    exact = {"y": worst(lambda: exact_y(x.detach()[rows].double(), w.detach().double(),
                                        b.detach().double()),
                        rows),
             **gradients_exact(gradients, rows, chunks(M, H), names[1])}
    return Case(
        "poly_norm", (M, H), dtype, {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
        {"ligerdsl": ligerdsl,
         "liger": liger,
         **by_torch(reference, (x, w, b), g, names)}, exact)


@case
def dyt(context, M, H, dtype):
    make = Maker(context.device)
    x, g = make.randn(M, H, dtype=dtype).requires_grad_(), make.randn(M, H, dtype=dtype)
    w, b = (make.randn(H, dtype=dtype).requires_grad_() for _ in range(2))
    alpha = torch.full((1,), 0.5, device=context.device, dtype=dtype).requires_grad_()
    one, names, rows = M * H * x.element_size(), (("y",), ("dx", "da", "dw", "db")), make.rows(M)

    def gradients(part):
        inputs = [t.detach().double().requires_grad_() for t in (x.detach()[part], alpha, w, b)]
        return torch.autograd.grad(exact_y(*inputs), inputs, g[part].double())

    def exact_y(x, alpha, w, b):
        return w * torch.tanh(alpha * x) + b

    def reference(*inputs):
        return exact_y(*(t.float() for t in inputs)).to(x.dtype)

    def ligerdsl():
        y, dx, d = torch.empty_like(g), torch.empty_like(g), CODES[dtype]
        da, dw, db = torch.empty_like(alpha), torch.empty_like(w), torch.empty_like(b)
        forward = context.plan("dyt_forward", n_cols=H, dtype=d, weight_dtype=d, bias_dtype=d).bind(
            M, x=x, alpha=alpha, weight=w, bias=b, y=y)
        backward = context.plan("dyt_backward", n_cols=H, dtype=d, weight_dtype=d, d_alpha_dtype=d,
                                d_weight_dtype=d, d_bias_dtype=d).bind(
            M, d_y=g, x=x, alpha=alpha, weight=w, d_x=dx, d_alpha=da, d_weight=dw, d_bias=db)
        return ours(forward, backward, ({"y": y}, {"dx": dx, "da": da, "dw": dw, "db": db}))

    def liger():
        from liger_kernel.ops.dyt import LigerDyTFunction
        return autograd(lambda: LigerDyTFunction.apply(x, alpha, w, b), (x, alpha, w, b), g, names)

    inputs = (x, alpha, w, b)
    exact = {
        "y": worst(lambda: exact_y(*(t.detach().double() for t in (x.detach()[rows], alpha, w, b))),
                   rows), **gradients_exact(gradients, rows, chunks(M, H), names[1])}
    return Case("dyt", (M, H), dtype, {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
                {"ligerdsl": ligerdsl,
                 "liger": liger,
                 **by_torch(reference, inputs, g, names)}, exact)

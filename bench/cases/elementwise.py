"""Bias, scaling, activations, dropout, SwiGLU, GeGLU, RoPE in two layouts, vector addition."""

import torch
import torch.nn.functional as F

from .common import (CODES, Case, Contender, Maker, Pass, autograd, by_compiler, by_torch, case,
                     kept, nbytes, ours, put_back, worst)
from .peers import liger_cute


@case
def bias_add(context, M, N, dtype):
    make = Maker(context.device)
    x, g, b = (make.randn(M, N, dtype=dtype), make.randn(M, N, dtype=dtype),
               make.randn(N, dtype=dtype).requires_grad_())
    one, names, rows = M * N * x.element_size(), (("y",), ("db",)), make.rows(M)
    reference = lambda x, b: x + b

    def ligerdsl():
        y, db, d = torch.empty_like(g), torch.empty_like(b), CODES[dtype]
        forward = context.plan("bias_add_forward", n_cols=N, dtype=d,
                               bias_dtype=d).bind(M, x=x, bias=b, y=y)
        backward = context.plan("bias_add_backward", n_cols=N, dtype=d,
                                d_bias_dtype=d).bind(M, d_y=g, d_bias=db)
        return ours(forward, backward, ({"y": y}, {"db": db}))

    eager = lambda f: autograd(lambda: f(x, b), (b,), g, names)
    exact = {"y": worst(lambda: x[rows].double() + b.detach().double(), rows),
             "db": worst(lambda: g.double().sum(0))}
    return Case("bias_add", (M, N), dtype, {"fwd": 2 * one, "bwd": one, "full": 3 * one},
                {"ligerdsl": ligerdsl, **by_compiler(reference, eager),
                 "torch": lambda: eager(reference)}, exact)


@case
def scale(context, M, N, dtype):
    """Scaling by one number in device memory."""
    make = Maker(context.device)
    x, factor = make.randn(M, N, dtype=dtype), make.randn(1, dtype=torch.float32)
    rows = make.rows(M)
    reference = lambda x: (x * factor).to(dtype)

    def ligerdsl():
        out = torch.empty_like(x)
        run = context.plan("scale", n_cols=N, dtype=CODES[dtype],
                           factor_dtype="f32").bind(M, x=x, factor=factor, out=out)
        return Contender({"fwd": Pass(run, lambda: {"out": out}, nbytes(out))})

    eager = lambda f: Contender({"fwd": Pass(lambda: {"out": f(x)})})
    return Case(
        "scale", (M, N), dtype, {"fwd": 2 * M * N * x.element_size()},
        {"ligerdsl": ligerdsl, **by_compiler(reference, eager), "torch": lambda: eager(reference)},
        {"out": worst(lambda: x[rows].double() * factor.double(), rows)})


def activation(context, kernel, M, N, dtype, kind, function, liger_functions=None):
    """kind: activation_forward's kind. function: torch's function. liger_functions: as in
    `gated`."""
    make = Maker(context.device)
    x, g = make.randn(M, N, dtype=dtype).requires_grad_(), make.randn(M, N, dtype=dtype)
    one, names, rows = M * N * x.element_size(), (("y",), ("dx",)), make.rows(M)

    def ligerdsl():
        y, dx, fields = (torch.empty_like(g), torch.empty_like(g),
                         {"n_cols": N, "dtype": CODES[dtype], "kind": kind})
        forward = context.plan("activation_forward", **fields).bind(M, x=x, y=y)
        backward = context.plan("activation_backward", **fields).bind(M, d_y=g, x=x, d_x=dx)
        return ours(forward, backward, ({"y": y}, {"dx": dx}))

    def liger(look_up):
        f = look_up()
        return autograd(lambda: f.apply(x), (x,), g, names)

    eager = lambda f: autograd(lambda: f(x), (x,), g, names)
    peers = {provider: lambda look_up=look_up: liger(look_up)
             for provider, look_up in (liger_functions or {}).items()}
    part = x.detach()[rows].double().requires_grad_()
    value = function(part)
    slope, = torch.autograd.grad(value.sum(), part)
    exact = {"y": worst(lambda: value.detach(), rows),
             "dx": worst(lambda: g[rows].double() * slope, rows)}
    return Case(kernel, (M, N), dtype, {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
                {"ligerdsl": ligerdsl, **peers, **by_compiler(function, eager),
                 "torch": lambda: eager(function)}, exact)


@case
def gelu_tanh(context, M, N, dtype):
    return activation(context, "gelu_tanh", M, N, dtype, 0, lambda x: F.gelu(x, approximate="tanh"))


@case
def gelu_erf(context, M, N, dtype):
    return activation(context, "gelu_erf", M, N, dtype, 1, F.gelu)


@case
def silu(context, M, N, dtype):
    return activation(context, "silu", M, N, dtype, 2, F.silu)


@case
def relu(context, M, N, dtype):
    return activation(context, "relu", M, N, dtype, 3, F.relu)


@case
def relu_squared(context, M, N, dtype):
    def liger():
        from liger_kernel.ops.relu_squared import LigerReLUSquaredFunction
        return LigerReLUSquaredFunction

    return activation(context, "relu_squared", M, N, dtype, 4, lambda x: F.relu(x).square(),
                      {"liger": liger})


@case
def dropout(context, M, N, dtype):
    """p = 0.1, as in GPT-2. Every provider draws its own random numbers."""
    make, p = Maker(context.device), 0.1
    x, g = make.randn(M, N, dtype=dtype).requires_grad_(), make.randn(M, N, dtype=dtype)
    one, names, rows = M * N * x.element_size(), (("y",), ("dx",)), make.rows(M)

    def ligerdsl():
        y, dx, fields = (torch.empty_like(g), torch.empty_like(g),
                         {"n_cols": N, "dtype": CODES[dtype]})
        forward = context.plan("dropout_forward", **fields).bind(M, p=p, seed=1, x=x, y=y)
        backward = context.plan("dropout_backward", **fields).bind(M, p=p, seed=1, d_y=g, d_x=dx)
        return ours(forward, backward, ({"y": y}, {"dx": dx}))

    reference = lambda x: F.dropout(x, p)
    eager = lambda f: autograd(lambda: f(x), (x,), g, names)
    return Case(
        "dropout", (M, N), dtype, {"fwd": 2 * one, "bwd": 2 * one, "full": 4 * one},
        {"ligerdsl": ligerdsl, **by_compiler(reference, eager), "torch": lambda: eager(reference)},
        {"y": kept(lambda: x.detach()[rows].double() / (1 - p), rows, p),
         "dx": kept(lambda: g[rows].double() / (1 - p), rows, p)})


def gated(context, kernel, M, N, dtype, activation, gradient, liger_functions):
    """A gated activation.

    activation: torch's function. gradient(u) = f(u), f'(u) in float64. liger_functions: {provider:
    function that returns Liger's autograd function on demand}. Most overwrite a and b with the
    gradients. liger_cute_new allocates the gradients, and so does liger_cute if it is the only
    form.
    """
    make = Maker(context.device)
    a, b, g = (make.randn(M, N, dtype=dtype) for _ in range(3))
    a.requires_grad_()
    b.requires_grad_()
    one, names, rows = M * N * a.element_size(), (("out",), ("da", "db")), make.rows(M)
    reference = lambda a, b: activation(a) * b

    def ligerdsl():
        out, da, db, d = torch.empty_like(g), torch.empty_like(g), torch.empty_like(g), CODES[dtype]
        forward = context.plan(f"{kernel}_forward", n_cols=N,
                               dtype=d).bind(M, gate=a, up=b, out=out)
        backward = context.plan(f"{kernel}_backward", n_cols=N,
                                dtype=d).bind(M, d_out=g, gate=a, up=b, d_gate=da, d_up=db)
        return ours(forward, backward, ({"out": out}, {"da": da, "db": db}))

    def liger(look_up):
        function = look_up()
        return autograd(lambda: function.apply(a, b), (a, b), g, names, put_back(a, b))

    def cute():
        f = liger_cute(kernel, a, b)
        return autograd(lambda: f(a, b), (a, b), g, names)

    peers = {provider: lambda look_up=look_up: liger(look_up)
             for provider, look_up in liger_functions.items()}
    peers["liger_cute_new" if "liger_cute" in peers else "liger_cute"] = cute

    # Computes the exact values before a contender overwrites the inputs.
    value, slope = gradient(a.detach()[rows].double())
    v, dc = b.detach()[rows].double(), g[rows].double()
    exact = {"out": worst(lambda: value * v, rows), "da": worst(lambda: dc * v * slope, rows),
             "db": worst(lambda: dc * value, rows)}
    return Case(kernel, (M, N), dtype, {"fwd": 3 * one, "bwd": 5 * one, "full": 8 * one},
                {"ligerdsl": ligerdsl,
                 **peers,
                 **by_torch(reference, (a, b), g, names)}, exact)


@case
def swiglu(context, M, N, dtype):
    def gradient(u):
        s = torch.sigmoid(u)
        return u * s, s + u * s * (1 - s)

    def liger():
        from liger_kernel.ops.swiglu import LigerSiLUMulFunction
        return LigerSiLUMulFunction

    def cute():
        from liger_kernel.ops.cutedsl.ops import LigerSiLUMulFunction
        return LigerSiLUMulFunction

    return gated(context, "swiglu", M, N, dtype, F.silu, gradient,
                 {"liger": liger, "liger_cute": cute})


@case
def geglu(context, M, N, dtype):
    def gradient(u):
        k, c = (2 / torch.pi) ** 0.5, 0.044715
        t = torch.tanh(k * (u + c * u**3))
        return u / 2 * (1 + t), (1 + t) / 2 + u / 2 * (1 - t * t) * k * (1 + 3 * c * u * u)

    def liger():
        from liger_kernel.ops.geglu import LigerGELUMulFunction
        return LigerGELUMulFunction

    return gated(context, "geglu", M, N, dtype, lambda a: F.gelu(a, approximate="tanh"), gradient,
                 {"liger": liger})


def rotation(context, kernel, shape, dtype, tables, reference, fields, bound, liger_passes):
    """Rotates q and k in place, as Liger does, or into new memory (ligerdsl_new, torch.compile,
    PyTorch).

    reference: function of (q, k, *tables). fields and bound: arguments of our plan. liger_passes:
    {provider: function of (q, k, gq, gk, names)}.
    """
    make = Maker(context.device)
    B, T, nq, nk, D = shape
    q, k = (make.randn(B, T, n, D, dtype=dtype).requires_grad_() for n in (nq, nk))
    gq, gk = make.randn(B, T, nq, D, dtype=dtype), make.randn(B, T, nk, D, dtype=dtype)
    one, names, positions = (B * T * (nq + nk) * D * q.element_size(), (("qo", "ko"), ("dq", "dk")),
                             slice(0, 64))

    def ligerdsl(in_place):
        qo, ko, dq, dk = (
            (q, k, gq, gk) if in_place else (torch.empty_like(t) for t in (gq, gk, gq, gk)))
        plan = lambda inverse: context.plan("rope", head_dim=D, q_heads=nq, k_heads=nk,
                                            dtype=CODES[dtype], with_k=1, inverse=inverse,
                                            in_place=int(in_place), **fields)
        forward = plan(0).bind(B * T, q=q, k=k, q_out=qo, k_out=ko, **bound)
        backward = plan(1).bind(B * T, q=gq, k=gk, q_out=dq, k_out=dk, **bound)
        return ours(forward, backward, ({"qo": qo, "ko": ko}, {"dq": dq, "dk": dk}),
                    restore=put_back(q, k, gq, gk) if in_place else None)

    # Exact values of all four outputs, computed by autograd of the reference in float64.
    part = [t.detach()[:1, positions].double().requires_grad_() for t in (q, k)]
    exact_out = reference(
        *part,
        *(t[positions].to(torch.complex128 if t.is_complex() else torch.float64) for t in tables))
    exact_grad = torch.autograd.grad(exact_out, part,
                                     (gq[:1, positions].double(), gk[:1, positions].double()))
    check = lambda value: lambda found: worst(lambda: value)(found[:1, positions])
    exact = {name: check(value)
             for name, value in zip(("qo", "ko", "dq", "dk"), (*exact_out, *exact_grad))}
    eager = lambda f: autograd(lambda: f(q, k, *tables), (q, k), (gq, gk), names)
    return Case(kernel, shape, dtype, {"fwd": 2 * one, "bwd": 2 * one, "full": 4 * one},
                {"ligerdsl": lambda: ligerdsl(True), "ligerdsl_new": lambda: ligerdsl(False),
                 **{name: lambda f=f: f(q, k, gq, gk, names) for name, f in liger_passes.items()},
                 **by_compiler(reference, eager), "torch": lambda: eager(reference)}, exact)


def angles(device, T, D):
    positions = torch.arange(T, device=device).double()
    return positions[:, None] / 10000 ** (torch.arange(0, D, 2, device=device).double() / D)


@case
def rope(context, B, T, nq, nk, D, dtype):
    angle = angles(context.device, T, D)
    cos, sin = (torch.cat((f(angle), f(angle)), -1).to(dtype) for f in (torch.cos, torch.sin))

    def reference(q, k, c, s):
        def rotate(x):
            a, b = x.chunk(2, -1)
            return torch.cat((-b, a), -1)
        c, s = c[None, :, None], s[None, :, None]
        return q * c + rotate(q) * s, k * c + rotate(k) * s

    def in_place(function, q, k, gq, gk, names):
        return autograd(lambda: tuple(t.transpose(1, 2) for t in function.apply(
                            q.transpose(1, 2), k.transpose(1, 2), cos[None], sin[None])),
                        (q, k), (gq, gk), names, put_back(q, k, gq, gk))

    def liger(*arguments):
        from liger_kernel.ops.rope import LigerRopeFunction
        return in_place(LigerRopeFunction, *arguments)

    def cute(*arguments):
        from liger_kernel.ops.cutedsl.ops import LigerRopeFunction
        return in_place(LigerRopeFunction, *arguments)

    return rotation(context, "rope", (B, T, nq, nk, D), dtype, (cos, sin), reference,
                    {"table_dtype": CODES[dtype]}, {"cos": cos, "sin": sin},
                    {"liger": liger, "liger_cute": cute})


@case
def rope_interleaved(context, B, T, nq, nk, D, dtype):
    """Rotates adjacent columns by complex numbers, the form of Llama 4's angles."""
    angle = angles(context.device, T, D)
    freqs = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
    table = torch.view_as_real(freqs).flatten(-2).contiguous()

    def reference(q, k, f):
        f = f[None, :, None]
        wide = lambda x: x if x.dtype == torch.float64 else x.float()
        rotate = lambda x: torch.view_as_real(
            torch.view_as_complex(wide(x).unflatten(-1, (-1, 2))) * f).flatten(-2).to(x.dtype)
        return rotate(q), rotate(k)

    def liger(q, k, gq, gk, names):
        from liger_kernel.ops.llama4_rope import LigerLlama4RopeFunction
        contender = autograd(lambda: LigerLlama4RopeFunction.apply(q, k, freqs), (q, k), (gq, gk),
                             names)
        contender.restore = put_back(q, k, gq, gk)
        return contender

    return rotation(context, "rope_interleaved", (B, T, nq, nk, D), dtype, (freqs,), reference,
                    {"table_dtype": "f32", "layout": 1, "complex_table": 1}, {"cos": table},
                    {"liger": liger})


@case
def vector_add(context, n, dtype):
    make = Maker(context.device)
    a, b, out = (make.randn(n, dtype=dtype) for _ in range(3))

    def ligerdsl():
        run = context.plan("vector_add", dtype=CODES[dtype]).bind(n, a=a, b=b, out=out)
        return Contender({"fwd": Pass(run, lambda: {"out": out}, nbytes(out))})

    return Case(
        "vector_add", (n,), dtype, {"fwd": 3 * n * a.element_size()},
        {"ligerdsl": ligerdsl,
         "torch": lambda: Contender({"fwd": Pass(lambda: {"out": torch.add(a, b, out=out)})})},
        {"out": worst(lambda: a.double() + b.double())})

"""Softmax, cross-entropy, fused linear cross-entropy."""

import torch
import torch.nn.functional as F

from .common import CODES, Case, Contender, Maker, Pass, autograd, chunks, compiled, direct, nbytes, normwise, ours, put_back, worst


def softmax(context, M, N, dtype):
    make = Maker(context.device)
    x, g = make.randn(M, N, dtype=dtype, scale=2.0).requires_grad_(), make.randn(M, N, dtype=dtype)
    one, names, rows = M * N * x.element_size(), (("y",), ("dx",)), make.rows(M)

    def ligerdsl():
        y, dx, d = torch.empty_like(g), torch.empty_like(g), CODES[dtype]
        forward = context.plan("softmax_forward", n_cols=N, dtype=d).bind(M, x=x, y=y)
        forward()  # the backward reads y
        return ours(forward, context.plan("softmax_backward", n_cols=N, dtype=d).bind(M, y=y, d_y=g, d_x=dx), ({"y": y}, {"dx": dx}))

    def liger():
        from liger_kernel.ops.softmax import LigerSoftmaxFunction
        return autograd(lambda: LigerSoftmaxFunction.apply(x), (x,), g, names)

    def quack():
        from quack.softmax import softmax_bwd, softmax_fwd

        def forward():
            y = softmax_fwd(x.detach())
            return {"y": y}, y

        return direct(forward, lambda y: {"dx": softmax_bwd(g, y)})

    def dx():
        y, q = torch.softmax(x.detach()[rows].double(), -1), g[rows].double()
        return y * (q - (q * y).sum(-1, keepdim=True))

    reference = lambda x: torch.softmax(x, -1)
    return Case("softmax", (M, N), dtype, {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
                {"ligerdsl": ligerdsl, "liger": liger, "quack": quack,
                 "compile": lambda: autograd(lambda f=compiled(reference): f(x), (x,), g, names),
                 "torch": lambda: autograd(lambda: reference(x), (x,), g, names)},
                {"y": worst(lambda: torch.softmax(x.detach()[rows].double(), -1), rows), "dx": worst(dx, rows)})


def loss_passes(loss_of, x, restore=None):
    """fwd: the loss alone; full: loss and gradient."""
    def full():
        loss = loss_of(x)
        return {"loss": loss, "dx": torch.autograd.grad(loss, (x,))[0]}

    return Contender({"fwd": Pass(lambda: {"loss": loss_of(x.detach())}), "full": Pass(full)}, restore)


def cross_entropy(context, M, V, dtype, softcap=0.0, smoothing=0.0, scale=2.0):
    """fwd = loss only; full = loss and gradient, over the logits where the contender can: they are restored before every repetition."""
    make = Maker(context.device)
    x, labels = make.randn(M, V, dtype=dtype, scale=scale).requires_grad_(), make.labels(M, V, ignored=16)
    one, valid, rows = M * V * x.element_size(), (labels != -100).sum(), torch.arange(1, M, max(1, M // 32), device=context.device)
    kernel = "cross_entropy" + ("_softcap" if softcap else "") + ("_smoothing" if smoothing else "")
    capped = lambda x: softcap * torch.tanh(x / softcap) if softcap else x
    reference = lambda x, t: F.cross_entropy(capped(x.float()), t, label_smoothing=smoothing)

    def gradient():
        part = x.detach()[rows].double().requires_grad_()
        loss = F.cross_entropy(capped(part), labels[rows], reduction="sum", ignore_index=-100, label_smoothing=smoothing)
        return torch.autograd.grad(loss, part)[0] / valid

    def mean_loss():
        return sum(F.cross_entropy(capped(x.detach()[part].double()), labels[part], reduction="sum", ignore_index=-100,
                                   label_smoothing=smoothing) for part in chunks(M, V)) / valid

    exact_loss, exact_gradient = mean_loss(), gradient()  # before a contender writes over the logits

    def ligerdsl():
        loss, d = make.empty(1), CODES[dtype]
        plan = lambda **more: context.plan("cross_entropy", n_classes=V, dtype=d, label_dtype="i64", softcap=softcap,
                                            label_smoothing=smoothing, **more)
        forward = plan().bind(M, logits=x, labels=labels, loss=loss)
        full = plan(with_d_logits=1, in_place=1).bind(M, logits=x, labels=labels, loss=loss, d_logits=x)
        return Contender({
            "fwd": Pass(forward, lambda: {"loss": loss}, forward.workspace_bytes + nbytes(loss), forward.workspace_bytes),
            "full": Pass(full, lambda: {"loss": loss, "dx": x}, full.workspace_bytes + nbytes(loss), full.workspace_bytes)}, put_back(x))

    def liger():
        from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
        return loss_passes(lambda x: LigerCrossEntropyFunction.apply(
            x, labels, None, -100, 0.0, smoothing, "mean", softcap or None, False)[0], x, put_back(x))

    def quack():  # its one-kernel form writes the gradient of the sum over the logits; the mean's factor is left out of its time
        from quack.cross_entropy import cross_entropy_fwd
        xd = x.detach()

        def full():
            loss, dx = cross_entropy_fwd(xd, labels, return_dx=True, inplace_backward=True)
            return {"sum": loss, "dx_of_sum": dx}

        return Contender({"fwd": Pass(lambda: {"sum": cross_entropy_fwd(xd, labels)}), "full": Pass(full)}, put_back(x))

    check_loss, check_gradient = worst(lambda: exact_loss.reshape(1)), worst(lambda: exact_gradient)
    exact = {"loss": lambda found: check_loss(found.reshape(1)), "dx": lambda found: check_gradient(found[rows]),
             "sum": lambda found: check_loss((found.double().sum() / valid).reshape(1)),
             "dx_of_sum": lambda found: check_gradient(found[rows].double() / valid)}
    peers = {"liger": liger} if softcap or smoothing else {"liger": liger, "quack": quack}
    return Case(kernel, (M, V), dtype, {"fwd": one, "full": 2 * one},
                {"ligerdsl": ligerdsl, **peers,
                 "compile": lambda: loss_passes(lambda x, f=compiled(reference): f(x, labels), x),
                 "torch": lambda: loss_passes(lambda x: reference(x, labels), x)}, exact)


def cross_entropy_softcap(context, M, V, dtype):
    """Capped at 30, as Gemma 2 does, with logits that the cap bends."""
    return cross_entropy(context, M, V, dtype, softcap=30.0, scale=10.0)


def cross_entropy_smoothing(context, M, V, dtype):
    return cross_entropy(context, M, V, dtype, smoothing=0.1)


def linear_exact(x, w, labels):
    """Checks of the mean loss, all of dx's sampled rows and one column of dw, by chunks of rows."""
    (M, H), V = x.shape, w.shape[0]
    rows = torch.arange(0, M, max(1, M // 32), device=x.device)

    def parts():
        wf = w.detach().float()
        for part in chunks(M, V, 1 << 26):
            yield part, (x.detach()[part].float() @ wf.t()).double()

    def loss():
        total = sum(F.cross_entropy(logits, labels[part], reduction="sum") for part, logits in parts())
        return (total / M).reshape(1)

    def dx():
        wd = w.detach().double()
        d = torch.softmax(x.detach()[rows].double() @ wd.t(), -1)
        d[torch.arange(len(rows), device=x.device), labels[rows]] -= 1
        return d @ wd / M

    def dw_column():
        column = torch.zeros(V, device=x.device, dtype=torch.float64)
        for part, logits in parts():
            p = torch.softmax(logits, -1)
            p[torch.arange(logits.shape[0], device=x.device), labels[part]] -= 1
            column += p.t() @ x.detach()[part, 0].double() / M
        return column

    check = {"loss": worst(loss), "dx": normwise(dx), "dw": normwise(dw_column)}
    return {"loss": lambda found: check["loss"](found.reshape(1)), "dx": lambda found: check["dx"](found[rows]),
            "dw": lambda found: check["dw"](found[:, 0])}


def fused_linear_cross_entropy(context, M, H, V, dtype):
    """full = loss and the gradients of x and weight. floor = the three bare products of the same tensors, by the library of torch.

    Bound by 6 M H V flops, not by its bytes: compare us with the floor's. Variants of ours: _f32 with d_weight in f32, _300mb and _64mb
    so with at most that much workspace, _300mb_dw16 with d_weight in the type of the data. liger32: Liger with its f32 sums.
    quack: what it chooses by itself, with chunks of 2048 rows where its 4096 would be H, which that way rejects (version 0.6.5);
    quack_logits: its other way, which stores logits.
    """
    make = Maker(context.device)
    x, w = make.randn(M, H, dtype=dtype).requires_grad_(), make.randn(V, H, dtype=dtype, scale=H ** -0.5).requires_grad_()
    labels = make.labels(M, V)

    def ligerdsl(d_weight_dtype=dtype, **limits):
        def contender():
            loss, dx, dw = make.empty(1), torch.empty_like(x.detach()), make.empty(V, H, dtype=d_weight_dtype)
            full = context.plan("fused_linear_cross_entropy", n_classes=V, n_cols=H, dtype=CODES[dtype], label_dtype="i64", with_d_x=1,
                                d_weight_dtype=CODES[d_weight_dtype], **limits).bind(
                M, x=x, weight=w, labels=labels, loss=loss, d_x=dx, d_weight=dw)
            made = {"loss": loss, "dx": dx, "dw": dw}
            return Contender({"full": Pass(full, lambda: made, nbytes(*made.values()) + full.workspace_bytes, full.workspace_bytes)})
        return contender

    def through(loss_of):
        def full():
            loss = loss_of()
            return {"loss": loss, **dict(zip(("dx", "dw"), torch.autograd.grad(loss, (x, w))))}
        return Contender({"full": Pass(full)})

    def floor():
        logits, dx, dw = make.randn(M, V, dtype=dtype), make.empty(M, H, dtype=dtype), make.empty(V, H, dtype=dtype)
        xd, wd = x.detach(), w.detach()

        def products():
            torch.mm(xd, wd.t(), out=logits)
            torch.mm(logits, wd, out=dx)
            torch.mm(logits.t(), xd, out=dw)

        return Contender({"full": Pass(products, lambda: {"logits": logits}, nbytes(logits, dx, dw))})

    def liger(accumulate=None):
        from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction as fused
        return through(lambda: fused.apply(x, w, labels, None, None, -100, 0.0, 0.0, "mean", None, False, accumulate)[0])

    def quack(scaled=None, chunk=4096):
        from quack.linear_cross_entropy import chunked_linear_cross_entropy as fused
        return through(lambda: fused(x, w, labels, chunk_size=chunk, tuned=False, use_scaled_exp=scaled))

    reference = lambda x, w, t: F.cross_entropy((x @ w.t()).float(), t)
    exact = linear_exact(x, w, labels)
    check_logits = normwise(lambda: x.detach()[:64].double() @ w.detach().double().t())
    exact["logits"] = lambda found: check_logits(found[:64])
    return Case("fused_linear_cross_entropy", (M, H, V), dtype, {"full": 2 * (M * H + V * H) * x.element_size()},
                {"ligerdsl": ligerdsl(), "floor": floor, "compile": lambda: through(lambda f=compiled(reference): f(x, w, labels)),
                 "quack": lambda: quack(chunk=2048 if H == 4096 else 4096), "quack_logits": lambda: quack(False),
                 "ligerdsl_f32": ligerdsl(torch.float32),
                 "ligerdsl_300mb": ligerdsl(torch.float32, max_workspace_bytes=300_000_000),
                 "ligerdsl_300mb_dw16": ligerdsl(dtype, max_workspace_bytes=300_000_000),
                 "ligerdsl_64mb": ligerdsl(torch.float32, max_workspace_bytes=64_000_000), "liger": liger,
                 "liger32": lambda: liger(torch.float32), "torch": lambda: through(lambda: reference(x, w, labels))},
                exact, {"full": 6 * M * H * V}, True)

"""Softmax, sparsemax and cross-entropy."""

import torch
import torch.nn.functional as F

from .common import (CODES, Case, Contender, Maker, Pass, autograd, by_compiler, by_torch, case,
                     chunks, direct, nbytes, ours, put_back, worst)
from .peers import liger_cute


@case
def softmax(context, M, N, dtype):
    make = Maker(context.device)
    x, g = make.randn(M, N, dtype=dtype, scale=2.0).requires_grad_(), make.randn(M, N, dtype=dtype)
    one, names, rows = M * N * x.element_size(), (("y",), ("dx",)), make.rows(M)

    def ligerdsl():
        y, dx, d = torch.empty_like(g), torch.empty_like(g), CODES[dtype]
        forward = context.plan("softmax_forward", n_cols=N, dtype=d).bind(M, x=x, y=y)
        forward()  # the backward pass reads y
        return ours(forward,
                    context.plan("softmax_backward", n_cols=N, dtype=d).bind(M, y=y, d_y=g, d_x=dx),
                    ({"y": y}, {"dx": dx}))

    def liger():
        from liger_kernel.ops.softmax import LigerSoftmaxFunction
        return autograd(lambda: LigerSoftmaxFunction.apply(x), (x,), g, names)

    def cute():
        f = liger_cute("softmax", x)
        return autograd(lambda: f(x), (x,), g, names)

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
                {"ligerdsl": ligerdsl,
                 "liger": liger,
                 "liger_cute": cute,
                 "quack": quack,
                 **by_torch(reference, (x,), g, names)},
                {"y": worst(lambda: torch.softmax(x.detach()[rows].double(), -1), rows),
                 "dx": worst(dx, rows)})


@case
def sparsemax(context, M, N, dtype):
    make = Maker(context.device)
    x, g = make.randn(M, N, dtype=dtype).requires_grad_(), make.randn(M, N, dtype=dtype)
    one, names, rows = M * N * x.element_size(), (("y",), ("dx",)), make.rows(M)

    def reference(x):
        """Returns sparsemax by sorting, in f32 or float64."""
        z = x if x.dtype == torch.float64 else x.float()
        z = z - z.amax(-1, keepdim=True)
        s = z.sort(dim=-1, descending=True).values
        sums, k = s.cumsum(-1), torch.arange(1, N + 1, device=z.device, dtype=z.dtype)
        support = (1 + k * s > sums).sum(-1, keepdim=True)
        return torch.clamp(z - (sums.gather(-1, support - 1) - 1) / support, min=0).to(x.dtype)

    def ligerdsl():
        y, dx, d = torch.empty_like(g), torch.empty_like(g), CODES[dtype]
        forward = context.plan("sparsemax_forward", n_cols=N, dtype=d).bind(M, x=x, y=y)
        forward()  # the backward pass reads y
        return ours(
            forward,
            context.plan("sparsemax_backward", n_cols=N, dtype=d).bind(M, y=y, d_y=g, d_x=dx),
            ({"y": y}, {"dx": dx}))

    def liger():
        from liger_kernel.ops.sparsemax import LigerSparsemaxFunction
        return autograd(lambda: LigerSparsemaxFunction.apply(x, -1), (x,), g, names)

    def dx():
        support, q = reference(x.detach()[rows].double()).to(dtype) > 0, g[rows].double()
        return torch.where(
            support, q - (q * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True), 0.0)

    return Case(
        "sparsemax", (M, N), dtype, {"fwd": 2 * one, "bwd": 3 * one, "full": 5 * one},
        {"ligerdsl": ligerdsl,
         "liger": liger,
         **by_torch(reference, (x,), g, names)},
        {"y": worst(lambda: reference(x.detach()[rows].double()), rows), "dx": worst(dx, rows)})


def loss_passes(loss_of, x, restore=None):
    """Returns passes: fwd is the loss alone, full is loss and gradient."""
    def full():
        loss = loss_of(x)
        return {"loss": loss, "dx": torch.autograd.grad(loss, (x,))[0]}

    return Contender({"fwd": Pass(lambda: {"loss": loss_of(x.detach())}), "full": Pass(full)},
                     restore)


@case
def cross_entropy(context, M, V, dtype, softcap=0.0, smoothing=0.0, scale=2.0):
    """fwd = loss only; full = loss and gradient.

    Contenders that can overwrite the logits do; the logits are restored before every repetition.
    """
    make = Maker(context.device)
    x, labels = (make.randn(M, V, dtype=dtype, scale=scale).requires_grad_(),
                 make.labels(M, V, ignored=16))
    one, valid, rows = (M * V * x.element_size(), (labels != -100).sum(),
                        torch.arange(1, M, max(1, M // 32), device=context.device))
    kernel = "cross_entropy" + ("_softcap" if softcap else "") + ("_smoothing" if smoothing else "")
    capped = lambda x: softcap * torch.tanh(x / softcap) if softcap else x
    reference = lambda x, t: F.cross_entropy(capped(x.float()), t, label_smoothing=smoothing)

    def gradient():
        part = x.detach()[rows].double().requires_grad_()
        loss = F.cross_entropy(capped(part), labels[rows], reduction="sum", ignore_index=-100,
                               label_smoothing=smoothing)
        return torch.autograd.grad(loss, part)[0] / valid

    def mean_loss():
        return sum(F.cross_entropy(capped(x.detach()[part].double()), labels[part], reduction="sum",
                                   ignore_index=-100,
                                   label_smoothing=smoothing) for part in chunks(M, V)) / valid

    # computed before a contender overwrites the logits
    exact_loss, exact_gradient = mean_loss(), gradient()

    def ligerdsl():
        loss, d = make.empty(1), CODES[dtype]
        plan = lambda **more: context.plan("cross_entropy", n_classes=V, dtype=d, label_dtype="i64",
                                           softcap=softcap, label_smoothing=smoothing, **more)
        forward = plan().bind(M, logits=x, labels=labels, loss=loss)
        full = plan(with_d_logits=1, in_place=1).bind(M, logits=x, labels=labels, loss=loss,
                                                      d_logits=x)
        return Contender({
            "fwd": Pass(forward, lambda: {"loss": loss}, forward.workspace_bytes + nbytes(loss),
                        forward.workspace_bytes),
            "full": Pass(full, lambda: {"loss": loss, "dx": x}, full.workspace_bytes + nbytes(loss),
                         full.workspace_bytes)}, put_back(x))

    def separate():  # stores the gradient in its own memory
        loss, dx = make.empty(1), torch.empty_like(x.detach())
        full = context.plan(
            "cross_entropy", n_classes=V, dtype=CODES[dtype], label_dtype="i64", softcap=softcap,
            label_smoothing=smoothing,
            with_d_logits=1).bind(M, logits=x, labels=labels, loss=loss, d_logits=dx)
        return Contender({"full": Pass(full, lambda: {"loss": loss, "dx": dx},
                                       full.workspace_bytes + nbytes(loss, dx),
                                       full.workspace_bytes)})

    def by_liger(function):
        return loss_passes(lambda x: function.apply(x, labels, None, -100, 0.0, smoothing, "mean",
                                                    softcap or None, False)[0],
                           x, put_back(x))

    def liger():
        from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
        return by_liger(LigerCrossEntropyFunction)

    def cute():
        from liger_kernel.ops.cutedsl.ops import LigerCrossEntropyFunction
        return by_liger(LigerCrossEntropyFunction)

    # overwrites the logits with the gradient of the summed loss; the time excludes the scaling to a
    # mean
    def quack():
        from quack.cross_entropy import cross_entropy_fwd
        xd = x.detach()

        def full():
            loss, dx = cross_entropy_fwd(xd, labels, return_dx=True, inplace_backward=True)
            return {"sum": loss, "dx_of_sum": dx}

        return Contender({"fwd": Pass(lambda: {"sum": cross_entropy_fwd(xd, labels)}),
                          "full": Pass(full)}, put_back(x))

    check_loss, check_gradient = worst(lambda: exact_loss.reshape(1)), worst(lambda: exact_gradient)
    exact = {"loss": lambda found: check_loss(found.reshape(1)),
             "dx": lambda found: check_gradient(found[rows]),
             "sum": lambda found: check_loss((found.double().sum() / valid).reshape(1)),
             "dx_of_sum": lambda found: check_gradient(found[rows].double() / valid)}
    peers = {"liger": liger, "liger_cute": cute,
             **({} if softcap or smoothing else {"quack": quack})}
    return Case(
        kernel, (M, V), dtype, {"fwd": one, "full": 2 * one},
        {"ligerdsl": ligerdsl,
         "ligerdsl_apart": separate,
         **peers,
         **by_compiler(reference, lambda f: loss_passes(lambda x: f(x, labels), x), repeated=False),
         "torch": lambda: loss_passes(lambda x: reference(x, labels), x)}, exact)


@case
def cross_entropy_softcap(context, M, V, dtype):
    """Capped at 30, as in Gemma 2, with logits large enough for the cap to matter."""
    return cross_entropy(context, M, V, dtype, softcap=30.0, scale=10.0)


@case
def cross_entropy_smoothing(context, M, V, dtype):
    return cross_entropy(context, M, V, dtype, smoothing=0.1)

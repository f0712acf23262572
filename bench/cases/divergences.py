"""Divergences over the vocabulary, averaged over rows: KL, Jensen-Shannon and total variation."""

import torch
import torch.nn.functional as F

from .common import CODES, Case, Contender, Maker, Pass, by_compiler, case, chunks, nbytes, worst
from .losses import loss_passes
from .peers import liger_cute


def divergence(context, kernel, M, V, dtype, logarithms, reference, liger, cute=None):
    """fwd = loss only; full = loss and gradient.

    logarithms: whether input and target are logarithms. reference(x, y): the mean over rows, in its
    arguments' precision. liger(): returns Liger's function (x, y) -> loss.
    """
    make = Maker(context.device)

    def distribution(is_logarithm):
        x = F.log_softmax(make.randn(M, V, dtype=torch.float32, scale=2.0), -1)
        return (x if is_logarithm else x.exp_()).to(dtype)

    x, y = map(distribution, logarithms)
    x.requires_grad_()
    one, rows = M * V * x.element_size(), make.rows(M)

    def gradient():
        part = x.detach()[rows].double().requires_grad_()
        loss = reference(part, y[rows].double())
        return torch.autograd.grad(loss, part)[0] * len(rows) / M

    def mean_loss():
        parts = chunks(M, V)
        return sum(reference(x.detach()[p].double(), y[p].double()) * (min(p.stop, M) - p.start)
                   for p in parts) / M

    def ligerdsl():
        loss, dx, d = make.empty(1), torch.empty_like(y), CODES[dtype]
        plan = lambda **more: context.plan(kernel, n_cols=V, dtype=d, target_dtype=d, **more)
        forward = plan().bind(M, input=x, target=y, loss=loss)
        full = plan(with_d_input=1).bind(M, input=x, target=y, loss=loss, d_input=dx)
        return Contender({
            "fwd": Pass(forward, lambda: {"loss": loss}, forward.workspace_bytes + nbytes(loss),
                        forward.workspace_bytes),
            "full": Pass(full, lambda: {"loss": loss, "dx": dx},
                         full.workspace_bytes + nbytes(loss, dx), full.workspace_bytes)})

    by = lambda function: loss_passes(lambda x: function(x, y), x)
    in_f32 = lambda x, y: reference(x.float(), y.float())
    check_loss = worst(lambda: mean_loss().reshape(1))
    peers = {"liger": lambda: by(liger())}
    if cute:
        peers["liger_cute"] = lambda: by(liger_cute(cute, x.detach(), y))
    return Case(kernel, (M, V), dtype, {"fwd": 2 * one, "full": 3 * one},
                {"ligerdsl": ligerdsl, **peers, **by_compiler(in_f32, by, repeated=False),
                 "torch": lambda: by(in_f32)},
                {"loss": lambda found: check_loss(found.reshape(1)), "dx": worst(gradient, rows)})


@case
def kl_div(context, M, V, dtype):
    def liger():
        from liger_kernel.ops.kl_div import LigerKLDivLossFunction
        return lambda x, y: LigerKLDivLossFunction.apply(x, y, "batchmean", False, 1e-10)

    return divergence(context, "kl_div", M, V, dtype, (True, False),
                      lambda x, y: F.kl_div(x, y, reduction="batchmean"), liger, "kl_div")


@case
def jsd(context, M, V, dtype):
    """beta = 0.5."""
    def reference(x, y):
        q, p = x.exp(), y.exp()
        log_m = ((p + q) * 0.5).log()
        return (0.5 * (p * (y - log_m) + q * (x - log_m))).sum() / x.shape[0]

    def liger():
        from liger_kernel.ops.jsd import LigerJSDFunction
        return lambda x, y: LigerJSDFunction.apply(x, y, None, 0.5, -100, "nvidia-triton")

    return divergence(context, "jsd", M, V, dtype, (True, True), reference, liger, "jsd")


@case
def tvd(context, M, V, dtype):
    def liger():
        from liger_kernel.ops.tvd import LigerTVDLossFunction
        return lambda x, y: LigerTVDLossFunction.apply(x, y, None, "batchmean")

    return divergence(context, "tvd", M, V, dtype, (False, False),
                      lambda x, y: 0.5 * (x - y).abs().sum() / x.shape[0], liger)

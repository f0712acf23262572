"""Heads with their losses: fused linear cross-entropy and fused linear JSD.

Fused linear cross-entropy has cases for its speed, for its error on rows with a flat or a peaked
softmax, and for its gradients with an upstream gradient per row.
"""

import math

import torch
import torch.nn.functional as F

from .common import (CODES, Case, Contender, Maker, Pass, autograd, by_compiler, case, chunks,
                     nbytes, normwise, ours, worst)
from .peers import liger_cute


def sampled_checks(x, w, labels):
    """Checks the mean loss, some rows of dx and a column of dw. Loss and dw take f32 logits in
    chunks of rows; the rest is float64."""
    (M, H), V = x.shape, w.shape[0]
    rows = torch.arange(0, M, max(1, M // 32), device=x.device)
    held = []

    def sums():
        """Returns the mean loss and a column of dw from one computation of the logits."""
        if not held:
            wf, total, column = (w.detach().float(), 0.0,
                                 torch.zeros(V, device=x.device, dtype=torch.float64))
            for part in chunks(M, V, 1 << 26):
                logits = (x.detach()[part].float() @ wf.t()).double()
                total = total + F.cross_entropy(logits, labels[part], reduction="sum")
                p = torch.softmax(logits, -1)
                p[torch.arange(logits.shape[0], device=x.device), labels[part]] -= 1
                column += p.t() @ x.detach()[part, 0].double() / M
            held.append(((total / M).reshape(1), column))
        return held[0]

    def dx():
        wd = w.detach().double()
        d = torch.softmax(x.detach()[rows].double() @ wd.t(), -1)
        d[torch.arange(len(rows), device=x.device), labels[rows]] -= 1
        return d @ wd / M

    loss, gradient, column = worst(lambda: sums()[0]), normwise(dx), normwise(lambda: sums()[1])
    return {"loss": lambda found: loss(found.reshape(1)), "dx": lambda found: gradient(found[rows]),
            "dw": lambda found: column(found[:, 0])}


def whole_checks(x, w, labels):
    """Checks the mean loss and both gradients as a whole, in float64 from the stored inputs."""
    xd, wd = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
    loss = F.cross_entropy(xd @ wd.t(), labels)
    dx, dw = torch.autograd.grad(loss, (xd, wd))
    check = worst(lambda: loss.detach().reshape(1))
    return {"loss": lambda found: check(found.reshape(1)), "dx": normwise(lambda: dx),
            "dw": normwise(lambda: dw)}


def ours_of(context, operation, x, w, inputs, **fields):
    """Returns a function ligerdsl(d_weight_dtype, **limits) that returns our contender, which
    computes the loss and the gradients of x and weight."""
    make, dtype, (M, H), V = Maker(context.device), x.dtype, x.shape, w.shape[0]

    def ligerdsl(d_weight_dtype=dtype, **limits):
        def contender():
            loss, dx, dw = (make.empty(1), torch.empty_like(x.detach()),
                            make.empty(V, H, dtype=d_weight_dtype))
            upstream = make.empty(1).fill_(1)  # peers also multiply by the loss's gradient
            full = context.plan(operation, n_classes=V, n_cols=H, dtype=CODES[dtype], with_d_x=1,
                                with_d_loss=1, d_weight_dtype=CODES[d_weight_dtype], **fields,
                                **limits).bind(M, x=x, weight=w, **inputs, d_loss=upstream,
                                               loss=loss, d_x=dx, d_weight=dw)
            made = {"loss": loss, "dx": dx, "dw": dw}
            return Contender({"full": Pass(full, lambda: made,
                                           nbytes(*made.values()) + full.workspace_bytes,
                                           full.workspace_bytes)})
        return contender

    return ligerdsl


def loss_and_gradients(loss_of, x, w):
    def full():
        loss = loss_of()
        return {"loss": loss, **dict(zip(("dx", "dw"), torch.autograd.grad(loss, (x, w))))}

    return Contender({"full": Pass(full)})


def linear_case(context, kernel, x, w, labels, exact, extras):
    """full = loss and the gradients of x and weight. extras: variants that only some cases time."""
    make, dtype = Maker(context.device), x.dtype
    (M, H), V = x.shape, w.shape[0]

    ligerdsl = ours_of(context, "fused_linear_cross_entropy", x, w, {"labels": labels},
                       label_dtype="i64")
    through = lambda loss_of: loss_and_gradients(loss_of, x, w)

    def floor():
        logits, dx, dw = (make.randn(M, V, dtype=dtype), make.empty(M, H, dtype=dtype),
                          make.empty(V, H, dtype=dtype))
        xd, wd = x.detach(), w.detach()

        def products():
            torch.mm(xd, wd.t(), out=logits)
            torch.mm(logits, wd, out=dx)
            torch.mm(logits.t(), xd, out=dw)

        return Contender({
            "full": Pass(products, lambda: {"logits": logits}, nbytes(logits, dx, dw))})

    def liger(accumulate=None, chunks=1):
        from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
        fused = LigerFusedLinearCrossEntropyFunction
        # default values of Liger's arguments from softcap to ce_mode
        unasked = (None, False, accumulate, False, False, False, None, None)
        return through(lambda: fused.apply(x, w, labels, None, None, -100, 0.0, 0.0, "mean",
                                           *unasked, chunks)[0])

    def cute():
        if M * V >= 1 << 31:
            raise ValueError("not tried: this contender stores all logits in one tensor, which "
                             "must "
                             "have fewer than 2^31 elements")
        from liger_kernel.ops.cutedsl.ops import fused_linear_cross_entropy_sm90
        fused = fused_linear_cross_entropy_sm90.LigerFusedLinearCrossEntropySM90Function
        return through(lambda: fused.apply(x, w, labels))

    def dispatched():
        fused = liger_cute("fused_linear_cross_entropy", x, w, labels)
        return through(lambda: fused(x, w, labels)[0])

    def cute_scaled():
        from liger_kernel.ops.cutedsl.ops import LigerFusedScaledCrossEntropySM90Function as fused
        return through(lambda: fused.apply(x, w, labels).mean())

    def quack(scaled=None, chunk=4096, tuned=False):
        from quack.linear_cross_entropy import chunked_linear_cross_entropy as fused
        return through(lambda: fused(x, w, labels, chunk_size=chunk, tuned=tuned,
                                     use_scaled_exp=scaled))

    reference = lambda x, w, t: F.cross_entropy((x @ w.t()).float(), t)
    check_logits = normwise(lambda: x.detach()[:64].double() @ w.detach().double().t())
    exact["logits"] = lambda found: check_logits(found[:64])
    contenders = {
        "ligerdsl": ligerdsl(),
        "ligerdsl_kernels": ligerdsl(products=2),
        "floor": floor,
        "liger_cute": cute,
        "quack": lambda: quack(chunk=2048 if H == 4096 else 4096),
        "quack_logits": lambda: quack(False),
        "liger_chunks": lambda: liger(chunks=-(-V * CHUNK_ROWS // (M * H))),
        "quack_8192": lambda: quack(chunk=8192),
        "quack_logits_8192": lambda: quack(False, 8192),
        **by_compiler(reference, lambda f: through(lambda: f(x, w, labels)), repeated=False),
        "liger": liger,
        "liger_cute_registry": dispatched,
        "liger_cute_scaled": cute_scaled,
        "ligerdsl_f32": ligerdsl(torch.float32),
        "ligerdsl_300mb": ligerdsl(torch.float32, max_workspace_bytes=300_000_000),
        "ligerdsl_300mb_dw16": ligerdsl(dtype, max_workspace_bytes=300_000_000),
        "ligerdsl_64mb": ligerdsl(torch.float32, max_workspace_bytes=64_000_000),
        "ligerdsl_64mb_dw16": ligerdsl(dtype, max_workspace_bytes=64_000_000),
        "liger32": lambda: liger(torch.float32),
        "torch": lambda: through(lambda: reference(x, w, labels)),
        "quack_tuned": lambda: quack(False, tuned=True)}
    for name in VARIANTS if not extras else LARGE if M < 8192 else ():
        del contenders[name]
    return Case(kernel, (M, H, V), dtype, {"full": 2 * (M * H + V * H) * x.element_size()},
                contenders, exact, {"full": 6 * M * H * V}, True)


NONE = 0  # LIGERDSL_REDUCTION_NONE
CHUNK_ROWS = 4096  # rows per chunk of liger_chunks, as in QuACK
# forms that differ from the default form only if the rows need several chunks
LARGE = ("liger_chunks", "quack_8192", "quack_logits_8192")
VARIANTS = ("liger_cute_scaled", "ligerdsl_f32", "liger32", "torch", "compile_max")


@case
def fused_linear_cross_entropy(context, M, H, V, dtype):
    """Logits of deviation 1. floor = the three bare matmuls of the same tensors, by torch's
    library.

    The bound is 6 M H V flops, not bytes, so compare `us` with the floor's. Variants:

    - ligerdsl: _f32 has d_weight in f32; _300mb and _64mb also limit the workspace; _dw16 has
      d_weight in the type of the data.
    - liger32: Liger with f32 accumulation. liger_chunks: Liger with a budget for chunks of at least
      4096 rows, if there are more rows.
    - liger_cute: Liger's kernel for Hopper, which its registry does not choose. liger_cute_scaled:
      that kernel without stored logits. liger_cute_registry: the registry's choice.
    - quack: its default. If its 4096 rows per chunk equal H, which version 0.6.5 rejects, it has
      2048. quack_logits: its form with stored logits; quack_tuned: that form by its autotuner.
      _8192: chunks of 8192 rows, if there are more than 4096.

    The contenders in VARIANTS are timed for up to 4096 rows. d_loss is 1 and read on the device,
    like the gradient that autograd passes to peers.
    """
    make = Maker(context.device)
    x, w = (make.randn(M, H, dtype=dtype).requires_grad_(),
            make.randn(V, H, dtype=dtype, scale=H ** -0.5).requires_grad_())
    labels = make.labels(M, V)
    return linear_case(context, "fused_linear_cross_entropy", x, w, labels,
                       sampled_checks(x, w, labels), M <= 4096)


def error_case(context, kernel, M, H, V, dtype, deviation=1.0, probability=None):
    """A case that measures errors, not time.

    Logits have this deviation and labels are random, or the labels have this probability.
    """
    make = Maker(context.device)
    labels = make.labels(M, V)
    x, w = make.randn(M, H, dtype=dtype), make.randn(V, H, dtype=dtype, scale=deviation * H ** -0.5)
    if probability:
        own = w[labels].double()
        length = own.pow(2).sum(-1, keepdim=True)
        # gives the label a logit of 0
        other = x.double() - (x.double() * own).sum(-1, keepdim=True) / length * own
        margin = math.log(probability / (1 - probability)) + math.log(V) + 0.5
        margin += margin ** 2 / H / 2  # the label's weight row also raises other logits
        x = (other + margin / length * own).to(dtype)
    x.requires_grad_()
    w.requires_grad_()
    case = linear_case(context, kernel, x, w, labels, whole_checks(x, w, labels), True)
    case.gated, case.bursts = False, False
    for name in ("floor", "compile_max", "quack_tuned", "ligerdsl_300mb", "ligerdsl_64mb",
                 "ligerdsl_64mb_dw16"):
        del case.make[name]
    return case


@case
def flce_deviation_1(context, M, H, V, dtype):
    return error_case(context, "flce_deviation_1", M, H, V, dtype)


@case
def flce_deviation_4(context, M, H, V, dtype):
    return error_case(context, "flce_deviation_4", M, H, V, dtype, deviation=4.0)


@case
def flce_deviation_12(context, M, H, V, dtype):
    return error_case(context, "flce_deviation_12", M, H, V, dtype, deviation=12.0)


@case
def flce_trained(context, M, H, V, dtype):
    """Rows like those of a trained model: the label's probability is about 0.999."""
    return error_case(context, "flce_trained", M, H, V, dtype, probability=0.999)


@case
def flce_losses(context, M, H, V, dtype):
    """The mean loss alone, for logits of deviation 1. floor = one bare matmul by torch's library.

    The bound is 2 M H V flops. ligerdsl stores a chunk of logits if it uses the matmul library;
    ligerdsl_kernels stores none.
    """
    make = Maker(context.device)
    x, w = make.randn(M, H, dtype=dtype), make.randn(V, H, dtype=dtype, scale=H ** -0.5)
    labels = make.labels(M, V)
    exact = {"loss": sampled_checks(x, w, labels)["loss"]}

    def ligerdsl(**limits):
        def contender():
            loss = make.empty(1)
            forward = context.plan("fused_linear_cross_entropy", n_classes=V, n_cols=H,
                                   dtype=CODES[dtype], label_dtype="i64",
                                   **limits).bind(M, x=x, weight=w, labels=labels, loss=loss)
            return Contender({"fwd": Pass(forward, lambda: {"loss": loss},
                                          nbytes(loss) + forward.workspace_bytes,
                                          forward.workspace_bytes)})
        return contender

    def without_gradients(loss_of):
        def forward():
            with torch.no_grad():
                return {"loss": loss_of()}
        return Contender({"fwd": Pass(forward)})

    def floor():
        logits = make.empty(M, V, dtype=dtype)
        return Contender({"fwd": Pass(lambda: torch.mm(x, w.t(), out=logits),
                                      lambda: {"logits": logits}, nbytes(logits))})

    def liger():
        from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
        fused = LigerFusedLinearCrossEntropyFunction
        return without_gradients(lambda: fused.apply(x, w, labels)[0])

    def quack(scaled):
        from quack.linear_cross_entropy import chunked_linear_cross_entropy as fused
        return without_gradients(lambda: fused(x, w, labels, chunk_size=4096, tuned=False,
                                               use_scaled_exp=scaled))

    reference = lambda x, w, t: F.cross_entropy((x @ w.t()).float(), t)
    check_logits = normwise(lambda: x[:64].double() @ w.double().t())
    exact["logits"] = lambda found: check_logits(found[:64])
    contenders = {"ligerdsl": ligerdsl(),
                  "ligerdsl_kernels": ligerdsl(products=2),
                  "floor": floor,
                  "liger": liger,
                  "quack": lambda: quack(None),
                  "quack_logits": lambda: quack(False),
                  **by_compiler(reference, lambda f: without_gradients(lambda: f(x, w, labels)),
                                repeated=False),
                  "torch": lambda: without_gradients(lambda: reference(x, w, labels))}
    return Case("flce_losses", (M, H, V), dtype, {"fwd": (M * H + V * H) * x.element_size()},
                contenders, exact, {"fwd": 2 * M * H * V}, True)


@case
def flce_per_token(context, M, H, V, dtype):
    """A loss per row, then gradients of x and weight for an upstream gradient per row, as in policy
    gradients.

    full = both. The bound is 8 M H V flops: floor = the four bare matmuls needed without stored
    logits, one for the losses and three for the gradients, by torch's library.

    - liger_cute_scaled: Liger's kernel for Hopper, which also recomputes from the rows' lse.
    - torch and compile: store the logits and need three matmuls.
    - ligerdsl_300mb: limits the workspace.

    Liger's Triton kernel has no backward for per-row losses.
    """
    make = Maker(context.device)
    x, w = (make.randn(M, H, dtype=dtype).requires_grad_(),
            make.randn(V, H, dtype=dtype, scale=H ** -0.5).requires_grad_())
    labels, g = make.labels(M, V), make.randn(M, dtype=torch.float32)
    rows, held = torch.arange(0, M, max(1, M // 32), device=x.device), []

    def slopes(part, precision):
        """Returns the losses of these rows and the gradient of their logits."""
        logits = (x.detach()[part].to(precision) @ w.detach().to(precision).t()).double()
        d = torch.softmax(logits, -1)
        d[torch.arange(d.shape[0], device=x.device), labels[part]] -= 1
        return (F.cross_entropy(logits, labels[part], reduction="none"),
                d * g[part].double()[:, None])

    def sums():
        if not held:
            losses, column = [], torch.zeros(V, device=x.device, dtype=torch.float64)
            for part in chunks(M, V, 1 << 26):
                loss, d = slopes(part, torch.float32)
                losses.append(loss)
                column += d.t() @ x.detach()[part, 0].double()
            held.append((torch.cat(losses), column))
        return held[0]

    loss, column = worst(lambda: sums()[0]), normwise(lambda: sums()[1])
    gradient = normwise(lambda: slopes(rows, torch.float64)[1] @ w.detach().double())
    exact = {"loss": loss, "dx": lambda found: gradient(found[rows]),
             "dw": lambda found: column(found[:, 0])}
    names = (("loss",), ("dx", "dw"))

    def ligerdsl(**limits):
        def contender():
            losses, lse, dx, dw = (make.empty(M), make.empty(M), torch.empty_like(x.detach()),
                                   torch.empty_like(w.detach()))
            head = dict(n_classes=V, n_cols=H, dtype=CODES[dtype], label_dtype="i64",
                        reduction=NONE, **limits)
            forward = context.plan("fused_linear_cross_entropy", with_lse=1, **head).bind(
                M, x=x, weight=w, labels=labels, loss=losses, lse=lse)
            backward = context.plan("fused_linear_cross_entropy_backward", with_d_x=1,
                                    d_weight_dtype=CODES[dtype], **head).bind(
                M, x=x, weight=w, labels=labels, lse=lse, d_loss=g, d_x=dx, d_weight=dw)
            return ours(forward, backward, ({"loss": losses}, {"dx": dx, "dw": dw}), (lse,))
        return contender

    def floor():
        logits, dx, dw = (make.randn(M, V, dtype=dtype), make.empty(M, H, dtype=dtype),
                          make.empty(V, H, dtype=dtype))
        xd, wd = x.detach(), w.detach()

        def products():
            torch.mm(xd, wd.t(), out=logits)
            torch.mm(xd, wd.t(), out=logits)
            torch.mm(logits, wd, out=dx)
            torch.mm(logits.t(), xd, out=dw)

        return Contender({
            "full": Pass(products, lambda: {"logits": logits}, nbytes(logits, dx, dw))})

    def cute_scaled():
        from liger_kernel.ops.cutedsl.ops import LigerFusedScaledCrossEntropySM90Function as fused
        return autograd(lambda: fused.apply(x, w, labels), (x, w), g, names)

    reference = lambda x, w, t: F.cross_entropy((x @ w.t()).float(), t, reduction="none")
    check_logits = normwise(lambda: x.detach()[:64].double() @ w.detach().double().t())
    exact["logits"] = lambda found: check_logits(found[:64])
    contenders = {
        "ligerdsl": ligerdsl(),
        "floor": floor,
        "liger_cute_scaled": cute_scaled,
        **by_compiler(reference, lambda f: autograd(lambda: f(x, w, labels), (x, w), g, names)),
        "torch": lambda: autograd(lambda: reference(x, w, labels), (x, w), g, names),
        "ligerdsl_300mb": ligerdsl(max_workspace_bytes=300_000_000)}
    one = (M * H + V * H) * x.element_size()
    return Case("flce_per_token", (M, H, V), dtype, {"fwd": one, "bwd": 2 * one, "full": 2 * one},
                contenders, exact,
                {"fwd": 2 * M * H * V, "bwd": 6 * M * H * V, "full": 8 * M * H * V}, True)


def log_mixture(q, p):
    """Returns the elementwise JSD (beta = 0.5) of two log-probabilities, and its derivative by the
    first."""
    log_m = torch.logaddexp(q, p) - math.log(2)
    slope = 0.5 * q.exp() * (q - log_m)
    return 0.5 * p.exp() * (p - log_m) + slope, slope


def jsd_checks(x, w, y, u):
    """Checks the mean loss, some rows of dx and a column of dw. Loss and dw take f32 logits in
    chunks of rows; the rest is float64."""
    (M, H), V = x.shape, w.shape[0]
    rows = torch.arange(0, M, max(1, M // 32), device=x.device)
    held = []

    def terms(part, precision):
        q, p = (F.log_softmax(
            (a.detach()[part].to(precision) @ b.detach().to(precision).t()).double(),
            -1) for a, b in ((x, w), (y, u)))
        loss, slope = log_mixture(q, p)
        return loss.sum(), (slope - q.exp() * slope.sum(-1, keepdim=True)) / M

    def sums():
        if not held:
            total, column = 0.0, torch.zeros(V, device=x.device, dtype=torch.float64)
            for part in chunks(M, V, 1 << 25):
                loss, d = terms(part, torch.float32)
                total = total + loss
                column += d.t() @ x.detach()[part, 0].double()
            held.append(((total / M).reshape(1), column))
        return held[0]

    loss, column = worst(lambda: sums()[0]), normwise(lambda: sums()[1])
    gradient = normwise(lambda: terms(rows, torch.float64)[1] @ w.detach().double())
    return {"loss": lambda found: loss(found.reshape(1)), "dx": lambda found: gradient(found[rows]),
            "dw": lambda found: column(found[:, 0])}


@case
def fused_linear_jsd(context, M, H, V, dtype):
    """beta = 0.5, logits of deviation 1, a teacher as wide as the student.

    The bound is 8 M H V flops: floor = the four bare matmuls of the same tensors, by torch's
    library. ligerdsl_300mb has d_weight in f32 and a 300 MB workspace, for up to 4096 rows.
    """
    make = Maker(context.device)
    x, w = (make.randn(M, H, dtype=dtype).requires_grad_(),
            make.randn(V, H, dtype=dtype, scale=H ** -0.5).requires_grad_())
    y, u = make.randn(M, H, dtype=dtype), make.randn(V, H, dtype=dtype, scale=H ** -0.5)

    ligerdsl = ours_of(context, "fused_linear_jsd", x, w, {"target_x": y, "target_weight": u},
                       n_target_cols=H)
    through = lambda loss_of: loss_and_gradients(loss_of, x, w)

    def floor():
        logits, target, dx, dw = (make.randn(M, V, dtype=dtype), make.randn(M, V, dtype=dtype),
                                  torch.empty_like(y), torch.empty_like(u))
        xd, wd = x.detach(), w.detach()

        def products():
            torch.mm(xd, wd.t(), out=logits)
            torch.mm(y, u.t(), out=target)
            torch.mm(logits, wd, out=dx)
            torch.mm(logits.t(), xd, out=dw)

        return Contender({
            "full": Pass(products, lambda: {"logits": logits}, nbytes(logits, target, dx, dw))})

    def liger(sums=None):
        from liger_kernel.transformers.functional import liger_fused_linear_jsd
        return through(lambda: liger_fused_linear_jsd(x, w, y, u, accum_dtype=sums))

    def reference(x, w, y, u):
        q, p = (F.log_softmax((a @ b.t()).float(), -1) for a, b in ((x, w), (y, u)))
        return log_mixture(q, p)[0].sum() / x.shape[0]

    exact, check_logits = (jsd_checks(x, w, y, u),
                           normwise(lambda: x.detach()[:64].double() @ w.detach().double().t()))
    exact["logits"] = lambda found: check_logits(found[:64])
    contenders = {
        "ligerdsl": ligerdsl(),
        "floor": floor,
        "liger": liger,
        "liger32": lambda: liger(torch.float32),
        **by_compiler(reference, lambda f: through(lambda: f(x, w, y, u)), repeated=False),
        "ligerdsl_300mb": ligerdsl(torch.float32, max_workspace_bytes=300_000_000),
        "torch": lambda: through(lambda: reference(x, w, y, u))}
    for name in ("ligerdsl_300mb", "compile_max") if M > 4096 else ():
        del contenders[name]
    return Case("fused_linear_jsd", (M, H, V), dtype,
                {"full": 3 * (M * H + V * H) * x.element_size()}, contenders, exact,
                {"full": 8 * M * H * V}, True)

"""Cross-entropy of one shard of a vocabulary."""

import torch
import torch.nn.functional as F

from .common import CODES, Case, Contender, Maker, Pass, by_compiler, case, nbytes, put_back, worst

SHARDS = 8


@case
def vocab_parallel_cross_entropy(context, M, V, dtype):
    """The first of eight shards of V classes, without communication.

    fwd: its statistics. full: also the losses and the gradient, from the statistics of all shards;
    the gradient overwrites the logits. Liger's operation runs as the only rank without a process
    group, so it does not communicate either. Its forward pass stores f32 exponentials for its
    gradient.
    """
    make = Maker(context.device)
    x, own = (make.randn(M, V, dtype=dtype, scale=2.0).requires_grad_(),
              make.labels(M, V, ignored=16))
    shard = torch.arange(M, device=own.device) % SHARDS  # index of the shard with the row's label
    labels = torch.where(own == -100, own, own + shard * V)
    others = make.randn(SHARDS - 1, M, 3, dtype=torch.float32).abs()
    others[..., 2] *= shard == torch.arange(1, SHARDS, device=own.device)[:, None]
    one, rows = M * V * x.element_size(), torch.arange(1, M, max(1, M // 32), device=context.device)

    def statistics(x, labels):
        mine = (labels >= 0) & (labels < V)
        at, top = torch.where(mine, labels, 0)[:, None], x.amax(-1)
        label = x.gather(-1, at)[:, 0]
        is_label = mine[:, None] & (torch.arange(V, device=x.device) == at)
        rest = torch.where(is_label, 0.0, torch.exp(x - top[:, None])).sum(-1)
        return (
            torch.stack((top, rest, torch.where(mine, label, 0.0)), -1) * (labels != -100)[:, None])

    def losses(x, labels, others):
        """Returns the losses and x's gradient, in x's precision."""
        all_of = torch.cat((statistics(x, labels)[None], others.to(x.dtype)))
        label = all_of[..., 2].sum(0)
        top = torch.maximum(all_of[..., 0].amax(0), label)
        total = (all_of[..., 1] * torch.exp(all_of[..., 0] - top)).sum(0) + torch.exp(label - top)
        counted, hit = labels != -100, torch.arange(V, device=x.device) == labels[:, None]
        loss = torch.where(counted, torch.log(total) + top - label, 0.0)
        return (loss,
                torch.where(counted[:, None],
                            torch.exp(x - top[:, None]) / total[:, None] - hit.to(x.dtype), 0.0))

    def ligerdsl():
        loss, partials, d = make.empty(M), make.empty(SHARDS, M, 3), CODES[dtype]
        partials[1:] = others
        about = dict(n_classes=V, dtype=d, label_dtype="i64", total_classes=SHARDS * V)
        first = context.plan("vocab_parallel_cross_entropy_partials",
                             **about).bind(M, logits=x, labels=labels, partials=partials[0])
        second = context.plan(
            "vocab_parallel_cross_entropy", with_d_logits=1, in_place=1,
            **about).bind(M, logits=x, labels=labels, partials=partials, loss=loss, d_logits=x)

        def full():
            first()
            second()

        memory = nbytes(loss, partials) + second.workspace_bytes
        return Contender({"fwd": Pass(first, lambda: {"statistics": partials[0]}, nbytes(partials)),
                          "full": Pass(full, lambda: {"loss": loss, "dx": x}, memory,
                                       second.workspace_bytes)}, put_back(x))

    def liger():
        from liger_kernel.ops.vocab_parallel_cross_entropy import LigerVocabParallelCEFunction
        ones = torch.ones(1, M, device=x.device)

        def full():
            loss = LigerVocabParallelCEFunction.apply(x[None], own[None], None, -100, 0.0,
                                                      "pytorch", "global")
            return {"dx_of_one": torch.autograd.grad(loss, (x,), ones)[0], "loss_of_one": loss[0]}

        return Contender({"full": Pass(full)}, put_back(x))

    def in_f32(x):
        loss, d = losses(x.float(), labels, others)
        return loss, d.to(x.dtype)

    def by_formula(f):
        return Contender({"full": Pass(lambda: dict(zip(("loss", "dx"), f(x.detach()))))},
                         put_back(x))

    part = x.detach()[rows].double().requires_grad_()
    exact_statistics = statistics(part.detach(), labels[rows])
    exact_loss, exact_gradient = losses(part.detach(), labels[rows], others[:, rows])
    gradient_of_one = torch.autograd.grad(
        F.cross_entropy(part, own[rows], reduction="sum", ignore_index=-100), part)[0]
    loss_of_one = F.cross_entropy(part.detach(), own[rows], reduction="none", ignore_index=-100)
    check = {"statistics": worst(lambda: exact_statistics), "loss": worst(lambda: exact_loss),
             "dx": worst(lambda: exact_gradient), "loss_of_one": worst(lambda: loss_of_one),
             "dx_of_one": worst(lambda: gradient_of_one)}
    return Case("vocab_parallel_cross_entropy", (M, V), dtype, {"fwd": one, "full": 3 * one},
                {"ligerdsl": ligerdsl, "liger": liger, **by_compiler(in_f32, by_formula),
                 "torch": lambda: by_formula(in_f32)},
                {name: (lambda found, c=c: c(found[rows])) for name, c in check.items()})

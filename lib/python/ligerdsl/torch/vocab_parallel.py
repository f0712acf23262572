"""Cross-entropy whose classes are spread over ranks: every rank has the logits of its own."""

import torch
from torch.autograd import Function
from torch.autograd.graph import increment_version

from .. import ops as arrays
from .dispatch import call, choice, first_order, gradient, is_direct, operations, require_torch, wants_grad
from .losses import REDUCTIONS, report_labels

_REDUCTIONS = {name: REDUCTIONS[name] for name in ("none", "sum", "mean")}


class VocabParallelCrossEntropyFunction(Function):
    @staticmethod
    def forward(ctx, logits, labels, partials, numbers, in_place):
        loss, _ = operations(logits, labels, partials).vocab_parallel_cross_entropy(logits, labels, partials, **numbers)
        ctx.save_for_backward(logits, labels, partials)
        ctx.numbers, ctx.in_place = numbers, in_place
        return loss

    @staticmethod
    @first_order
    def backward(ctx, d_loss):
        report_labels()
        logits, labels, partials = ctx.saved_tensors
        inputs = (logits, labels, partials, gradient(d_loss, "vocab_parallel_cross_entropy"))
        if ctx.in_place and is_direct(*inputs):
            arrays.vocab_parallel_cross_entropy(*inputs, **ctx.numbers, with_d_logits=True, without_loss=True, d_logits=logits)
            increment_version(logits)
            return logits.detach(), None, None, None, None
        _, d_logits = operations(*inputs).vocab_parallel_cross_entropy(*inputs, **ctx.numbers, with_d_logits=True, without_loss=True)
        return d_logits, None, None, None, None


def vocab_parallel_partials(logits, labels, *, first_class=0, total_classes=0, ignore_index=-100, with_smoothing=False):
    """What a rank knows of each row from its own classes, f32: the largest logit, the sum of e^(logit - largest) of the classes other than the
    label, the label's logit or 0; with_smoothing, which label_smoothing needs, two more. No gradient: that of the loss has it all."""
    logits = logits.detach()
    return operations(logits, labels).vocab_parallel_cross_entropy_partials(
        logits, labels, ignore_index=ignore_index, first_class=first_class, total_classes=total_classes, with_smoothing=with_smoothing)


def merge_partials(partials):
    """The numbers of the whole vocabulary from those of shards, [P, ..., C] to [..., C]. Where all-reduces are wanted instead: the maximum of
    the first, M; the second times e^(first - M), the fourth plus the fifth times (first - M); and the sums of all but the first."""
    largest = partials[..., 0].amax(0)
    # Of no finite number: a rank whose logits are all -inf has a sum of 0, which stays.
    moved = torch.where(partials[..., 0] == -torch.inf, 0.0, partials[..., 0] - largest)
    sums = [(partials[..., 1] * moved.exp()).sum(0), partials[..., 2].sum(0)]
    if partials.shape[-1] == 5:
        sums += [(partials[..., 3] + partials[..., 4] * moved).sum(0), partials[..., 4].sum(0)]
    return torch.stack([largest, *sums], -1)


def _gathered(partials, group):
    import torch.distributed as dist
    everyone = partials.new_empty((dist.get_world_size(group), *partials.shape))
    dist.all_gather_into_tensor(everyone.view(-1), partials.reshape(-1), group=group)
    return everyone


def vocab_parallel_cross_entropy(logits, labels, partials=None, *, group=None, first_class=None, total_classes=None, shard=None,
                                 ignore_index=-100, reduction="mean", label_smoothing=0.0, shard_smoothing=False, smooth_others=False,
                                 in_place=False):
    """Cross-entropy of rows whose logits are this rank's classes, from `first_class` on, of `total_classes`; `labels` are of all
    classes, the same on all ranks. The loss is f32, and the same on all ranks; the gradient is that of this rank's logits.

    group: a process group, whose ranks have the shards in order; their numbers of rows, 3 or 5 of f32, are all-gathered. Where shards are of
    one size, first_class, total_classes and shard follow from it.
    partials: what vocab_parallel_partials gave on all ranks, [P, ..., C], exchanged by the caller, or merged, [..., C] (merge_partials).
    They need total_classes, unless this rank has the last shard and they are merged.
    Without either the logits are all there are.
    label_smoothing is over all classes; shard_smoothing: over those of the rank, whose loss is its own then, and `shard` its place in
    partials; smooth_others: over classes other than the label. in_place: backward writes the gradient over the logits, which nothing
    else may use then."""
    require_torch((logits, labels))
    world, rank = 1, 0
    if group is not None:
        if partials is not None:
            raise ValueError("vocab_parallel_cross_entropy: expected partials or group, got both")
        import torch.distributed as dist
        world, rank = dist.get_world_size(group), dist.get_rank(group)
    first_class = rank * logits.shape[-1] if first_class is None else first_class
    if total_classes is None:
        total_classes = 0 if partials is not None else world * logits.shape[-1] if group is not None else first_class + logits.shape[-1]
    of_rows = {"ignore_index": ignore_index, "first_class": first_class, "total_classes": total_classes}
    if partials is None:
        partials = vocab_parallel_partials(logits, labels, **of_rows, with_smoothing=label_smoothing > 0)
        if world > 1:
            partials = _gathered(partials, group)
    numbers = {**of_rows, "reduction": choice("reduction", reduction, _REDUCTIONS), "label_smoothing": label_smoothing,
               "shard_smoothing": shard_smoothing, "smooth_others": smooth_others, "shard": rank if shard is None else shard}
    if wants_grad(logits):
        return call(VocabParallelCrossEntropyFunction, logits, labels, partials.detach(), numbers, in_place)
    return operations(logits, labels, partials).vocab_parallel_cross_entropy(logits, labels, partials, **numbers)[0]

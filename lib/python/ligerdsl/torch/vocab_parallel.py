"""Cross-entropy with the classes distributed over ranks. Each rank has the logits of its
classes."""

import torch
from torch.autograd import Function
from torch.autograd.graph import increment_version

from .. import ops as arrays
from .dispatch import (call, choice, first_order, gradient, is_direct, operations, require_torch,
                       wants_grad)
from .losses import REDUCTIONS, report_labels

_REDUCTIONS = {name: REDUCTIONS[name] for name in ("none", "sum", "mean")}


class VocabParallelCrossEntropyFunction(Function):
    @staticmethod
    def forward(ctx, logits, labels, partials, numbers, in_place):
        loss, _ = operations(logits, labels, partials).vocab_parallel_cross_entropy(
            logits, labels, partials, **numbers)
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
            arrays.vocab_parallel_cross_entropy(*inputs, **ctx.numbers, with_d_logits=True,
                                                without_loss=True, d_logits=logits)
            increment_version(logits)
            return logits.detach(), None, None, None, None
        _, d_logits = operations(*inputs).vocab_parallel_cross_entropy(
            *inputs, **ctx.numbers, with_d_logits=True, without_loss=True)
        return d_logits, None, None, None, None


def vocab_parallel_partials(logits, labels, *, first_class=0, total_classes=0, ignore_index=-100,
                            with_smoothing=False):
    """Returns f32 statistics of each row over this rank's classes. They have no gradient.

    They are the largest logit, the sum of e^(logit - largest) over classes other than the label,
    and the label's logit or 0. with_smoothing adds two more, which label_smoothing needs. The
    loss's gradient is complete without theirs."""
    logits = logits.detach()
    return operations(logits, labels).vocab_parallel_cross_entropy_partials(
        logits, labels, ignore_index=ignore_index, first_class=first_class,
        total_classes=total_classes, with_smoothing=with_smoothing)


def merge_partials(partials):
    """Merges the statistics of shards into those of the whole vocabulary: [P, ..., C] to [..., C].

    To use all-reduces instead, take the maximum M of the first statistic. On each rank, d is first
    - M, or 0 if first is -inf. Sum second * e^d, third, fourth + fifth * d, and fifth over the
    ranks."""
    largest = partials[..., 0].amax(0)
    # If all logits of a rank are -inf, -inf - largest may be NaN. The rank's terms must stay 0.
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


def vocab_parallel_cross_entropy(logits, labels, partials=None, *, group=None, first_class=None,
                                 total_classes=None, shard=None, ignore_index=-100,
                                 reduction="mean", label_smoothing=0.0, shard_smoothing=False,
                                 smooth_others=False, in_place=False):
    """Cross-entropy if this rank has only a part of the classes.

    The loss is f32 and the same on all ranks. The gradient is with respect to this rank's logits.

    * logits: this rank's classes, from `first_class` on, of `total_classes`.
    * labels: over all classes, the same on all ranks.
    * group: a process group whose ranks have the shards in order. Their 3 or 5 f32 statistics per
      row are all-gathered. If all shards have one size, first_class, total_classes and shard are
      derived from the group.
    * partials: results of vocab_parallel_partials on all ranks, exchanged by the caller: [P, ...,
      C], or merged by merge_partials, [..., C]. They require total_classes, unless they are merged
      and this rank has the last shard. Without group and partials, the logits contain all classes.
    * label_smoothing: over all classes.
    * shard_smoothing: smooths over this rank's classes, so each rank has its own loss. `shard` is
      the rank's index in partials.
    * smooth_others: smooths over classes other than the label.
    * in_place: backward overwrites the logits with the gradient, so nothing else may use them."""
    require_torch((logits, labels))
    world, rank = 1, 0
    if group is not None:
        if partials is not None:
            raise ValueError("vocab_parallel_cross_entropy: expected partials or group, got both")
        import torch.distributed as dist
        world, rank = dist.get_world_size(group), dist.get_rank(group)
    first_class = rank * logits.shape[-1] if first_class is None else first_class
    if total_classes is None:
        total_classes = (0 if partials is not None else world * logits.shape[-1]
                         if group is not None else first_class + logits.shape[-1])
    of_rows = {"ignore_index": ignore_index, "first_class": first_class,
               "total_classes": total_classes}
    if partials is None:
        partials = vocab_parallel_partials(logits, labels, **of_rows,
                                           with_smoothing=label_smoothing > 0)
        if world > 1:
            partials = _gathered(partials, group)
    numbers = {**of_rows,
               "reduction": choice("reduction", reduction, _REDUCTIONS),
               "label_smoothing": label_smoothing,
               "shard_smoothing": shard_smoothing,
               "smooth_others": smooth_others,
               "shard": rank if shard is None else shard}
    if wants_grad(logits):
        return call(VocabParallelCrossEntropyFunction, logits, labels, partials.detach(), numbers,
                    in_place)
    return operations(logits, labels, partials).vocab_parallel_cross_entropy(logits, labels,
                                                                             partials, **numbers)[0]

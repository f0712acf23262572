"""Cross-entropy with classes sharded over ranks: in one process shard by shard, and on two
processes."""

import sys

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist
import torch.nn.functional as F

import ligerdsl
import ligerdsl.torch as lt
from processes import begin, end, spawn

LABELS = torch.tensor([[3, 0, -100], [9, 5, 7]])
BORDERS = (0, 4, 4 + 1, 10)  # 3 shards of 4, 1 and 5 classes


def reference(logits, labels, reduction, smoothing, smooth_others=False):
    smoothing = smoothing * 10 / 9 if smooth_others else smoothing
    loss = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction=reduction,
                           label_smoothing=smoothing)
    return loss.view(labels.shape) if reduction == "none" else loss


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_shards_in_one_process(reduction, smoothing, merged):
    logits = torch.randn(2, 3, 10)
    # Class 4 is the only class of the second shard.
    logits[0, 0, 4] = -torch.inf if smoothing == 0 else -30
    shards = [logits[..., a:b].clone().requires_grad_() for a, b in zip(BORDERS, BORDERS[1:])]
    where = [dict(first_class=a, total_classes=10) for a in BORDERS[:-1]]
    partials = torch.stack([lt.vocab_parallel_partials(x, LABELS, with_smoothing=smoothing > 0, **w)
                            for x, w in zip(shards, where)])
    assert not partials.requires_grad
    if merged:
        partials = lt.merge_partials(partials)
    whole = logits.double().requires_grad_()
    expected = reference(whole, LABELS, reduction, smoothing)
    upstream = torch.randn(expected.shape)
    gradient, = torch.autograd.grad(expected, whole, upstream.double())
    losses = [lt.vocab_parallel_cross_entropy(x, LABELS, partials, reduction=reduction,
                                              label_smoothing=smoothing,
                                              **w) for x, w in zip(shards, where)]
    for loss in losses:
        assert torch.equal(loss, losses[0])
        torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    found = torch.cat(
        [torch.autograd.grad(loss, x, upstream)[0] for loss, x in zip(losses, shards)], -1)
    torch.testing.assert_close(found.double(), gradient, rtol=1e-4, atol=1e-6)


def test_embedding_of_shards():
    """Each rank has some rows of the table.

    The sum over ranks is the embedding, and each rank gets the gradient of its rows.
    """
    table = torch.randn(10, 6, requires_grad=True)
    indices = torch.tensor([[3, 0, 9], [9, 4, 7]])
    shards = [table[a:b].detach().requires_grad_() for a, b in zip(BORDERS, BORDERS[1:])]
    parts = [lt.embedding(indices, w, padding_idx=-3, first_row=a, total_rows=10)
             for w, a in zip(shards, BORDERS)]
    expected = F.embedding(indices, table, padding_idx=-3)
    assert torch.equal(sum(parts), expected)
    upstream = torch.randn_like(expected)
    found = torch.cat([torch.autograd.grad(part, w, upstream)[0] for part, w in zip(parts, shards)])
    torch.testing.assert_close(found, torch.autograd.grad(expected, table, upstream)[0])
    with pytest.raises(ligerdsl.LabelError, match="index out of bounds at position 1"):
        lt.embedding(torch.tensor([0, 10]), shards[0], total_rows=10)


def test_forms_of_smoothing():
    logits = torch.randn(2, 3, 10, requires_grad=True)
    loss = lt.vocab_parallel_cross_entropy(logits, LABELS, label_smoothing=0.1, smooth_others=True)
    expected = reference(logits, LABELS, "mean", 0.1, True)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(torch.autograd.grad(loss, logits)[0],
                               torch.autograd.grad(expected, logits)[0])


def test_in_place():
    logits = torch.randn(2, 3, 10)
    once, twice = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    found, = torch.autograd.grad(lt.vocab_parallel_cross_entropy(once * 1, LABELS), once)
    middle = twice * 1
    loss = lt.vocab_parallel_cross_entropy(middle, LABELS, in_place=True)
    other, = torch.autograd.grad(loss, twice, retain_graph=True)
    assert torch.equal(found, other)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, twice)


def test_bad_input():
    logits = torch.randn(2, 3, 10)
    with pytest.raises(ValueError, match="partials or group, got both"):
        lt.vocab_parallel_cross_entropy(logits, LABELS, torch.zeros(1, 2, 3, 3), group=object())
    with pytest.raises(ValueError, match="reduction: expected one of none, sum, mean"):
        lt.vocab_parallel_cross_entropy(logits, LABELS, reduction="batchmean")
    with pytest.raises(ligerdsl.Error):
        lt.vocab_parallel_cross_entropy(logits, LABELS, torch.zeros(2, 2, 3, 4))
    with pytest.raises(ligerdsl.LabelError, match="row 1"):
        lt.vocab_parallel_cross_entropy(logits, torch.tensor([[0, 10, 1], [0, 1, 2]]))


def work(rank, port):
    begin(rank, port, sys.modules[__name__])
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 10)
    for smoothing in (0.0, 0.1):
        whole, mine = (logits.clone().requires_grad_(),
                       logits[..., 5 * rank:5 * rank + 5].clone().requires_grad_())
        loss = lt.vocab_parallel_cross_entropy(mine, LABELS, group=dist.group.WORLD,
                                               label_smoothing=smoothing)
        expected = reference(whole, LABELS, "mean", smoothing)
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
        found, = torch.autograd.grad(loss, mine)
        gradient, = torch.autograd.grad(expected, whole)
        torch.testing.assert_close(found, gradient[..., 5 * rank:5 * rank + 5], rtol=1e-5,
                                   atol=1e-6)
    # With shard_smoothing, each rank distributes the smoothing over its own classes only.
    mine = logits[..., 5 * rank:5 * rank + 5].clone().requires_grad_()
    loss = lt.vocab_parallel_cross_entropy(mine, LABELS, group=dist.group.WORLD,
                                           label_smoothing=0.1, shard_smoothing=True,
                                           reduction="none")
    logs = logits.log_softmax(-1)
    valid = LABELS != -100
    picked = logs.gather(-1, LABELS.clamp(min=0)[..., None])[..., 0]
    expected = -0.9 * picked - 0.1 * logs[..., 5 * rank:5 * rank + 5].mean(-1)
    torch.testing.assert_close(loss, torch.where(valid, expected, 0.0), rtol=1e-5, atol=1e-6)
    end()


def test_two_processes():
    spawn(work)

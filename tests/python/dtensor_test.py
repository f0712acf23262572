"""Compares functions on DTensors of two processes (sharded rows, replicated parameters) with whole
tensors."""

import importlib.util
import os
import sys

os.environ["LIGER_KERNEL_IMPL"] = "ligerdsl"

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist

tensor = pytest.importorskip("torch.distributed.tensor")

import cases
import ligerdsl.torch as lt
from cases import CASES, LABELS, inputs_of, outputs_of
from processes import COUNT, KIND, begin, end, spawn

# Functions for which ligerdsl/torch/sharding.py has no rule.
LEAVE = {"vocab_parallel_cross_entropy", "fused_linear_jsd", "grouped_linear",
         "grouped_linear of columns", "attention_varlen", "linear", "linear and its activation",
         "linear and a ReLU", "matmul", "matmul of batches"}
SUMS = {
    "cross_entropy, sum": (lambda x: lt.cross_entropy(x, spread(LABELS), reduction="sum"),
                           lambda: [torch.randn(2, 3, 10)]),
    "cross_entropy, none": (lambda x: lt.cross_entropy(x, spread(LABELS), reduction="none"),
                            lambda: [torch.randn(2, 3, 10)]),
    "fused_linear_cross_entropy, sum": (
        lambda x, w: lt.fused_linear_cross_entropy(x, w, spread(LABELS), reduction="sum"),
        lambda: [torch.randn(2, 3, 16), torch.randn(10, 16)]),
    "kl_div, sum": (lambda x: lt.kl_div(x, spread(TARGET), reduction="sum"),
                    lambda: [torch.randn(2, 3, 10).log_softmax(-1)]),
}
TARGET = torch.softmax(torch.arange(60.0).view(2, 3, 10).sin(), -1)
mesh = None


def spread(whole):
    """Returns the tensor whole without a mesh, else sharded by rows."""
    return whole if mesh is None else tensor.distribute_tensor(whole, mesh, [tensor.Shard(0)])


def wants_rows(name, index, t, first):
    """Returns true if the tensor has the rows of the first one; parameters are replicated."""
    return t.dim() > 1 and t.shape[0] == first.shape[0] and not (
        name.startswith("fused_linear") and index == 1)


def compare(name, ours, wanted, others, sharded):
    global mesh
    mesh = None
    outputs = outputs_of(ours(*wanted, *others))
    upstream = [torch.randn_like(o) for o in outputs]
    expected = torch.autograd.grad(outputs, wanted, upstream)
    mesh = dist.device_mesh.init_device_mesh(KIND, (COUNT,))
    place = lambda t, rows: tensor.distribute_tensor(
        t.detach(), mesh, [tensor.Shard(0) if rows else tensor.Replicate()])
    leaves = [place(t, s).requires_grad_() for t, s in zip(wanted, sharded)]
    rest = [place(t, s) for t, s in zip(others, sharded[len(wanted):])]
    found = outputs_of(ours(*leaves, *rest))
    for one, other in zip(found, outputs):
        torch.testing.assert_close(one.full_tensor(), other, rtol=1e-5, atol=1e-5, msg=name)
    whole = [tensor.distribute_tensor(
        u, mesh, [p if p.is_shard() else tensor.Replicate() for p in o.placements])
             for u, o in zip(upstream, found)]
    gradients = torch.autograd.grad(found, leaves, whole)
    for one, other in zip(gradients, expected):
        torch.testing.assert_close(one.full_tensor(), other, rtol=1e-4, atol=1e-4, msg=name)
    return found, gradients


def all_functions():
    for name, (ours, _, _, _) in CASES.items():
        if name in LEAVE:
            continue
        wanted, others = inputs_of(name)
        sharded = [False, True] if name == "embedding" else [
            wants_rows(name, i, t, wanted[0]) for i, t in enumerate((*wanted, *others))]
        compare(name, ours, wanted, others, sharded)


def stays_in_shards():
    """Rows are not gathered, and gradients of parameters are partial sums."""
    # Two processes divide 3 rows into shards of 2 and 1.
    x, w, b = torch.randn(3, 5, 40), torch.randn(40), torch.randn(40)
    for name, function, inputs in (("rms_norm", lt.rms_norm, [x, w]),
                                   ("layer_norm", lt.layer_norm, [x, w, b]),
                                   ("bias_add", lt.bias_add, [x, b])):
        found, gradients = compare(name, function, [t.clone().requires_grad_() for t in inputs], [],
                                   [True, False, False])
        assert (found[0].placements == (tensor.Shard(0),)
                and gradients[0].placements == (tensor.Shard(0),)), name
        assert all(each.placements[0].is_partial() for each in gradients[1:]), name
    for name, (function, inputs) in SUMS.items():
        found, gradients = compare(name, function, [t.requires_grad_() for t in inputs()], [],
                                   [True, False])
        assert found[0].placements[0].is_partial() == name.endswith("sum"), name
        assert gradients[0].placements == (tensor.Shard(0),), name
    gate, up = (
        tensor.distribute_tensor(torch.randn(3, 8), mesh, [tensor.Shard(1)]) for _ in range(2))
    assert lt.swiglu(gate, up).placements == (tensor.Shard(1),)  # like tensor-parallel layers
    q = tensor.distribute_tensor(torch.randn(2, 5, 4, 16), mesh, [tensor.Shard(2)])
    table = tensor.distribute_tensor(torch.randn(5, 16), mesh, [tensor.Replicate()])
    assert lt.rope(q, None, table, table)[0].placements == (tensor.Shard(2),)


def flags_are_distinguished():
    """Flags decide which results exist, so torch must not reuse a rule cached for other flags."""
    x, w = (tensor.distribute_tensor(torch.randn(4, 8), mesh, [tensor.Shard(0)]),
            tensor.distribute_tensor(torch.randn(8), mesh, [tensor.Replicate()]))
    with torch.no_grad():
        y = lt.rms_norm(x, w)
    rows, rstd = torch.ops.ligerdsl.rms_norm_forward(x, w, with_rstd=True)
    assert rstd.shape == (4,) and rstd.placements == (tensor.Shard(0),)
    torch.testing.assert_close(rows.full_tensor(), y.full_tensor())
    d_x, d_w = torch.ops.ligerdsl.rms_norm_backward(rows, x, w, rstd)
    assert d_w.numel() == 0 and d_x.shape == (4, 8)
    d_x, d_w = torch.ops.ligerdsl.rms_norm_backward(rows, x, w, rstd, without_d_x=True,
                                                    d_weight_dtype=torch.float32)
    assert d_x.numel() == 0 and d_w.shape == (8,) and d_w.placements[0].is_partial()
    groups = (tensor.distribute_tensor(torch.randn(2, 8, 3), mesh, [tensor.Replicate()]),
              tensor.distribute_tensor(torch.tensor([0, 2, 4]), mesh, [tensor.Replicate()]))
    for name, call in (("dropout", lambda: lt.dropout(x)),
                       ("grouped_linear", lambda: lt.grouped_linear(x, *groups, transposed=False))):
        try:
            call()
        except NotImplementedError as error:
            assert "sharding strategy" in str(error), name
        else:
            raise AssertionError(f"{name} took a DTensor")


def functions_of_liger():
    """Liger's functions on DTensors: norms gather, gates stay sharded, and both accept a DTensor
    together with a plain tensor."""
    if (importlib.util.find_spec("triton") is None
        or importlib.util.find_spec("liger_kernel") is None):
        return
    import ligerdsl.liger.hook  # noqa: F401
    from liger_kernel.ops import LigerRMSNormFunction, LigerSiLUMulFunction
    x, w, d_y = torch.randn(2, 3, 8), torch.randn(8), torch.randn(2, 3, 8)
    whole = x.clone().requires_grad_()
    expected = LigerRMSNormFunction.apply(whole, w, 1e-6)
    expected.backward(d_y.clone())
    shards = tensor.distribute_tensor(x, mesh, [tensor.Shard(2)]).requires_grad_()
    y = LigerRMSNormFunction.apply(shards, w, 1e-6)
    torch.testing.assert_close(y, expected)
    y.backward(tensor.distribute_tensor(d_y, mesh, [tensor.Shard(2)]))
    torch.testing.assert_close(shards.grad.full_tensor(), whole.grad)
    a, b = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    out = LigerSiLUMulFunction.apply(tensor.distribute_tensor(a, mesh, [tensor.Shard(2)]), b)
    assert out.placements == (tensor.Shard(2),)
    torch.testing.assert_close(out.full_tensor(), torch.nn.functional.silu(a) * b)


def work(rank, port):
    begin(rank, port, cases, sys.modules[__name__])
    torch.manual_seed(0)
    all_functions()
    stays_in_shards()
    flags_are_distinguished()
    functions_of_liger()
    end()


def test_two_processes():
    spawn(work)

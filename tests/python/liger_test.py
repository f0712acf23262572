"""Liger-Kernel's own functions and modules with LIGER_KERNEL_IMPL=ligerdsl, beside torch."""

import importlib
import os

os.environ["LIGER_KERNEL_IMPL"] = "ligerdsl"

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

import ligerdsl
import ligerdsl.liger
import ligerdsl.liger.hook  # noqa: F401  before Liger

liger = pytest.importorskip("liger_kernel.transformers")
functional = pytest.importorskip("liger_kernel.transformers.functional")

F = torch.nn.functional


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def compare(ours, reference, *inputs, calls, rtol=1e-4, atol=1e-5):
    """Outputs and gradients; `calls`: the library's operation that must have run. Liger's Functions may overwrite their arguments."""
    copies = [t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t for t in inputs]
    before = ligerdsl.calls(calls)
    outputs, expected = ours(*[t * 1 if isinstance(t, torch.Tensor) and t.requires_grad else t for t in copies]), reference(*inputs)
    assert ligerdsl.calls(calls) > before
    outputs, expected = (each if isinstance(each, tuple) else (each,) for each in (outputs, expected))
    for one, other in zip(outputs, expected):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)
    upstream = [torch.randn_like(each) for each in expected]
    wanted = [[t for t in each if isinstance(t, torch.Tensor) and t.requires_grad] for each in (copies, inputs)]
    found = torch.autograd.grad(outputs, wanted[0], [u.clone() for u in upstream])
    for one, other in zip(found, torch.autograd.grad(expected, wanted[1], upstream)):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


def test_coverage_says_what_is_whose():
    table = ligerdsl.liger.coverage()
    assert table["LigerRMSNormFunction"] == "ligerdsl" and table["LigerFusedLinearCrossEntropyFunction"] == "ligerdsl"
    assert table["LigerMultiTokenAttentionFunction"] == "liger"
    assert sum(owner == "ligerdsl" for owner in table.values()) >= 18


def test_norms():
    compare(lambda x, w: functional.liger_rms_norm(x, w, 1e-6), lambda x, w: F.rms_norm(x, (16,), w, 1e-6), leaf(2, 3, 16), leaf(16),
            calls="rms_norm_forward")
    compare(lambda x, w, b: functional.liger_layer_norm(x, w, b, 1e-5), lambda x, w, b: F.layer_norm(x, (16,), w, b), leaf(2, 3, 16), leaf(16),
            leaf(16), calls="layer_norm_forward")
    compare(lambda x, r, w: functional.liger_fused_add_rms_norm(x, r, w, 1e-6), lambda x, r, w: (F.rms_norm(x + r, (16,), w, 1e-6), x + r),
            leaf(5, 16), leaf(5, 16), leaf(16), calls="fused_add_rms_norm_forward")
    gemma = liger.LigerRMSNorm(16, offset=1.0, casting_mode="gemma", in_place=False)
    x = torch.randn(3, 16)
    torch.testing.assert_close(gemma(x), F.rms_norm(x, (16,), gemma.weight + 1, 1e-6))


def test_gated():
    compare(functional.liger_swiglu, lambda a, b: F.silu(a) * b, leaf(2, 3, 16), leaf(2, 3, 16), calls="swiglu_forward")
    compare(functional.liger_geglu, lambda a, b: F.gelu(a, approximate="tanh") * b, leaf(6, 16), leaf(6, 16), calls="geglu_forward")


def test_rope():
    angles = torch.rand(1, 5, 4) * 6
    cos, sin = (torch.cat([t, t], -1) for t in (angles.cos(), angles.sin()))
    half = lambda t: torch.cat([-t[..., 4:], t[..., :4]], -1)
    compare(lambda q, k: functional.liger_rope(q, k, cos, sin), lambda q, k: tuple(t * cos[:, None] + half(t) * sin[:, None] for t in (q, k)),
            leaf(2, 4, 5, 8), leaf(2, 2, 5, 8), calls="rope")


def test_rope_of_complex_numbers():
    from liger_kernel.ops import LigerLlama4RopeFunction
    turns = torch.polar(torch.ones(5, 4), torch.rand(5, 4) * 6)
    turned = lambda t: torch.view_as_real(torch.view_as_complex(t.unflatten(-1, (4, 2))) * turns[:, None]).flatten(-2)
    compare(lambda q, k: LigerLlama4RopeFunction.apply(q, k, turns[None]), lambda q, k: (turned(q), turned(k)), leaf(2, 5, 4, 8), leaf(2, 5, 2, 8),
            calls="rope")


def test_softmax():
    compare(functional.liger_softmax, lambda x: torch.softmax(x, -1), leaf(3, 16), calls="softmax_forward")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction):
    labels = torch.tensor([0, 6, -100, 3])
    compare(lambda x: functional.liger_cross_entropy(x, labels, reduction=reduction, label_smoothing=0.1),
            lambda x: F.cross_entropy(x, labels, reduction=reduction, label_smoothing=0.1), leaf(4, 7), calls="cross_entropy")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_fused_linear_cross_entropy(reduction):
    labels = torch.tensor([0, 6, -100, 3])
    compare(lambda x, w, b: functional.liger_fused_linear_cross_entropy(x, w, labels, b, reduction=reduction),
            lambda x, w, b: F.cross_entropy(x @ w.T + b, labels, reduction=reduction), leaf(4, 8), leaf(7, 8), leaf(7),
            calls="fused_linear_cross_entropy")


def test_more_results():
    logits, labels = leaf(4, 7), torch.tensor([0, 6, -100, 3])
    out = functional.liger_cross_entropy(logits.detach(), labels, lse_square_scale=0.1, return_z_loss=True, return_token_accuracy=True,
                                         return_predicted_tokens=True)
    valid = labels != -100
    torch.testing.assert_close(out.z_loss, 0.1 * logits.logsumexp(-1)[valid].square().mean())
    assert torch.equal(out.predicted_tokens[valid], logits.argmax(-1)[valid]) and out.token_accuracy.shape == ()


def test_labels_out_of_bounds_are_an_assertion():
    with pytest.raises(AssertionError, match="out of bounds"):
        functional.liger_cross_entropy(torch.randn(2, 3), torch.tensor([0, 3]))


@pytest.mark.filterwarnings("ignore:reduction")
def test_divergences():
    p, q = torch.softmax(torch.randn(5, 9), -1), torch.softmax(torch.randn(5, 9), -1)
    compare(lambda x: functional.liger_kl_div(x, q), lambda x: F.kl_div(x, q, reduction="mean"), p.log().requires_grad_(),
            calls="kl_div")
    compare(lambda x: functional.liger_tvd(x, q), lambda x: (x - q).abs().sum() / 90, p.clone().requires_grad_(), calls="tvd")


def test_others():
    compare(lambda x, w, b: functional.liger_group_norm(x, w, b, 8, 4, 1e-5), lambda x, w, b: F.group_norm(x, 4, w, b), leaf(2, 8, 5), leaf(8), leaf(8),
            calls="group_norm_forward")
    compare(lambda x, a, w, b: functional.liger_dyt(x, a, w, b), lambda x, a, w, b: w * torch.tanh(a * x) + b, leaf(3, 8), leaf(1), leaf(8), leaf(8),
            calls="dyt_forward")
    compare(functional.liger_sparsemax, lambda x: ligerdsl.torch.sparsemax(x), leaf(3, 8), calls="sparsemax_forward")


def test_dispatched_operations():
    backends = pytest.importorskip("liger_kernel.backends")
    x, w = torch.randn(3, 16), torch.randn(16)
    before = ligerdsl.calls("rms_norm_forward")
    torch.testing.assert_close(backends.dispatch("rms_norm", x, w, 1e-6), F.rms_norm(x, (16,), w, 1e-6))
    assert ligerdsl.calls("rms_norm_forward") == before + 1
    with pytest.raises(ValueError, match="only mode='default'"):
        backends.dispatch("softmax", x, mode="other")
    with pytest.warns(UserWarning, match="ligerdsl has no fused_linear_jsd"):
        importlib.import_module("liger_kernel.backends.dispatch").resolve_impl("fused_linear_jsd")
    assert ligerdsl.liger.coverage()["fused_linear_jsd"] == "liger"

"""Compares values and gradients of every function with torch in float64."""

import pytest

torch = pytest.importorskip("torch")

import ligerdsl
import ligerdsl.torch as lt
from cases import CASES, inputs_of, outputs_of

F = torch.nn.functional
TOLERANCE = {torch.float32: dict(rtol=2e-4, atol=2e-5), torch.bfloat16: dict(rtol=3e-2, atol=3e-2),
             torch.float16: dict(rtol=4e-3, atol=4e-3)}


def run(function, wanted, others, upstream=None):
    """Returns outputs and gradients; `upstream` is the gradient of each output."""
    outputs = outputs_of(function(*wanted, *others))
    if upstream is None:
        upstream = [torch.randn_like(output) for output in outputs]
    gradients = torch.autograd.grad(outputs, wanted,
                                    [u.to(o.dtype) for u, o in zip(upstream, outputs)])
    return outputs, gradients, upstream


def compare(name, wanted, others, dtype):
    ours, reference, _, _ = CASES[name]
    outputs, gradients, upstream = run(ours, wanted, others)
    exact = [t.detach().double().requires_grad_() for t in wanted]
    expected, expected_gradients, _ = run(
        reference, exact, [t.double() if t.is_floating_point() else t for t in others], upstream)
    for ours_, expected_ in zip([*outputs, *gradients], [*expected, *expected_gradients]):
        assert ours_.shape == expected_.shape
        torch.testing.assert_close(ours_.double(), expected_, **TOLERANCE[dtype])
    for gradient, tensor in zip(gradients, wanted):
        assert gradient.dtype == tensor.dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_against_float64(name, dtype):
    compare(name, *inputs_of(name, dtype), dtype)


@pytest.mark.parametrize("name",
                         [name for name in CASES if "rope" not in name and "group" not in name
                                                    and "embedding" not in name])
def test_rows_with_gaps(name):
    """The inputs are rows of a wider matrix."""
    wanted, others = inputs_of(name)
    first = wanted[0].detach()
    wide = torch.randn(*first.shape[:-1], first.shape[-1] + 24)
    wide[..., :first.shape[-1]] = first
    wanted[0] = wide[..., :first.shape[-1]].requires_grad_()
    compare(name, wanted, others, torch.float32)


@pytest.mark.parametrize("name", CASES)
def test_without_gradients(name):
    ours = CASES[name][0]
    wanted, others = inputs_of(name)
    expected = outputs_of(ours(*wanted, *others))
    with torch.no_grad():
        outputs = outputs_of(ours(*wanted, *others))
    for output, with_gradient in zip(outputs, expected):
        assert not output.requires_grad
        torch.testing.assert_close(output, with_gradient.detach(), rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if len(case[2]()) > 1])
def test_each_gradient_alone(name):
    """If all other inputs are frozen, the gradient of an input stays the same."""
    ours = CASES[name][0]
    wanted, others = inputs_of(name)
    _, expected, upstream = run(ours, wanted, others)
    for i, tensor in enumerate(wanted):
        alone = [t.detach() for t in wanted]
        alone[i].requires_grad_()
        outputs = outputs_of(ours(*alone, *others))
        used = [(o, u) for o, u in zip(outputs, upstream) if o.requires_grad]
        gradient, = torch.autograd.grad([o for o, _ in used], [alone[i]], [u for _, u in used])
        torch.testing.assert_close(gradient, expected[i], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_an_expanded_gradient(name):
    """The upstream gradient of sum() is one expanded element."""
    ours, reference, _, _ = CASES[name]
    wanted, others = inputs_of(name)
    sum(output.sum() for output in outputs_of(ours(*wanted, *others))).backward()
    exact = [t.detach().double().requires_grad_() for t in wanted]
    total = sum(o.sum() for o in outputs_of(reference(
        *exact, *[t.double() if t.is_floating_point() else t for t in others])))
    for tensor, gradient in zip(wanted, torch.autograd.grad(total, exact)):
        torch.testing.assert_close(tensor.grad.double(), gradient, rtol=1e-3, atol=1e-4)


def test_only_one_of_two_outputs_is_used():
    for function, tensors in ((lt.fused_add_rms_norm, 1), (lt.fused_add_layer_norm, 1)):
        for used in (0, 1):
            x, r, w = (torch.randn(4, 8, requires_grad=True), torch.randn(4, 8),
                       torch.randn(8, requires_grad=True))
            function(x, r, w)[used].square().sum().backward()
            exact = x.detach().double().requires_grad_()
            total = exact + r
            normalised = (
                F.rms_norm(total, (8,), w.double(), 1e-6) if function is lt.fused_add_rms_norm
                else F.layer_norm(total, (8,), w.double()))
            (normalised, total)[used].square().sum().backward()
            torch.testing.assert_close(x.grad.double(), exact.grad, rtol=1e-4, atol=1e-5)
            assert (w.grad is None) == (used == 1)


def test_in_place_gradients_reuse_memory():
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    d_y = torch.randn(4, 8)
    expected = torch.autograd.grad(lt.rms_norm(x, w), (x, w), d_y)
    given = d_y.clone()
    d_x, d_w = torch.autograd.grad(lt.rms_norm(x, w, in_place=True), (x, w), given)
    assert d_x.data_ptr() == given.data_ptr() and given._version > 0
    torch.testing.assert_close(d_x, expected[0], rtol=0, atol=0)
    torch.testing.assert_close(d_w, expected[1], rtol=0, atol=0)


def test_gated_in_place():
    gate, up = (torch.randn(4, 8).requires_grad_() for _ in range(2))
    d_out = torch.randn(4, 8)
    expected = torch.autograd.grad(lt.swiglu(gate, up), (gate, up), d_out)
    a, b = gate * 1, up * 1
    out = lt.swiglu(a, b, in_place=True)
    found = torch.autograd.grad(out, (gate, up), d_out, retain_graph=True)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="a second backward is not possible with in_place=True"):
        torch.autograd.grad(out, (gate, up), d_out)


def test_cross_entropy_in_place():
    logits, labels = torch.randn(5, 7, requires_grad=True), torch.tensor([0, 6, 2, -100, 1])
    expected, = torch.autograd.grad(3 * lt.cross_entropy(logits, labels), logits)
    copy = logits * 1
    loss = lt.cross_entropy(copy, labels, in_place=True)
    found, = torch.autograd.grad(3 * loss, logits, retain_graph=True)
    torch.testing.assert_close(found, expected)
    with pytest.raises(ligerdsl.NotSupported, match="second backward"):
        torch.autograd.grad(loss, logits)


def test_more_results_of_a_loss():
    logits, labels = torch.randn(5, 7, requires_grad=True), torch.tensor([0, 6, 2, -100, 1])
    out = lt.cross_entropy(logits, labels, lse_square_scale=0.1, with_z_loss=True,
                           with_accuracy=True, with_predictions=True, with_entropy=True)
    valid = labels != -100
    predictions = logits.argmax(-1)
    assert torch.equal(out.predictions[valid], predictions[valid])
    torch.testing.assert_close(out.accuracy, (predictions == labels)[valid].float().mean())
    lse = logits.logsumexp(-1)[valid]
    torch.testing.assert_close(out.z_loss, 0.1 * lse.square().mean())
    torch.testing.assert_close(out.loss,
                               F.cross_entropy(logits, labels) + 0.1 * lse.square().mean())
    probabilities = logits.double().softmax(-1)
    entropy = -(probabilities * probabilities.log()).sum(-1)
    torch.testing.assert_close(out.entropy[valid].double(), entropy[valid], rtol=1e-5, atol=1e-6)
    found, = torch.autograd.grad(out.loss + 2 * out.entropy[valid].sum(), logits)
    exact = F.cross_entropy(logits, labels) + 0.1 * lse.square().mean() + 2 * entropy[valid].sum()
    torch.testing.assert_close(found, torch.autograd.grad(exact, logits)[0], rtol=1e-4, atol=1e-5)
    assert not out.z_loss.requires_grad and not out.accuracy.requires_grad


def head(rows=6, hidden=16, classes=10):
    return (torch.randn(rows, hidden, requires_grad=True),
            torch.randn(classes, hidden, requires_grad=True), torch.randint(0, classes, (rows,)))


@pytest.mark.parametrize("count", [3, torch.tensor(3)])
def test_number_of_items(count):
    x, w, labels = head()
    loss = lt.fused_linear_cross_entropy(x, w, labels, num_items=count)
    found = torch.autograd.grad(2 * loss, (x, w))
    exact = F.cross_entropy(x @ w.T, labels, reduction="sum") / 3
    torch.testing.assert_close(loss, exact)
    for one, other in zip(found, torch.autograd.grad(2 * exact, (x, w))):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_gradient_scale():
    """Without the scale, f16 gradients of a small loss underflow to 0."""
    x, w, labels = head()
    x, w = x.detach().half().requires_grad_(), w.detach().half().requires_grad_()
    scale = torch.tensor(65536.0)
    loss = lt.fused_linear_cross_entropy(x, w, labels, num_items=10**7, grad_scale=scale)
    found = torch.autograd.grad(loss * scale, (x, w))
    exact = F.cross_entropy(x.double() @ w.double().T, labels, reduction="sum") / 1e7 * 65536
    for one, other in zip(found, torch.autograd.grad(exact, (x, w))):
        torch.testing.assert_close(one.double(), other.double(), rtol=2e-2, atol=1e-4)


def test_fused_head_gives_its_gradients_once():
    x, w, labels = head()
    loss = lt.fused_linear_cross_entropy(x, w, labels)
    loss.backward(retain_graph=True)
    with pytest.raises(ligerdsl.NotSupported, match="second backward"):
        loss.backward()


def test_frozen_head_makes_no_gradient_of_it():
    x, w, labels = head()
    w.requires_grad_(False)
    before = ligerdsl.calls("fused_linear_cross_entropy")
    lt.fused_linear_cross_entropy(x, w, labels).backward()
    assert w.grad is None and ligerdsl.calls("fused_linear_cross_entropy") == before + 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
# `mean` computes gradients in the forward pass, `none` in the backward pass.
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_ignored_rows_of_the_fused_head_may_hold_anything(dtype, reduction, value):
    x, w, labels = head()
    labels[1::3] = -100
    results = []
    for content in (0.0, value):
        rows = x.detach().to(dtype)
        rows[1::3] = content
        wanted = rows.requires_grad_(), w.detach().to(dtype).requires_grad_()
        loss = lt.fused_linear_cross_entropy(*wanted, labels, reduction=reduction)
        results.append([loss, *torch.autograd.grad(loss.sum(), wanted)])
    for zeros, poisoned in zip(*results):
        assert torch.equal(zeros, poisoned)


def test_limit_of_the_workspace():
    x, w, labels = head()
    with pytest.raises(ligerdsl.InvalidArgument, match="max_workspace_bytes"):
        lt.fused_linear_cross_entropy(x, w, labels, max_workspace_bytes=1)
    lt.config.max_workspace_bytes = 1
    try:
        with pytest.raises(ligerdsl.InvalidArgument, match="max_workspace_bytes"):
            lt.fused_linear_cross_entropy(x, w, labels)
    finally:
        lt.config.max_workspace_bytes = None


def test_autocast():
    """Norms keep their input's dtype; the fused lm_head computes in autocast's dtype, with an f32
    weight."""
    x, w, labels = head(hidden=32)
    with torch.autocast("cpu", torch.bfloat16):
        assert lt.rms_norm(x).dtype == torch.float32
        loss = lt.fused_linear_cross_entropy(x, w, labels)
    assert loss.dtype == torch.float32
    found = torch.autograd.grad(loss, (x, w))
    expected = torch.autograd.grad(F.cross_entropy(x @ w.T, labels), (x, w))
    for one, other in zip(found, expected):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=5e-2, atol=2e-2)


def test_main_grad_of_groups():
    x, offsets = torch.randn(9, 12, requires_grad=True), torch.tensor([0, 4, 4, 9])
    for transposed, shape in ((True, (3, 10, 12)), (False, (3, 12, 10))):
        w = torch.nn.Parameter(torch.randn(shape))
        expected, = torch.autograd.grad(
            lt.grouped_linear(x, w, offsets, transposed=transposed).square().sum(), w)
        lt.config.main_grad = True
        try:
            w.main_grad = torch.ones_like(w)
            lt.grouped_linear(x, w, offsets, transposed=transposed).square().sum().backward()
        finally:
            lt.config.main_grad = False
        torch.testing.assert_close(w.main_grad, expected + 1)
        assert w.grad is None and w.grad_added_to_main_grad


def test_groups_under_autocast():
    x, w, offsets = torch.randn(9, 12), torch.randn(2, 10, 12), torch.tensor([0, 4, 9])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = lt.grouped_linear(x, w, offsets)
    assert torch.equal(y, lt.grouped_linear(x.bfloat16(), w.bfloat16(), offsets))


def test_gradients_of_groups_under_autocast():
    """The parameter's gradient has its own dtype, or is added to main_grad."""
    x, offsets = torch.randn(9, 12), torch.tensor([0, 4, 9])
    w = torch.nn.Parameter(torch.randn(2, 10, 12))
    lt.config.main_grad = True
    try:
        for summed in (False, True):
            if summed:
                w.main_grad = torch.ones_like(w)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = lt.grouped_linear(x, w, offsets)
            y.sum().backward()
            found = w.main_grad - 1 if summed else w.grad
            expected = torch.stack([x[first:last].bfloat16().float().sum(0).expand(10, 12)
                                    for first, last in ((0, 4), (4, 9))])
            assert found.dtype == torch.float32
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
            assert summed == hasattr(w, "grad_added_to_main_grad")
            w.grad = None
    finally:
        lt.config.main_grad = False


def test_main_grad():
    x, w, b = (torch.randn(6, 16, requires_grad=True), torch.nn.Parameter(torch.randn(16)),
               torch.nn.Parameter(torch.randn(16)))
    expected = torch.autograd.grad(lt.layer_norm(x, w, b).square().sum(), (w, b))
    lt.config.main_grad = True
    try:
        for parameter in (w, b):
            parameter.main_grad = torch.ones(16)
        lt.layer_norm(x, w, b).square().sum().backward()
        for parameter, gradient in zip((w, b), expected):
            torch.testing.assert_close(parameter.main_grad, gradient + 1)
            assert parameter.grad is None and parameter.grad_added_to_main_grad
        x, w, labels = head()
        w = torch.nn.Parameter(w.detach())
        gradient, = torch.autograd.grad(3 * F.cross_entropy(x @ w.T, labels), w)
        w.main_grad = torch.ones_like(w)
        (3 * lt.fused_linear_cross_entropy(x, w, labels)).backward()
        torch.testing.assert_close(w.main_grad, gradient + 1, rtol=1e-4, atol=1e-5)
        assert w.grad is None
    finally:
        lt.config.main_grad = False


def test_dropout():
    x, r = torch.randn(50, 40, requires_grad=True), torch.randn(50, 40, requires_grad=True)
    y = lt.dropout(x, 0.25, residual=r, seed=5)
    kept = (y - r).abs() > 1e-6
    assert 0.65 < kept.float().mean() < 0.85
    torch.testing.assert_close(y, r + torch.where(kept, x / 0.75, 0.0))
    d_x, d_r = torch.autograd.grad(y.sum(), (x, r))
    torch.testing.assert_close(d_x, kept / 0.75)
    torch.testing.assert_close(d_r, torch.ones_like(r))
    torch.manual_seed(3)
    one = lt.dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(lt.dropout(x, 0.5), one) and not torch.equal(lt.dropout(x, 0.5), one)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activation_checkpointing(use_reentrant):
    from torch.utils.checkpoint import checkpoint
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    block = lambda x, w: lt.swiglu(lt.rms_norm(x, w), x)
    expected = torch.autograd.grad(block(x, w).square().sum(), (x, w))
    x.grad = w.grad = None
    checkpoint(block, x, w, use_reentrant=use_reentrant).square().sum().backward()
    torch.testing.assert_close(x.grad, expected[0], rtol=0, atol=0)
    torch.testing.assert_close(w.grad, expected[1], rtol=0, atol=0)


def test_same_bits_every_time():
    for name in CASES:
        wanted, others = inputs_of(name)
        outputs, gradients, upstream = run(CASES[name][0], wanted, others)
        again, gradients_again, _ = run(CASES[name][0], wanted, others, upstream)
        for one, other in zip([*outputs, *gradients], [*again, *gradients_again]):
            assert torch.equal(one, other), name


def test_entropy_of_the_fused_head():
    x, w, labels = (torch.randn(5, 8, requires_grad=True), torch.randn(11, 8, requires_grad=True),
                    torch.tensor([0, 3, -100, 10, 4]))
    log_p = (x @ w.T).log_softmax(-1)
    entropy = -(log_p.exp() * log_p).sum(-1).masked_fill(labels == -100, 0)
    total = torch.nn.functional.cross_entropy(x @ w.T, labels, reduction="sum") / 7
    # Weights of loss and entropy: both, entropy only, loss only. The number of items is given.
    for weights in ((1.0, -0.3), (0.0, 1.0), (2.0, 0.0)):
        out = lt.fused_linear_cross_entropy(x, w, labels, num_items=7, with_entropy=True)
        torch.testing.assert_close(out.entropy, entropy, rtol=1e-5, atol=1e-5)
        ours = [
            term * weight for term, weight in zip((out.loss, out.entropy.sum()), weights) if weight]
        theirs = [term * weight for term, weight in zip((total, entropy.sum()), weights) if weight]
        expected = torch.autograd.grad(sum(theirs), (x, w), retain_graph=True)
        for one, other in zip(torch.autograd.grad(sum(ours), (x, w)), expected):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    out = lt.fused_linear_cross_entropy(x, w, labels, with_entropy="detached")
    assert not out.entropy.requires_grad
    torch.testing.assert_close(out.entropy, entropy, rtol=1e-5, atol=1e-5)
    calls = ligerdsl.calls("fused_linear_cross_entropy_backward")
    out.loss.backward()
    # the gradients were computed in the forward pass, so backward does not call this operation
    assert ligerdsl.calls("fused_linear_cross_entropy_backward") == calls
    with torch.no_grad():
        torch.testing.assert_close(
            lt.fused_linear_cross_entropy(x, w, labels, with_entropy=True).entropy, entropy,
            rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError,
                       match="with_entropy: expected False, True or 'detached', got 'yes'"):
        lt.fused_linear_cross_entropy(x, w, labels, with_entropy="yes")


@pytest.mark.parametrize("name, shape, dtype, tolerance", [
    ("layer_norm", (2, 8, 64), torch.bfloat16, 2e-2),
    ("layer_norm", (4, 16, 128), torch.bfloat16, 2e-2),
    ("layer_norm", (3, 7, 256), torch.bfloat16, 2e-2),
    ("group_norm", (16, 48, 8192), torch.float32, 1e-4)])
def test_norms_are_more_exact_than_torch_on_a_cpu(name, shape, dtype, tolerance):
    """Cases of Liger-Kernel's tests, which compare with torch in the same dtype.

    On a CPU, torch's sums over rows exceed the tests' tolerance around the rounded float64 result;
    ours do not.
    """
    features = shape[-1] if name == "layer_norm" else shape[1]
    norm = {"layer_norm": lambda f, x, w, b: f.layer_norm(x, w, b, 1e-6) if f is lt
                                             else f.layer_norm(x, x.shape[-1:], w, b, 1e-6),
            "group_norm": lambda f, x, w, b: f.group_norm(x, 12, w, b, 1e-6)}[name]
    x, d_y = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    found = {}
    for functions, of in ((lt, dtype), (torch.nn.functional, torch.float64)):
        inputs = [t.to(of).requires_grad_()
                  for t in (x.clone(), torch.ones(features), torch.zeros(features))]
        y = norm(functions, *inputs)
        found[of] = [y, *torch.autograd.grad(y, inputs, d_y.to(of))]
    for one, exact in zip(found[dtype], found[torch.float64]):
        torch.testing.assert_close(one, exact.to(dtype), rtol=tolerance, atol=tolerance)


def rope_of_liger(q, cos, sin):
    a, b = q.chunk(2, -1)
    c, s = (t[:, None, :, :a.shape[-1]] for t in (cos, sin))
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def modulated_of_liger(x, weight, scale, shift):
    wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    normed = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
    return normed * weight * (1 + scale[:, None]) + shift[:, None]


@pytest.mark.parametrize("name, ours, theirs, shapes, atol, rtol", [
    ("rope", lambda q, cos, sin: lt.rope(q, None, cos, sin, heads_dim=1, rotary_dim=64)[0],
     rope_of_liger, ((2, 4, 17, 64), (2, 17, 64), (2, 17, 64)), 1e-2, 1e-2),
    ("modulated_rms_norm",
     lambda x, w, scale, shift: lt.modulated_rms_norm(x.flatten(0, 1), scale, shift,
                                                      w).view(x.shape),
     modulated_of_liger, ((5, 123, 123), (123,), (5, 123), (5, 123)), 1e-1, 2e-2)])
def test_bfloat16_is_more_exact_than_torch(name, ours, theirs, shapes, atol, rtol):
    """Cases of Liger-Kernel's tests that fail on a GPU.

    They compare with torch's bf16 operations, which exceed the tests' tolerance around the float64
    result more often than ours.
    """
    missed = {ours: 0, theirs: 0}
    for _ in range(20):
        inputs = [torch.randn(shape) * (1.0 if i == 0 or name == "rope" else 0.1)
                  + (i == 1 and name != "rope") for i, shape in enumerate(shapes)]
        inputs = [t.bfloat16() for t in inputs]
        upstream = torch.randn(shapes[0]).bfloat16()
        found = {}
        for function, dtype in ((ours, torch.bfloat16), (theirs, torch.bfloat16),
                                (theirs, torch.float64)):
            leaves = [
                t.to(dtype).requires_grad_(i == 0 or name != "rope") for i, t in enumerate(inputs)]
            y = function(*leaves)
            wanted = [t for t in leaves if t.requires_grad]
            found[function, dtype] = [y, *torch.autograd.grad(y, wanted, upstream.to(dtype))]
        for function in (ours, theirs):
            for one, exact in zip(found[function, torch.bfloat16], found[theirs, torch.float64]):
                missed[function] += int(((one - exact).abs() > atol + rtol * exact.abs()).sum())
    assert missed[ours] < missed[theirs] / 2

"""Tensors with unsupported strides are copied and counted, and results equal those of contiguous
tensors."""

import warnings

import pytest

torch = pytest.importorskip("torch")

import ligerdsl
import ligerdsl.torch as lt
from cases import CASES, inputs_of, outputs_of

pytestmark = pytest.mark.filterwarnings("ignore::ligerdsl.errors.CopyWarning")


def transposed(t):
    """Returns the same values with the memory order of the last two dimensions swapped."""
    return t.transpose(-1, -2).contiguous().transpose(-1, -2) if t.dim() > 1 else strided(t)


def strided(t):
    """Returns every second element of a tensor of twice the width."""
    return torch.stack([t, t + 1], -1).flatten(-2)[..., ::2] if t.dim() else t


def first_dimension_last(t):
    """Returns rows whose dimensions cannot merge into one stride."""
    return t.transpose(0, -2).contiguous().transpose(0, -2) if t.dim() > 2 else strided(t)


def of_a_wider_one(t):
    """Returns evenly strided rows with gaps, which kernels support."""
    return torch.cat([t, t], -1)[..., :t.shape[-1]] if t.dim() else t


LAYOUTS = [transposed, strided, first_dimension_last, of_a_wider_one]


def results(function, inputs, others, upstream=None):
    inputs = [t.detach().requires_grad_() for t in inputs]
    outputs = [o for o in outputs_of(function(*inputs, *others))]
    if upstream is None:
        torch.manual_seed(5)
        upstream = [torch.randn_like(o, memory_format=torch.contiguous_format) for o in outputs]
    return outputs, torch.autograd.grad(outputs, inputs, upstream)


def layout_of(t):
    """Returns shape, dtype, and the strides of dimensions of more than one element."""
    return t.shape, t.dtype, [stride for stride, size in zip(t.stride(), t.shape) if size != 1]


def close(ours, expected):
    for one, other in zip(ours, expected):
        assert one.shape == other.shape and one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def copies():
    return sum(lt.config.copies.values())


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", CASES)
def test_inputs_of_any_layout(name, layout):
    inputs, others = inputs_of(name)
    outputs, gradients = results(CASES[name][0], inputs, others)
    moved, moved_others = [layout(t.detach()) for t in inputs], [layout(t) for t in others]
    assert all(torch.equal(a, b) for a, b in zip([*moved, *moved_others], [*inputs, *others]))
    ours, our_gradients = results(CASES[name][0], moved, moved_others)
    close([*ours, *our_gradients], [*outputs, *gradients])
    with torch.no_grad():
        close(outputs_of(CASES[name][0](*moved, *moved_others)), outputs)


@pytest.mark.parametrize("layout", [transposed, strided, first_dimension_last])
@pytest.mark.parametrize("name", CASES)
def test_upstream_gradients_of_any_layout(name, layout):
    inputs, others = inputs_of(name)
    outputs = outputs_of(CASES[name][0](*inputs, *others))
    torch.manual_seed(5)
    upstream = [torch.randn(o.shape) for o in outputs]
    _, expected = results(CASES[name][0], inputs, others, upstream)
    _, found = results(CASES[name][0], inputs, others, [layout(u) for u in upstream])
    close(found, expected)


@pytest.mark.parametrize("name", CASES)
def test_expanded_inputs_and_upstream_gradients(name):
    inputs, others = inputs_of(name)
    inputs = [t.detach() for t in inputs]
    if inputs[0].dim() > 1 and "weight" not in name:
        inputs[0] = inputs[0][:1].expand(inputs[0].shape)
    outputs = outputs_of(CASES[name][0](*inputs, *others))
    upstream = [torch.ones(()).expand(o.shape) for o in outputs]
    ours, found = results(CASES[name][0], inputs, others, upstream)
    theirs, expected = results(CASES[name][0], [t.contiguous() for t in inputs], others,
                               [u.contiguous() for u in upstream])
    close([*ours, *found], [*theirs, *expected])


@pytest.mark.parametrize("name", CASES)
def test_compiled_strides_are_those_of_eager(name):
    """One graph calls the function once for each layout."""
    inputs, others = inputs_of(name)
    needed, each = [], len(inputs) + len(others)
    for layout in LAYOUTS:
        needed.append(([layout(t.detach()) for t in inputs], [layout(t) for t in others]))

    def all_layouts(*tensors):
        return [CASES[name][0](*tensors[i * each:(i + 1) * each]) for i in range(len(LAYOUTS))]

    torch._dynamo.reset()
    compiled = torch.compile(all_layouts, fullgraph=True, backend="aot_eager")
    leaves = [[t.detach().requires_grad_() for t in moved] for moved, _ in needed]
    made = compiled(*[t for own, (_, rest) in zip(leaves, needed) for t in [*own, *rest]])
    ours = [outputs_of(result) for result in made]
    expected, upstream = [], []
    for moved, rest in needed:
        expected.append(results(CASES[name][0], moved, rest))
        torch.manual_seed(5)
        upstream += [torch.randn_like(o, memory_format=torch.contiguous_format)
                     for o in expected[-1][0]]
    found = torch.autograd.grad(sum(ours, []), sum(leaves, []), upstream)
    for i, (layout, (outputs, gradients)) in enumerate(zip(LAYOUTS, expected)):
        close([*ours[i], *found[i * len(inputs):(i + 1) * len(inputs)]], [*outputs, *gradients])
        assert list(map(layout_of, ours[i])) == list(map(layout_of, outputs)), layout.__name__


class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
    """Runs every operator of the package also on fake tensors and compares strides."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function.namespace == "ligerdsl":
            with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
                fake = lambda t: mode.from_tensor(t) if isinstance(t, torch.Tensor) else t
                guessed = function(*map(fake, args),
                                   **{name: fake(value) for name, value in (kwargs or {}).items()})
            for one, other in zip(outputs_of(made), outputs_of(guessed)):
                assert layout_of(one) == layout_of(other), function
        return made


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", CASES)
def test_fake_tensors_have_the_strides_of_real_ones(name, layout):
    inputs, others = inputs_of(name)
    with Recorder():
        results(CASES[name][0], [layout(t.detach()) for t in inputs], [layout(t) for t in others])


def counted(call):
    """Returns the counters of the copies that a call makes."""
    lt.config.copies.clear()
    call()
    return dict(lt.config.copies)


def test_copies_are_counted_by_operation():
    x, w = torch.randn(4, 8), torch.randn(8)
    assert counted(lambda: lt.rms_norm(x, w)) == {}
    assert counted(lambda: lt.rms_norm(torch.randn(4, 16)[:, :8], w)) == {}
    assert counted(lambda: lt.rms_norm(transposed(x), w)) == {"rms_norm_forward": 1}
    assert counted(lambda: lt.rms_norm(transposed(x), strided(w))) == {"rms_norm_forward": 2}
    assert (
        counted(lambda: lt.rms_norm(transposed(x).requires_grad_(), w)) == {"rms_norm_forward": 1})
    assert counted(lambda: lt.swiglu(x, transposed(x))) == {"swiglu_forward": 1}
    leaf = x.clone().requires_grad_()
    y = lt.rms_norm(leaf, w)
    assert counted(lambda: torch.autograd.grad(y, leaf, transposed(x), retain_graph=True)) == {
        "rms_norm_backward": 1}
    assert counted(lambda: torch.autograd.grad(y.sum(), leaf, retain_graph=True)) == {
        "rms_norm_backward": 1}
    assert counted(lambda: torch.autograd.grad(y, leaf, x)) == {}


def test_a_copied_input_gets_its_gradient():
    """The copied input is a transposed view of a leaf, and the leaf gets the gradient."""
    w, base = torch.randn(8), torch.randn(8, 4, requires_grad=True)
    lt.rms_norm(base.T, w).square().sum().backward()
    expected, = torch.autograd.grad(
        torch.nn.functional.rms_norm(base.T, (8,), w, 1e-6).square().sum(), base)
    torch.testing.assert_close(base.grad, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("default::ligerdsl.errors.CopyWarning")
def test_operation_warns_once_and_ignores_expansions():
    x = torch.randn(4, 8).requires_grad_()
    lt.config.copies_warned.clear()
    with pytest.warns(ligerdsl.errors.CopyWarning,
                      match=r"softmax_forward: `x` \[4, 8\] with strides \[1, 4\] was copied"):
        lt.softmax(transposed(x.detach()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lt.softmax(transposed(x.detach()))
        lt.softmax(x).sum().backward()


@pytest.mark.parametrize("call", [
    lambda x: lt.rms_norm(x, torch.randn(5)), lambda x: lt.swiglu(x, torch.randn(4, 9)),
    lambda x: lt.cross_entropy(x, torch.tensor([0, 1, 2])),
    lambda x: lt.linear(x, torch.randn(3, 9))])
def test_mismatched_shape_is_an_error(call):
    for x in (torch.randn(4, 8), transposed(torch.randn(4, 8)),
              transposed(torch.randn(4, 8)).requires_grad_()):
        with pytest.raises(ligerdsl.InvalidArgument, match="expected"):
            call(x)


F = torch.nn.functional


@pytest.mark.parametrize("layout", [lambda t: t, strided], ids=["contiguous", "strided"])
@pytest.mark.parametrize(
    "ours, theirs, shapes",
    [
        (lt.rms_norm, lambda x, w: F.rms_norm(x, (8,), w, 1e-6), [(8,), (8,)]),
        (lambda x, r, w: lt.fused_add_rms_norm(x, r, w)[0],
         lambda x, r, w: F.rms_norm(x + r, (8,), w, 1e-6), [(8,), (8,), (8,)]),
        (lt.layer_norm, lambda x, w, b: F.layer_norm(x, (8,), w, b), [(8,), (8,), (8,)]),
        (lambda x, r, w, b: lt.fused_add_layer_norm(x, r, w, b)[0],
         lambda x, r, w, b: F.layer_norm(x + r, (8,), w, b), [(8,)] * 4),
        (lt.swiglu, lambda g, u: F.silu(g) * u, [(8,), (8,)]),
        (lt.geglu, lambda g, u: F.gelu(g, approximate="tanh") * u, [(8,), (8,)]),
        (lt.softmax, lambda x: torch.softmax(x, -1), [(8,)]), (lt.sparsemax, None, [(8,)]),
        (lambda x: lt.activation(x, "silu"), F.silu, [(8,)]),
        (lt.bias_add, torch.add, [(8,), (8,)]),
        (lt.poly_norm, CASES["poly_norm"][1], [(8,), (3,), (1,)]),
        (lt.dyt, lambda x, a, w, b: w * torch.tanh(a * x) + b, [(8,), (1,), (8,), (8,)]),
        (lambda x: lt.dropout(x, 0.0, seed=1), lambda x: x * 1, [(8,)]),
        (lambda w: lt.embedding(torch.tensor(1), w), lambda w: F.embedding(torch.tensor(1), w),
         [(3, 8)]),
        (lt.linear, F.linear, [(8,), (5, 8), (5,)]), (lt.matmul, torch.matmul, [(8,), (8,)]),
        (lt.matmul, torch.matmul, [(8,), (8, 5)]), (lt.matmul, torch.matmul, [(5, 8), (8,)]),
        (lt.matmul, torch.matmul, [(2, 5, 8), (8,)]), (lt.matmul, torch.matmul, [(8,), (2, 8, 5)]),
        (lambda x: lt.cross_entropy(x, torch.tensor(3)),
         lambda x: F.cross_entropy(x, torch.tensor(3)), [(8,)]),
        (lambda x: lt.cross_entropy(x, torch.tensor(3), reduction="none"),
         lambda x: F.cross_entropy(x, torch.tensor(3), reduction="none"), [(8,)]),
        (lambda x, w: lt.fused_linear_cross_entropy(x, w, torch.tensor(3)),
         lambda x, w: F.cross_entropy(F.linear(x, w), torch.tensor(3)), [(8,), (5, 8)]),
        (lambda x: lt.kl_div(x, torch.full((8,), 0.125), reduction="sum"),
         lambda x: F.kl_div(x, torch.full((8,), 0.125), reduction="sum"), [(8,)]),
    ], ids=lambda value: "" if callable(value) else str(value))
def test_one_dimension(ours, theirs, shapes, layout):
    inputs = [layout(torch.randn(shape)).detach().requires_grad_() for shape in shapes]
    theirs = theirs or (lambda x: CASES["sparsemax"][1](x[None])[0])
    y, expected = ours(*inputs), theirs(*[t.double() for t in inputs])
    assert y.shape == expected.shape
    torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-5)
    upstream = torch.randn(y.shape)
    for one, other in zip(torch.autograd.grad(y, inputs, upstream),
                          torch.autograd.grad(expected, inputs, upstream.double())):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)

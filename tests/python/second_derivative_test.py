"""Second derivatives: every Function of the package either raises or is right, for every kind of
caller."""

import pkgutil
import importlib

import pytest

torch = pytest.importorskip("torch")

import ligerdsl
import ligerdsl.torch as lt
from cases import CASES, outputs_of, tensor

LABELS = torch.tensor([[3, 0, -100], [9, 5, 1]])


def dropped(x):
    """The mask is a constant; a run on ones computes it."""
    return x * lt.dropout(torch.ones(x.shape), 0.3, seed=7)


# Functions and options that have no entry in cases.py. The tuples are like those in CASES.
MORE = {
    "dropout": (lambda x, r: lt.dropout(x, 0.3, residual=r, seed=7), lambda x, r: dropped(x) + r,
                lambda: [tensor(4, 8), tensor(4, 8)], list),
    "rms_norm in place": (lambda x, w: lt.rms_norm(x, w, in_place=True), CASES["rms_norm"][1],
                          lambda: [tensor(4, 8), tensor(8)], list),
    "layer_norm in place": (lambda x, w, b: lt.layer_norm(x, w, b, in_place=True),
                            CASES["layer_norm"][1], lambda: [tensor(4, 8), tensor(8), tensor(8)],
                            list),
    "swiglu in place": (lambda g, u: lt.swiglu(g * 1, u * 1, in_place=True), CASES["swiglu"][1],
                        lambda: [tensor(4, 8), tensor(4, 8)], list),
    "geglu in place": (lambda g, u: lt.geglu(g * 1, u * 1, in_place=True), CASES["geglu"][1],
                       lambda: [tensor(4, 8), tensor(4, 8)], list),
    "cross_entropy in place": (
        lambda x, l: lt.cross_entropy(x * 1, l, in_place=True),
        lambda x, l: torch.nn.functional.cross_entropy(x.flatten(0, 1), l.flatten()),
        lambda: [tensor(2, 3, 10)], lambda: [LABELS]),
    "vocab_parallel_cross_entropy in place": (
        lambda x, l: lt.vocab_parallel_cross_entropy(x * 1, l, in_place=True),
        lambda x, l: torch.nn.functional.cross_entropy(x.flatten(0, 1), l.flatten()),
        lambda: [tensor(2, 3, 10)], lambda: [LABELS]),
    "a head with num_items": (lambda x, w, l: lt.fused_linear_cross_entropy(x, w, l, num_items=5),
                              lambda x, w, l: torch.nn.functional.cross_entropy(
                                  (x @ w.T).flatten(0, 1), l.flatten(), reduction="sum") / 5,
                              lambda: [tensor(2, 3, 16), tensor(10, 16)], lambda: [LABELS]),
    "a head after a layer": (lambda x, w, l: lt.fused_linear_cross_entropy(torch.tanh(x), w, l),
                              lambda x, w, l: torch.nn.functional.cross_entropy(
                                  (torch.tanh(x) @ w.T).flatten(0, 1), l.flatten()),
                              lambda: [tensor(2, 3, 16), tensor(10, 16)], lambda: [LABELS]),
    "linear of a transposed weight": (lambda x, w: lt.linear(x, w.T), lambda x, w: x @ w,
                                      lambda: [tensor(4, 8), tensor(8, 6)], list),
    "matmul of transposed operands": (lambda a, b: lt.matmul(a.T, b.T), lambda a, b: a.T @ b.T,
                                     lambda: [tensor(8, 4), tensor(6, 8)], list),
}
ALL = CASES | MORE


def make(name, dtype=torch.float32):
    """Returns inputs that may need gradients, and others."""
    _, _, first, second = ALL[name]
    torch.manual_seed(3)
    cast = lambda t: t.to(dtype) if t.is_floating_point() else t
    return [cast(t) for t in first()], [cast(t) for t in second()]


def set_up(name, function, inputs, others, needed, dtype=torch.float32):
    """Makes inputs and upstream gradients that need gradients.

    Returns both in one list, the inputs' gradients (with a graph), and random weights for these
    gradients.
    """
    inputs = [t.detach().to(dtype).requires_grad_(i in needed) for i, t in enumerate(inputs)]
    outputs = outputs_of(function(*inputs, *others))
    if name.startswith("rope"):  # output i depends on input i only
        outputs = [o for i, o in enumerate(outputs) if i in needed]
    # Output 1, the sum of both inputs, does not depend on weight and bias.
    if name.startswith("fused_add") and not {0, 1} & set(needed):
        outputs = outputs[:1]
    wanted = [t for t in inputs if t.requires_grad]
    torch.manual_seed(9)
    upstream = [torch.randn(o.shape).to(dtype).requires_grad_() for o in outputs]
    gradients = torch.autograd.grad(outputs, wanted, upstream, create_graph=True)
    factors = [torch.randn(g.shape).to(dtype) for g in gradients]
    return [*wanted, *upstream], gradients, factors


def derivative(gradient, factor, variable):
    """Returns the derivative of sum(gradient * factor), or zeros if there is no dependency."""
    total = (gradient * factor).sum()
    if not total.requires_grad:
        return torch.zeros_like(variable)
    found, = torch.autograd.grad(total, [variable], retain_graph=True, allow_unused=True)
    return torch.zeros_like(variable) if found is None else found


def raises_or_is_right(ours, expected):
    """Returns true if `ours` raised."""
    try:
        found = ours()
    except ligerdsl.NotSupported as error:
        assert "second derivatives are not supported" in str(error)
        return True
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-4)
    return False


def check(name, function, needed):
    inputs, others = make(name)
    _, doubles = make(name, torch.float64)
    variables, gradients, factors = set_up(name, function, inputs, others, needed)
    truth_variables, truth, truth_factors = set_up(name, ALL[name][1], inputs, doubles, needed,
                                                   torch.float64)
    raised = 0
    for gradient, factor, true_gradient, true_factor in zip(gradients, factors, truth,
                                                            truth_factors):
        torch.testing.assert_close(gradient.double(), true_gradient, rtol=1e-3, atol=1e-4)
        for variable, true_variable in zip(variables, truth_variables):
            expected = derivative(true_gradient, true_factor, true_variable)
            raised += raises_or_is_right(lambda: derivative(gradient, factor, variable), expected)
    return raised


@pytest.mark.parametrize("name", ALL)
def test_every_derivative_of_every_gradient_raises_or_is_right(name):
    assert check(name, ALL[name][0], range(len(make(name)[0]))), (
        "no gradient of a kernel depends on its upstream gradient?")


@pytest.mark.parametrize("name", [name for name in ALL if len(make(name)[0]) > 1])
def test_one_input_alone_needs_a_gradient(name):
    for i in range(len(make(name)[0])):
        check(name, ALL[name][0], [i])


@pytest.mark.parametrize("name", ALL)
def test_gradient_scaled_by_a_tensor_with_gradient(name):
    """The loss also depends on the inputs through other paths, which must not hide the missing
    part."""
    inputs, others = make(name)
    inputs = [t.requires_grad_() for t in inputs]
    output = outputs_of(ALL[name][0](*inputs, *others))[0]
    gradients = torch.autograd.grad(output.square().sum(), inputs, create_graph=True,
                                    allow_unused=True)
    number = torch.tensor(2.0, requires_grad=True)
    total = sum((g * number).sum() for g in gradients if g is not None) + sum(t.square().sum()
                                                                              for t in inputs)
    expected = sum(g.sum() for g in gradients if g is not None).detach()
    found, = torch.autograd.grad(total, [number], retain_graph=True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ligerdsl.NotSupported, match="second derivatives are not supported"):
        torch.autograd.grad(total, [*inputs, number], retain_graph=True)
    with pytest.raises(ligerdsl.NotSupported, match="second derivatives are not supported"):
        total.backward()


@pytest.mark.parametrize("name", ALL)
def test_hook_that_differentiates_its_gradient(name):
    inputs, others = make(name)
    inputs = [t.requires_grad_() for t in inputs]
    outputs = [o for o in outputs_of(ALL[name][0](*inputs, *others)) if o.requires_grad]
    seen = []

    def hook(gradient):
        if gradient.requires_grad:
            torch.autograd.grad(gradient.sum(), upstream, retain_graph=True, allow_unused=True)
        seen.append(gradient)

    for t in inputs:
        t.register_hook(hook)
    upstream = [torch.randn_like(o).requires_grad_() for o in outputs]
    with pytest.raises(ligerdsl.NotSupported, match="second derivatives are not supported"):
        torch.autograd.backward(outputs, upstream, create_graph=True)


@pytest.mark.parametrize("name", ALL)
def test_hessian(name):
    inputs, others = make(name)

    def total(ours, others):
        return lambda *inputs: sum(o.square().sum() for o in outputs_of(ours(*inputs, *others))
                                   if o.requires_grad)

    with pytest.raises(ligerdsl.NotSupported, match="second derivatives are not supported"):
        torch.autograd.functional.hessian(total(ALL[name][0], others), tuple(inputs))


@pytest.mark.parametrize(
    "name", ["rms_norm", "swiglu", "attention", "fused_linear_cross_entropy", "linear"])
def test_gradgradcheck(name):
    inputs, others = make(name)
    with pytest.raises(ligerdsl.NotSupported, match="second derivatives are not supported"):
        torch.autograd.gradgradcheck(lambda *inputs: ALL[name][0](*inputs, *others),
                                     [t.requires_grad_() for t in inputs], eps=1e-2, atol=1.0)


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_unpacks_once(name):
    """torch's checkpoint refuses to unpack a saved tensor twice."""
    inputs, others = make(name)
    inputs = [t.requires_grad_() for t in inputs]
    outputs = outputs_of(torch.utils.checkpoint.checkpoint(ALL[name][0], *inputs, *others,
                                                           use_reentrant=False))
    upstream = [torch.randn_like(o).requires_grad_() for o in outputs]
    gradients = torch.autograd.grad(outputs, inputs, upstream, create_graph=True)
    with pytest.raises(ligerdsl.NotSupported, match="second derivatives are not supported"):
        torch.autograd.grad(sum(g.sum() for g in gradients), upstream)


def compiled(name):
    torch._dynamo.reset()
    return torch.compile(lambda *inputs: ALL[name][0](*inputs), fullgraph=True, backend="aot_eager")


@pytest.mark.parametrize("name", CASES)
def test_compiled_derivative_by_upstream_gradient_raises_or_is_right(name):
    """torch.compile makes the backward pass here. It omits derivatives by inputs (next test)."""
    inputs, others = make(name)
    doubles = make(name, torch.float64)[1]
    needed = range(len(inputs))
    truth_variables, truth, truth_factors = set_up(name, ALL[name][1], inputs, doubles, needed,
                                                   torch.float64)
    try:
        variables, gradients, factors = set_up(name, compiled(name), inputs, others, needed)
    # Torch tries to copy an upstream gradient with other strides into a leaf, which fails.
    except RuntimeError as error:
        assert "a leaf Variable that requires grad is being used in an in-place operation" in str(
            error)
        return
    for gradient, factor, true_gradient, true_factor in zip(gradients, factors, truth,
                                                            truth_factors):
        for variable, true_variable in list(zip(variables, truth_variables))[len(inputs):]:
            expected = derivative(true_gradient, true_factor, true_variable)
            try:
                found = derivative(gradient, factor, variable)
            except RuntimeError as error:
                assert "does not currently support double backward" in str(error)
            else:
                torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-4)


def test_torch_compile_also_omits_derivatives_of_its_own_operators():
    """A limit of torch that the package cannot lift.

    If this fails, torch has fixed it: then compare derivatives by inputs above, too.
    """
    x = torch.randn(2, 3, 4, requires_grad=True)
    penalties = []
    for function in (
            lambda x: torch.tanh(x * 2),
            torch.compile(lambda x: torch.tanh(x * 2), backend="aot_eager", fullgraph=True)):
        y = function(x)
        gradient, = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
        penalties += torch.autograd.grad(gradient.square().sum() + x.sum(), x)
    assert not torch.allclose(*penalties)


def functions_of_the_package():
    """Returns every autograd Function that the package defines, by name."""
    modules = [importlib.import_module(each.name)
               for each in pkgutil.walk_packages(ligerdsl.__path__, "ligerdsl.")
               if ".liger" not in each.name and not each.name.endswith("_bind")]
    assert len(modules) > 20
    found, left = {}, [torch.autograd.Function]
    while left:
        for kind in left.pop().__subclasses__():
            left.append(kind)
            if (kind.__module__.startswith("ligerdsl.")
                and not kind.__module__.startswith("ligerdsl.liger")):
                found[kind.__name__] = kind
    return found


def names_of_nodes(outputs):
    left, seen = [o.grad_fn for o in outputs if o.grad_fn is not None], set()
    while left:
        node = left.pop()
        seen.add(node)
        left += [each for each, _ in node.next_functions if each is not None and each not in seen]
    return {type(node).__name__.removesuffix("Backward") for node in seen}


def test_every_function_of_the_package_is_among_the_cases():
    pytest.importorskip("transformers")
    tested = set()
    for name in ALL:
        inputs, others = make(name)
        tested |= names_of_nodes(outputs_of(ALL[name][0](*[t.requires_grad_() for t in inputs],
                                                         *others)))
    # SecondOrder raises by design, and layers_test.py differentiates LayerFunction twice.
    excluded = {"SecondOrder", "LayerFunction"}
    assert sorted(set(functions_of_the_package()) - tested - excluded) == []


def test_constant_gradient_has_zero_derivative():
    """A linear function with a constant upstream gradient has a second derivative of 0."""
    q = torch.randn(2, 5, 4, 16, requires_grad=True)
    cos, sin = torch.rand(5, 16), torch.rand(5, 16)
    rotated, _ = lt.rope(q, None, cos, sin)
    gradient, = torch.autograd.grad(rotated.sum(), q, create_graph=True)
    assert not gradient.requires_grad

"""linear and matmul: dtypes, layouts, frozen operands, autocast, main_grad; cases.py has the
references."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import ligerdsl
import ligerdsl.torch as lt

F = torch.nn.functional
ACTIVATIONS = {None: lambda x: x,
               "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
               "gelu_erf": F.gelu,
               "silu": F.silu,
               "relu": F.relu,
               "relu_squared": lambda x: F.relu(x).square()}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def leaf(*shape, dtype=torch.float32, scale=0.5):
    return (torch.randn(*shape) * scale).to(dtype).requires_grad_()


def reference(function, *tensors):
    """Evaluates the function in float64 on leaves with the same values."""
    inputs = [t if t is None else t.detach().double().requires_grad_() for t in tensors]
    return function(*inputs), [t for t in inputs if t is not None]


def close(one, other, dtype):
    """Compares within the error of rounding the results and one intermediate to the dtype."""
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(one.double(), other, rtol=tolerance,
                               atol=tolerance * max([1.0, *other.abs().flatten().tolist()]))


@pytest.mark.parametrize("dtype, bias_dtype",
                         [(dtype, bias) for dtype in DTYPES
                          for bias in dict.fromkeys([None, torch.float32, dtype])], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear_matches_torch(activation, dtype, bias_dtype):
    x, w = leaf(2, 7, 24, dtype=dtype), leaf(10, 24, dtype=dtype)
    bias = None if bias_dtype is None else leaf(10, dtype=bias_dtype)
    expected, doubles = reference(lambda x, w, b=None: ACTIVATIONS[activation](F.linear(x, w, b)),
                                  x, w, bias)
    y = lt.linear(x, w, bias, activation)
    assert y.dtype == dtype and y.shape == expected.shape
    close(y, expected, dtype)
    upstream = torch.randn(y.shape)
    inputs = [t for t in (x, w, bias) if t is not None]
    found = torch.autograd.grad(y, inputs, upstream.to(dtype))
    for one, other, tensor in zip(
            found, torch.autograd.grad(expected, doubles, upstream.to(dtype).double()), inputs):
        assert one.dtype == tensor.dtype and one.shape == tensor.shape
        close(one, other, dtype)
    with torch.no_grad():
        close(lt.linear(x, w, bias, activation), expected, dtype)


@pytest.mark.parametrize(
    "needed", [needed for needed in itertools.product([False, True], repeat=3) if any(needed)],
    ids=str)
@pytest.mark.parametrize("activation", [None, "silu", "relu"])
def test_frozen_inputs_have_no_gradients_and_cost_no_matmul(needed, activation):
    x, w, b = (t.detach().requires_grad_(each)
               for t, each in zip((leaf(6, 8), leaf(5, 8), leaf(5)), needed))
    expected, doubles = reference(lambda x, w, b: ACTIVATIONS[activation](F.linear(x, w, b)), x, w,
                                  b)
    y = lt.linear(x, w, b, activation)
    counts = [ligerdsl.calls(name) for name in ("matmul_nn", "matmul_tn", "bias_add_backward")]
    y.sum().backward()
    expected.sum().backward()
    assert [ligerdsl.calls(name) - before for name, before in zip(
        ("matmul_nn", "matmul_tn", "bias_add_backward"), counts)] == list(map(int, needed))
    for tensor, double, each in zip((x, w, b), doubles, needed):
        assert (tensor.grad is not None) == each
        if each:
            close(tensor.grad, double.grad, torch.float32)


SHAPES = [((4, 6), (6, 5)), ((2, 3, 4, 6), (6, 5)), ((3, 4, 6), (3, 6, 5)),
          ((2, 3, 4, 6), (2, 3, 6, 5)), ((2, 1, 4, 6), (3, 6, 5)), ((4, 6), (3, 6, 5)),
          ((6,), (6, 5)), ((4, 6), (6,)), ((6,), (6,)), ((6,), (3, 6, 5)), ((2, 3, 4, 6), (6,)),
          ((0, 6), (6, 5)), ((3, 0, 6), (3, 6, 5)), ((1, 6), (6, 1))]


@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.filterwarnings("ignore::ligerdsl.errors.CopyWarning")
def test_matmul_matches_torch(shapes, a_transposed, b_transposed):
    leaves = [leaf(*(shape[:-2] + shape[:-3:-1] if flipped and len(shape) > 1 else shape))
              for shape, flipped in zip(shapes, (a_transposed, b_transposed))]
    through = lambda function: lambda a, b: function(*(
        t.mT if flipped and t.dim() > 1 else t
        for t, flipped in zip((a, b), (a_transposed, b_transposed))))
    expected, doubles = reference(through(torch.matmul), *leaves)
    lt.config.copies.clear()
    y = through(lt.matmul)(*leaves)
    if len(shapes[0]) == 2 == len(shapes[1]):
        assert not lt.config.copies, "a transposed matrix was copied"
    assert y.shape == expected.shape
    close(y, expected, torch.float32)
    upstream = torch.randn(y.shape)
    for one, other in zip(torch.autograd.grad(y, leaves, upstream),
                          torch.autograd.grad(expected, doubles, upstream.double())):
        assert one.shape == other.shape
        close(one, other, torch.float32)


def test_a_transposed_weight_is_not_copied():
    x, w = leaf(4, 6), leaf(6, 5)
    lt.config.copies.clear()
    close(lt.linear(x, w.T), x.detach().double() @ w.detach().double(), torch.float32)
    assert not lt.config.copies


@pytest.mark.parametrize("main_dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_added_to_main_grad(main_dtype):
    x, w, b = leaf(6, 8), leaf(5, 8), leaf(5)
    expected = torch.autograd.grad(lt.linear(x, w, b, "silu").sum(), (w, b))
    w.main_grad, b.main_grad = torch.ones(5, 8, dtype=main_dtype), torch.ones(5)
    try:
        lt.config.main_grad = True
        lt.linear(x, w, b, "silu").sum().backward()
    finally:
        lt.config.main_grad = False
    assert w.grad is None and b.grad is None and x.grad is not None
    assert w.grad_added_to_main_grad and b.grad_added_to_main_grad
    torch.testing.assert_close(w.main_grad, (expected[0] + 1).to(main_dtype),
                               rtol=1e-2 if main_dtype == torch.bfloat16 else 1e-6,
                               atol=1e-2 if main_dtype == torch.bfloat16 else 1e-6)
    torch.testing.assert_close(b.main_grad, expected[1] + 1)


@pytest.mark.parametrize("function", [lambda x, w: lt.linear(x, w), lambda x, w: lt.matmul(x, w.T)])
def test_autocast_casts_as_torch_does_and_keeps_the_weights_gradient(function):
    x, w = leaf(6, 8), leaf(5, 8)
    with torch.autocast("cpu", torch.bfloat16):
        y = function(x, w)
        assert y.dtype == F.linear(x, w).dtype == torch.bfloat16
        assert function(x.detach(), w.detach()).dtype == torch.bfloat16
    d_x, d_w = torch.autograd.grad(y, (x, w), torch.ones_like(y))
    assert d_x.dtype == d_w.dtype == torch.float32
    close(d_w, torch.ones(5, 6).double() @ x.detach().bfloat16().double(), torch.bfloat16)


@pytest.mark.parametrize("call, kind, words", [
    (lambda: lt.linear(leaf(4, 8), leaf(5, 7)), ligerdsl.InvalidArgument,
     r"x \[..., K\] and weight \[N, K\], got \[4, 8\] and \[5, 7\]"),
    (lambda: lt.linear(leaf(4, 8), leaf(8)), ligerdsl.InvalidArgument, "weight"),
    (lambda: lt.linear(leaf(4, 8), leaf(5, 8), leaf(4)), ligerdsl.InvalidArgument,
     "`bias`: expected"),
    (lambda: lt.linear(leaf(4, 8), leaf(5, 8, dtype=torch.bfloat16)), ligerdsl.InvalidArgument,
     "INVALID_DTYPE"),
    (lambda: lt.linear(leaf(4, 8), leaf(5, 8), None, "tanh"), ValueError,
     "activation: expected one of gelu_tanh"),
    (lambda: lt.linear([1.0], leaf(5, 8)), TypeError, "`x`: expected a tensor"),
    (lambda: lt.matmul(leaf(4, 8), leaf(7, 5)), ligerdsl.InvalidArgument,
     r"a \[..., M, K\] and b \[..., K, N\], got \[4, 8\] and \[7, 5\]"),
    (lambda: lt.matmul(leaf(2, 4, 8), leaf(3, 8, 5)), ligerdsl.InvalidArgument,
     "cannot be broadcast"),
    (lambda: lt.matmul(leaf(()), leaf(3)), ligerdsl.InvalidArgument, "expected a")])
def test_bad_input(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("function, shapes", [
    (lambda x, w, b: lt.linear(x, w, b, "silu"), [(6, 8), (5, 8), (5,)]),
    (lambda x, w, b: lt.linear(x.mT, w.mT, b, "relu"), [(8, 6), (8, 5), (5,)]),
    (lambda a, b: lt.matmul(a, b), [(3, 6, 8), (3, 8, 5)]),
    (lambda a, b: lt.matmul(a.mT, b.mT), [(8, 6), (5, 8)])])
def test_inductor_gives_equal_results(function, shapes):
    torch._dynamo.reset()
    tensors = [leaf(*shape) for shape in shapes]
    compiled = torch.compile(function, fullgraph=True)
    y, expected = compiled(*tensors), function(*tensors)
    torch.testing.assert_close(y, expected)
    upstream = torch.randn_like(y)
    for one, other in zip(torch.autograd.grad(y, tensors, upstream),
                          torch.autograd.grad(expected, tensors, upstream)):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)

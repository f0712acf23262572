"""Kernels of a shared object that an author built: LIGERDSL_AUTHOR_KERNELS names examples/author_kernels's."""

import os

import numpy as np
import pytest

import ligerdsl

PATH = os.environ.get("LIGERDSL_AUTHOR_KERNELS", "")
pytestmark = pytest.mark.skipif(not PATH, reason="LIGERDSL_AUTHOR_KERNELS is not set")


@pytest.fixture(scope="module")
def kernels():
    return ligerdsl.load(PATH)


def gelu(v):
    return v / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))


def inputs(rows=6, cols=128):
    generator = np.random.default_rng(1)
    return generator.standard_normal((rows, cols)).astype(np.float32), generator.standard_normal(cols).astype(np.float32)


def test_numpy(kernels):
    x, bias = inputs()
    y = np.empty_like(x)
    kernels["bias_gelu"](x=x, bias=bias, y=y, type="f32", cols=128, block=64)
    np.testing.assert_allclose(y, gelu(x + bias), rtol=1e-5, atol=1e-6)
    assert kernels["bias_gelu"].fields["cols"] == "4096"


@pytest.mark.parametrize("change, words", [
    (lambda a: a.pop("y"), "missing y"), (lambda a: a.update(other=a["x"]), "unknown other"),
    (lambda a: a.update(cols="many"), "expected an integer"), (lambda a: a.update(type="bf16"), "expected bf16, got f32"),
    (lambda a: a.update(name="word"), "name"), (lambda a: a.update(x=a["x"][:, :64]), "x")])
def test_bad_input(kernels, change, words):
    x, bias = inputs()
    arguments = dict(x=x, bias=bias, y=np.empty_like(x), type="f32", cols=128, block=64)
    change(arguments)
    with pytest.raises((ligerdsl.InvalidArgument, TypeError), match=words):
        kernels["bias_gelu"](**arguments)


def test_no_such_file_and_no_kernels():
    with pytest.raises(ligerdsl.InvalidArgument, match="cannot open"):
        ligerdsl.load("/nonexistent/libmine.so")
    with pytest.raises(ligerdsl.InvalidArgument, match="LIGERDSL_EXPORT_KERNELS"):
        ligerdsl.load(ligerdsl.library.PATH)


def test_as_an_operator_of_torch_with_autograd(kernels):
    torch = pytest.importorskip("torch")

    @torch.library.custom_op("tests::bias_gelu", mutates_args=())
    def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        kernels["bias_gelu"](x=x, bias=bias, y=y, type=x.dtype, cols=x.shape[1], block=64)
        return y

    @torch.library.custom_op("tests::bias_gelu_backward", mutates_args=())
    def bias_gelu_backward(d_y: torch.Tensor, x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        d_x, parts, d_bias = torch.empty_like(x), x.new_empty(2, x.shape[1], dtype=torch.float32), torch.empty_like(bias)
        shared = dict(type=x.dtype, cols=x.shape[1], block=64)
        kernels["bias_gelu_backward"](d_x=d_x, parts=parts, d_y=d_y.contiguous(), x=x, bias=bias, **shared)
        kernels["bias_gelu_d_bias"](d_bias=d_bias, parts=parts, **shared)
        return d_x, d_bias

    bias_gelu.register_fake(lambda x, bias: torch.empty_like(x))
    bias_gelu_backward.register_fake(lambda d_y, x, bias: (torch.empty_like(x), torch.empty_like(bias)))
    bias_gelu.register_autograd(lambda ctx, d_y: bias_gelu_backward(d_y, *ctx.saved_tensors),
                                setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    x, bias = (torch.from_numpy(each).requires_grad_() for each in inputs())
    y = bias_gelu(x, bias)
    y.sin().sum().backward()
    d_x, d_bias = x.grad, bias.grad
    x.grad = bias.grad = None
    torch.nn.functional.gelu(x.double() + bias.double(), approximate="tanh").sin().sum().backward()
    torch.testing.assert_close(d_x, x.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(d_bias, bias.grad, rtol=1e-4, atol=1e-5)
    torch.library.opcheck(torch.ops.tests.bias_gelu, (x.detach(), bias.detach()))

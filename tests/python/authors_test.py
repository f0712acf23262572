"""Tests kernels of shared objects; LIGERDSL_AUTHOR_KERNELS names that of
examples/author_kernels."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import ligerdsl

PATH = os.environ.get("LIGERDSL_AUTHOR_KERNELS", "")


@pytest.fixture(scope="module")
def kernels():
    if not PATH:
        pytest.skip("LIGERDSL_AUTHOR_KERNELS is not set")
    return ligerdsl.load(PATH)


def gelu(v):
    return v / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))


def inputs(rows=6, cols=128):
    generator = np.random.default_rng(1)
    return (generator.standard_normal((rows, cols)).astype(np.float32),
            generator.standard_normal(cols).astype(np.float32))


def test_numpy(kernels):
    x, bias = inputs()
    y = np.empty_like(x)
    kernels["bias_gelu"](x=x, bias=bias, y=y, type="f32", cols=128, block=64)
    np.testing.assert_allclose(y, gelu(x + bias), rtol=1e-5, atol=1e-6)
    assert kernels["bias_gelu"].fields["cols"] == "4096"


@pytest.mark.parametrize("change, words", [
    (lambda a: a.pop("y"), "missing y"), (lambda a: a.update(other=a["x"]), "unknown other"),
    (lambda a: a.update(cols="many"), "expected an integer"),
    (lambda a: a.update(type="bf16"), "expected bf16, got f32"),
    (lambda a: a.update(name="word"), "name"), (lambda a: a.update(x=a["x"][:, :64]), "x")])
def test_bad_input(kernels, change, words):
    x, bias = inputs()
    arguments = dict(x=x, bias=bias, y=np.empty_like(x), type="f32", cols=128, block=64)
    change(arguments)
    with pytest.raises((ligerdsl.InvalidArgument, TypeError), match=words):
        kernels["bias_gelu"](**arguments)


def test_missing_file_and_file_without_kernels():
    with pytest.raises(ligerdsl.InvalidArgument, match="cannot open"):
        ligerdsl.load("/nonexistent/libmine.so")
    with pytest.raises(ligerdsl.InvalidArgument, match="LIGERDSL_EXPORT_KERNELS"):
        ligerdsl.load(ligerdsl.library.PATH)


# C source of a shared object with a kernel table. The tests replace TABLE and ENTRY.
SOURCE = """
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { char* data; size_t size; } bytes;
static bytes copy(const char* text) { bytes b = {strdup(text), strlen(text)}; return b; }
static size_t count(void) { return 1; }
static int32_t describe(size_t i, bytes* name, bytes* description, bytes* fields, bytes* error) {
  *name = copy("mine"), *description = copy("a kernel"), *fields = copy("block\\tint\\t64\\t\\n");
  return 0;
}
static int32_t record(size_t i, const char* settings, bytes* program, bytes* error) { *error = copy("error: recorded without a target"); return 1; }
static int32_t launch(size_t i, const char* settings, const void* arguments, size_t n, void* out, bytes* error) {
  *error = copy("error: launched without a target");
  return 1;
}
static void free_bytes(bytes b) { free(b.data); }
static int32_t record_for(size_t i, const char* s, const void* t, size_t n, bytes* program, bytes* error) { return 1; }
static int32_t launch_for(size_t i, const char* s, const void* t, size_t n, const void* a, size_t k, void* out, bytes* error) { return 1; }
static size_t endless(void) { return (size_t)-1; }
static int32_t describe_nothing(size_t i, bytes* name, bytes* description, bytes* fields, bytes* error) { return 0; }
static int32_t describe_short(size_t i, bytes* name, bytes* description, bytes* fields, bytes* error) { *fields = copy("block"); return 0; }
static int32_t describe_size(size_t i, bytes* name, bytes* description, bytes* fields, bytes* error) { name->size = 1 << 30; return 0; }
static int32_t fail(size_t i, bytes* name, bytes* description, bytes* fields, bytes* error) { return 1; }
static const struct { uint32_t version, size; void* functions[7]; } table = TABLE;
const void* ligerdsl_author_entry(void) { return ENTRY; }
"""
WHOLE = ["count", "describe", "record", "launch", "free_bytes", "record_for", "launch_for"]


def built(folder, functions, version=2, size=64, entry="&table"):
    """Builds a shared object with this table; returns its path."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("needs a C compiler")
    source, made = folder / "kernels.c", folder / "kernels.so"
    table = "{%d, %d, {%s}}" % (version, size, ", ".join(f"(void*){name}" for name in functions))
    source.write_text(SOURCE.replace("TABLE", table).replace("ENTRY", entry))
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", made, source], check=True)
    return made


def outcome(code, *arguments):
    """Returns the output of a child process, so that a crash is only a failure."""
    environment = dict(os.environ, PYTHONPATH=os.environ.get("LIGERDSL_PYTHON_PATH", ""))
    text = "import sys, numpy, ligerdsl\ntry:\n" + "".join(f"    {line}\n"
                                                           for line in code.splitlines())
    text += "except ligerdsl.InvalidArgument as error:\n    print('InvalidArgument:', error)"
    ran = subprocess.run([sys.executable, "-c", text, *map(str, arguments)], env=environment,
                         capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, f"exit status {ran.returncode}: {ran.stderr}"
    return ran.stdout


@pytest.mark.parametrize("missing", ["count", "describe", "record", "launch", "free_bytes"])
def test_a_table_without_a_function_is_refused(tmp_path, missing):
    path = built(tmp_path, ["0" if name == missing else name for name in WHOLE])
    printed = outcome("ligerdsl.load(sys.argv[1])", path)
    assert (f"the table of kernels has no function {missing}; export the kernels with "
            "LIGERDSL_EXPORT_KERNELS()") in printed


@pytest.mark.parametrize(
    "size, functions",
    [(48, WHOLE[:5] + ["0", "0"]), (64, WHOLE[:5] + ["0", "0"]), (64, WHOLE[:6] + ["0"])])
def test_functions_that_take_a_target_may_be_missing(tmp_path, size, functions):
    """The functions without a target are called instead, as author.h specifies."""
    path = built(tmp_path, functions, size=size)
    printed = outcome("ligerdsl.load(sys.argv[1])['mine'](x=numpy.zeros(3, 'f'))", path)
    assert "launched without a target" in printed


@pytest.mark.parametrize("changes, words", [
    ({"entry": "0"}, "ligerdsl_author_entry() returned NULL"),
    ({"version": 1}, "expected version 2 of the table of kernels, got 1"),
    ({"size": 24}, "has no function record, launch, free_bytes"),
    ({"functions": ["endless", *WHOLE[1:]]}, "expected at most 65536"),
    ({"functions": ["count", "describe_short", *WHOLE[2:]]},
     "expected a field's name, type and default"),
    ({"functions": ["count", "fail", *WHOLE[2:]]}, "failed and gave no message")])
def test_invalid_tables_are_refused(tmp_path, changes, words):
    assert words in outcome("ligerdsl.load(sys.argv[1])",
                            built(tmp_path, **{"functions": WHOLE, **changes}))


@pytest.mark.parametrize("describe", ["describe_nothing", "describe_size"])
def test_null_bytes_are_empty(tmp_path, describe):
    path = built(tmp_path, ["count", describe, *WHOLE[2:]])
    assert outcome("print(list(ligerdsl.load(sys.argv[1])))", path) == "['']\n"


def test_author_kernel_becomes_torch_operator_with_autograd(kernels):
    torch = pytest.importorskip("torch")

    @torch.library.custom_op("tests::bias_gelu", mutates_args=())
    def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        kernels["bias_gelu"](x=x, bias=bias, y=y, type=x.dtype, cols=x.shape[1], block=64)
        return y

    @torch.library.custom_op("tests::bias_gelu_backward", mutates_args=())
    def bias_gelu_backward(d_y: torch.Tensor, x: torch.Tensor,
                           bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        d_x, parts, d_bias = (torch.empty_like(x), x.new_empty(2, x.shape[1], dtype=torch.float32),
                              torch.empty_like(bias))
        shared = dict(type=x.dtype, cols=x.shape[1], block=64)
        kernels["bias_gelu_backward"](d_x=d_x, parts=parts, d_y=d_y.contiguous(), x=x, bias=bias,
                                      **shared)
        kernels["bias_gelu_d_bias"](d_bias=d_bias, parts=parts, **shared)
        return d_x, d_bias

    bias_gelu.register_fake(lambda x, bias: torch.empty_like(x))
    bias_gelu_backward.register_fake(lambda d_y, x, bias: (torch.empty_like(x),
                                                           torch.empty_like(bias)))
    bias_gelu.register_autograd(
        lambda ctx, d_y: bias_gelu_backward(d_y, *ctx.saved_tensors),
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

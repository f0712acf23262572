"""torch.ops.ligerdsl.*: opcheck of every operator, and torch.compile of every function without a
graph break."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib/codegen"))

from ops import OPS
from table import LOSSES
from torch.utils._python_dispatch import TorchDispatchMode

import ligerdsl
import ligerdsl.torch as lt
from cases import CASES, inputs_of, outputs_of


class Recorder(TorchDispatchMode):
    """Records the calls of this package's operators, with arguments that nothing else
    references."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "ligerdsl":
            copy = lambda value: value.detach().clone() if isinstance(value, torch.Tensor
                                                                      ) else value
            self.calls.append((function, tuple(copy(a) for a in args),
                               {name: copy(a)
                                for name, a in (kwargs or {}).items()}))
        return function(*args, **(kwargs or {}))


def accumulating(function, args, kwargs):
    """Returns the call of NAME_ that adds to the result of NAME, or None."""
    name = function._schema.name.split("::")[1] + "_"
    if not hasattr(torch.ops.ligerdsl, name):
        return None
    given = {argument.name: value
             for argument, value in zip(function._schema.arguments, args)} | kwargs
    made = function(*args, **kwargs)
    made = made if isinstance(made, tuple) else (made,)
    results = {result.name: value for result, value in zip(function._schema.returns, made)}
    summing = getattr(torch.ops.ligerdsl, name).default
    arguments, keywords = [], {}
    for argument in summing._schema.arguments:
        value = given.get(argument.name,
                          argument.default_value if argument.has_default_value() else None)
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = results[argument.name].to(
                torch.float32) if results[argument.name].numel() else None
            if "d_weight" not in argument.name and name in ("activation_backward_",
                                                            "dropout_backward_"):
                value = results[argument.name]
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            arguments.append(value)
    return summing, tuple(arguments), keywords


EDGE = 4  # all sizes in of_the_row() are equal, so that each divides the others


def of_the_row(op):
    """Returns a call of an operator with the tensors that its row always passes."""
    function = getattr(torch.ops.ligerdsl, op.name).default
    tensors, args, keywords = {tensor.name: tensor for tensor in op.tensors}, [], {}
    for argument in function._schema.arguments:
        if not argument.kwarg_only:
            args.append(random_tensor(op, tensors[argument.name]) if argument.name in
                        tensors else [torch.randn(EDGE), torch.randn(EDGE + 1)])
        elif not argument.has_default_value():
            keywords[argument.name] = EDGE
    return function, tuple(args), keywords


def random_tensor(op, tensor):
    """Returns a tensor of the row's shape, or None for an optional one."""
    if tensor.given:
        return None
    shape = []
    for spec in tensor.shape.split():
        letter = spec.rstrip("*").lstrip("0123456789")
        factor = int(spec.rstrip("*").removesuffix(letter) or 1)
        if letter and letter not in LOSSES:  # a loss has one element
            shape.append(EDGE * factor)
        elif not letter and tensor.shape != "1":
            shape.append(int(spec))
    field = op.field_named(tensor.dtype)
    dtypes = field.dtypes if field else (tensor.dtype, )
    if dtypes[0] in ("i32", "i64"):
        return torch.randint(0, EDGE, shape, dtype={"i32": torch.int32}.get(dtypes[0], torch.int64))
    return torch.rand(shape) + 0.1 if tensor.positive else torch.randn(shape)


def by_hand():
    """Returns calls with options that the functions in CASES do not pass, by operator."""
    ops, x, labels = torch.ops.ligerdsl, torch.randn(4, 6), torch.tensor([0, 5, -100, 2])
    partials = ops.vocab_parallel_cross_entropy_partials(x, labels)
    product = lambda a, b, c=(4, 5): ((torch.randn(a), torch.randn(b), torch.randn(5), torch.randn(
        c)), {"alpha": 0.5, "beta": 2.0})
    eight_bits = lambda *shape: torch.randn(*shape).to(torch.float8_e4m3fn)
    moments = [torch.randn(7), torch.randn(7), torch.rand(7), torch.rand(7)]
    return {
        "adamw_step": (tuple(moments), {"lr": 0.1, "step": 3}),
        "global_norm": (([x, torch.randn(5)], ), {"with_clip_factor": True}),
        "vocab_parallel_cross_entropy": ((x, labels, partials), {"with_d_logits": True}),
        "matmul_nn": product((4, 6), (6, 5)),
        "matmul_nt": product((4, 6), (5, 6)),
        "matmul_tn": product((6, 4), (6, 5)),
        "matmul_tt": product((6, 4), (5, 6)),
        **{f"batched_matmul_{order}": product((2, *((6, 4) if order[0] == "t" else (4, 6))),
                                              (2, *((5, 6) if order[1] == "t" else (6, 5))),
                                              (2, 4, 5)) for order in ("nn", "nt", "tn", "tt")},
        "scaled_matmul_nt": ((eight_bits(4, 6), eight_bits(5, 6), torch.rand(4), torch.rand(5),
                              torch.randn(5)), {"c_dtype": torch.float32}),
        "gated_matmul_nt": ((x, torch.randn(10, 6)), {"with_gate_up": True}),
        "gated_matmul_nt_backward": ((x, torch.randn(10, 6), torch.randn(4,
                                                                         5)), {"with_out": True}),
        "dropout_forward": ((x, x), {"p": 0.3, "seed": 7}),
        "dropout_backward": ((x, ), {"p": 0.3, "seed": 7}),
    }


def recorded(name):
    wanted, others = inputs_of(name)
    with Recorder() as recorder:
        outputs = outputs_of(CASES[name][0](*wanted, *others))
        torch.autograd.grad(outputs, wanted, [torch.randn_like(o) for o in outputs])
    return recorder.calls


checked = set()


def check(function, args, kwargs):
    utils = [
        "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"
    ]
    if any(isinstance(a, torch.Tensor) and a.dtype == torch.float8_e4m3fn for a in args):
        utils.remove("test_schema")  # it computes with the arguments: impossible in fp8
    torch.library.opcheck(function, args, kwargs, test_utils=utils)
    checked.add(function._schema.name.split("::")[1])


@pytest.mark.parametrize("name", CASES)
def test_opcheck(name):
    calls = recorded(name)
    assert calls
    for function, args, kwargs in calls:
        check(function, args, kwargs)
        summing = accumulating(
            function, args,
            kwargs) if "label_smoothing" not in kwargs or kwargs.get("d_weight_dtype") else None
        if summing:
            check(*summing)


def test_opcheck_of_the_others():
    for name, (args, kwargs) in by_hand().items():
        function = getattr(torch.ops.ligerdsl, name).default
        check(function, args, kwargs)
        summing = accumulating(function, args, kwargs)
        if summing:
            check(*summing)


def test_opcheck_of_the_rest():
    """Checks operators that no earlier test called, with the tensors of their rows."""
    assert [op.name for op in OPS] == ligerdsl.ops.__all__
    for op in [op for op in OPS if op.name not in checked]:
        call = of_the_row(op)
        check(*call)
        summing = accumulating(*call)
        if summing:
            check(*summing)


@pytest.mark.parametrize("name", CASES)
def test_compile_without_a_graph_break(name):
    ours = CASES[name][0]
    wanted, others = inputs_of(name)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *inputs: ours(*inputs), fullgraph=True, backend="aot_eager")
    outputs = outputs_of(compiled(*wanted, *others))
    upstream = [torch.randn_like(o) for o in outputs]
    found = torch.autograd.grad(outputs, wanted, upstream)
    expected = outputs_of(ours(*wanted, *others))
    for one, other in zip([*outputs, *found],
                          [*expected, *torch.autograd.grad(expected, wanted, upstream)]):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    with torch.no_grad():
        for one, other in zip(outputs_of(compiled(*wanted, *others)), expected):
            torch.testing.assert_close(one, other.detach(), rtol=1e-6, atol=1e-6)


def test_compile_a_block_with_inductor_and_new_shapes():
    norm, mlp = lt.RMSNorm(16), lt.SwiGLUMLP(16, 24)
    head = torch.nn.Parameter(torch.randn(11, 16))

    def loss_of(x, labels):
        h = x + mlp(norm(x))
        y, h = lt.fused_add_rms_norm(h, x, norm.weight)
        return lt.fused_linear_cross_entropy(y + h, head, labels)

    torch._dynamo.reset()
    compiled = torch.compile(loss_of, fullgraph=True)
    parameters = [*norm.parameters(), *mlp.parameters(), head]
    for rows in (3, 5, 8):
        x, labels = torch.randn(2, rows, 16), torch.randint(0, 11, (2, rows))
        loss, expected = compiled(x, labels), loss_of(x, labels)
        torch.testing.assert_close(loss, expected)
        for one, other in zip(torch.autograd.grad(2 * loss, parameters),
                              torch.autograd.grad(2 * expected, parameters)):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_fake_tensors():
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode():
        x, w = torch.empty(3, 8, requires_grad=True), torch.empty(8, requires_grad=True)
        y = lt.rms_norm(x, w)
        assert y.shape == (3, 8)
        d_x, d_w = torch.autograd.grad(y.sum(), (x, w))
        assert d_x.shape == (3, 8) and d_w.shape == (8,)
    with pytest.raises(TypeError, match="torch.ops.ligerdsl"):
        ligerdsl.ops.softmax_forward(x, y=x)


def test_plain_tensor_subclass_is_accepted():
    class Named(torch.Tensor):
        pass

    x = torch.randn(3, 8)
    torch.testing.assert_close(
        lt.softmax(x.as_subclass(Named)).as_subclass(torch.Tensor), torch.softmax(x, -1))

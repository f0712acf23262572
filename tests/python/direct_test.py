"""Tests autograd Functions that run without a Python frame, and the calls that they pass on to
Python."""

import contextlib
import gc
import importlib
import sys
import threading
import time
import weakref

import pytest

torch = pytest.importorskip("torch")
import torch.utils.checkpoint

import ligerdsl
import ligerdsl.torch as lt
from ligerdsl import _bind
from ligerdsl.torch import dispatch, fused_linear, gated, losses, norms, rows

rope = importlib.import_module("ligerdsl.torch.rope")  # `import` gives the function of this name


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def of_widths(*inputs):
    """Returns leaves of these shapes, and None for None."""
    return [shape if shape is None else leaf(*shape) for shape in inputs]


LABELS = torch.tensor([3, 0, -100, 7])


def turned(q, k=None, **options):
    """Applies rope with distinct angles per position."""
    angles = torch.arange(8 * 8.0).view(8, 8).sin()
    cos, sin = (angles.cos()[:q.shape[3 - options.get("heads_dim", 2)]],
                angles.sin()[:q.shape[3 - options.get("heads_dim", 2)]])
    outputs = lt.rope(q, k, cos, sin, **options)
    return outputs if k is not None else outputs[0]


# name: (function, its autograd Function, function that makes the tensors)
CASES = {
    "rms_norm": (lt.rms_norm, norms.RMSNormFunction, lambda *n: of_widths((*n, 8), (8,))),
    "rms_norm without weight": (lt.rms_norm, norms.RMSNormFunction,
                                lambda *n: of_widths((*n, 8), None)),
    "fused_add_rms_norm": (lt.fused_add_rms_norm, norms.FusedAddRMSNormFunction,
                           lambda *n: of_widths((*n, 8), (*n, 8), (8,))),
    "layer_norm": (lt.layer_norm, norms.LayerNormFunction,
                   lambda *n: of_widths((*n, 8), (8,), (8,))),
    "layer_norm without bias": (lt.layer_norm, norms.LayerNormFunction,
                                lambda *n: of_widths((*n, 8), (8,), None)),
    "fused_add_layer_norm": (lt.fused_add_layer_norm, norms.FusedAddLayerNormFunction,
                             lambda *n: of_widths((*n, 8), (*n, 8), (8,), (8,))),
    "swiglu": (lt.swiglu, gated.SwiGLUFunction, lambda *n: of_widths((*n, 8), (*n, 8))),
    "swiglu of one tensor": (lt.swiglu, gated.SwiGLUFunction, lambda *n: of_widths((*n, 16), None)),
    "geglu": (lt.geglu, gated.GeGLUFunction, lambda *n: of_widths((*n, 8), (*n, 8))),
    "softmax": (lambda x: lt.softmax(x, scale=0.5), rows.SoftmaxFunction,
                lambda *n: of_widths((*n, 8))),
    "activation": (lambda x: lt.activation(x, "silu"), rows.ActivationFunction,
                   lambda *n: of_widths((*n, 8))),
    "cross_entropy": (lambda x: lt.cross_entropy(x, LABELS), losses.CrossEntropyFunction,
                      lambda *n: of_widths((4, 8))),
    "cross_entropy by rows": (lambda x: lt.cross_entropy(x, LABELS, reduction="none"),
                              losses.CrossEntropyFunction, lambda *n: of_widths((4, 8))),
    "rope": (turned, rope.RopeFunction,
             lambda *n: of_widths((2, n[-1] if n else 1, 3, 8), (2, n[-1] if n else 1, 1, 8))),
    "rope of one tensor": (turned, rope.RopeFunction,
                           lambda *n: of_widths((2, n[-1] if n else 1, 3, 8), None)),
    "a head": (lambda x, w, b: lt.fused_linear_cross_entropy(x, w, LABELS, b, label_smoothing=0.1,
                                                             softcap=5.0),
               fused_linear.FusedLinearCrossEntropyFunction,
               lambda *n: of_widths((4, 8), (10, 8), (10,))),
    "a head without bias": (lambda x, w, b: lt.fused_linear_cross_entropy(
                                x, w, LABELS, reduction="sum", temperature=2.0),
                            fused_linear.FusedLinearCrossEntropyFunction,
                            lambda *n: of_widths((4, 8), (10, 8), None)),
}
LOSSES = [name for name in CASES if name.startswith(("cross_entropy", "a head"))]
HEADS = [name for name in CASES if name.startswith("a head")]


def outputs_of(result):
    return result if isinstance(result, tuple) else (result,)


def results(function, tensors, upstream=None):
    """Returns the outputs and the gradients of all leaves among `tensors`."""
    wanted = [t for t in tensors if t is not None and t.requires_grad]
    outputs = outputs_of(function(*tensors))
    if upstream is None:
        torch.manual_seed(5)
        upstream = [torch.randn_like(output) for output in outputs]
    return [*outputs, *torch.autograd.grad(outputs, wanted, upstream)]


@pytest.fixture
def own_ways(monkeypatch):
    """Uses only the Functions' own forward and backward."""
    class Own(dict):
        """Maps a twin made by `direct` to its Function's own apply()."""

        def get(self, function):
            return super(torch.autograd.Function, own.get(function, function)).apply

    def use():
        monkeypatch.setattr(dispatch, "_applies", Own())

    own = {twin: twin.__mro__[1] for _, kind, _ in CASES.values() for twin in kind.__subclasses__()}
    return use


@pytest.fixture
def counts(monkeypatch):
    """Records the steps that call `operations` from Python."""
    counted = []
    for module in (norms, gated, losses, rows, rope, fused_linear):
        def operations(*tensors, operations=module.operations):
            counted.append(len(tensors))
            return operations(*tensors)
        monkeypatch.setattr(module, "operations", operations)
    return counted


def equal(ours, expected):
    assert len(ours) == len(expected)
    for one, other in zip(ours, expected):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
        assert torch.equal(one, other)


@pytest.mark.parametrize("leading", [(4,), (2, 3), ()], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_bits_equal_those_of_the_function(name, leading, counts, own_ways):
    function, kind, make = CASES[name]
    tensors = make(*leading)
    ours = results(function, tensors)
    assert not counts, "it went by Python"
    assert ours[0].grad_fn.name() == kind.__name__ + "Backward"
    own_ways()
    equal(ours, results(function, tensors))
    # an lm_head's backward only scales gradients of the forward pass, so nothing is counted
    assert len(counts) == (1 if name in HEADS else 2)


@pytest.mark.parametrize("name", CASES)
def test_each_gradient_alone(name, counts, own_ways):
    function, _, make = CASES[name]
    tensors = make(4)
    found = []
    for way in (lambda: None, own_ways):
        way()
        for i, one in enumerate(tensors):
            if one is not None:
                found.append(results(
                    function,
                    [t if t is None or j == i else t.detach() for j, t in enumerate(tensors)]))
    for one, other in zip(found[:len(found) // 2], found[len(found) // 2:]):
        equal(one, other)
    assert len(counts) == len(found) // (2 if name in HEADS else 1)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_any_layout(name, counts):
    function, _, make = CASES[name]
    tensors = make(4)
    upstream = [torch.ones(()).expand(output.shape) for output in outputs_of(function(*tensors))]
    equal(results(function, tensors, upstream),
          results(function, tensors, [u.contiguous() for u in upstream]))
    assert not counts


@pytest.mark.parametrize("name", [name for name in CASES if name not in LOSSES])
def test_no_rows_and_a_gradient_without_strides(name, own_ways):
    """torch reports a tensor expanded from one element to zero elements as contiguous, with strides
    of 0."""
    function, _, make = CASES[name]
    tensors = make(0)
    for way in (lambda: None, own_ways):
        way()
        outputs = outputs_of(function(*tensors))
        found = results(function, tensors,
                        [torch.ones(()).expand(output.shape) for output in outputs])
        for gradient, tensor in zip(found[len(outputs):], [t for t in tensors if t is not None]):
            assert torch.equal(gradient, torch.zeros_like(tensor))


class Passing(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", CASES)
def test_checkpoint_with_first_run_under_a_mode(name):
    """A checkpoint counts saved tensors: both paths must save the same."""
    function, _, make = CASES[name]
    inputs = make(3)
    through = lambda: torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)
    wanted = [t for t in inputs if t is not None and t.requires_grad]
    total = lambda outputs: sum(o.square().sum()
                                for o in (outputs if isinstance(outputs, tuple) else (outputs,)))
    with Passing():
        loss = total(through())
    for one, other in zip(torch.autograd.grad(loss, wanted),
                          torch.autograd.grad(total(function(*inputs)), wanted)):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name, operation",
                         [("rms_norm without weight", "rms_norm_forward"),
                          ("layer_norm without bias", "layer_norm_forward"),
                          ("swiglu of one tensor", "swiglu_forward"),
                          ("softmax", "softmax_forward")])
def test_errors_name_the_operation(name, operation):
    function, _, make = CASES[name]
    number = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(ValueError, match=f"{operation}: "):
        function(*[number if i == 0 else t for i, t in enumerate(make(4))])


@pytest.mark.parametrize(
    "name",
    [name for name in CASES if name.split()[0] in ("rms_norm", "layer_norm", "swiglu", "geglu")])
def test_in_place(name, counts):
    """The input gradient of a norm overwrites the upstream gradient; gradients of a gate overwrite
    its inputs."""
    function, _, make = CASES[name]
    tensors = make(4)
    upstream = torch.randn_like(outputs_of(function(*tensors))[0])
    expected = results(function, tensors, [upstream])
    inputs = [t if t is None else t * 1 for t in tensors]
    given = upstream.clone()
    taken = [t for t in inputs if t is not None]
    output = function(*inputs, in_place=True)
    before = [t._version for t in [given, *taken]]
    ours = [output, *torch.autograd.grad(output, taken, given, retain_graph=True)]
    equal(ours, expected)
    over = [given] if "norm" in name else taken
    assert [one.data_ptr() for one in ours[1:1 + len(over)]] == [one.data_ptr() for one in over]
    changed = [now._version - then for now, then in zip([given, *taken], before)]
    assert (changed == ([1] + [0] * len(taken) if "norm" in name else [0] + [1] * len(taken))
            and not counts)
    if "norm" in name:
        again = torch.autograd.grad(output, taken, upstream.clone())
        equal(again, expected[1:])
    else:
        with pytest.raises(ligerdsl.NotSupported, match="a second backward"):
            torch.autograd.grad(output, taken, upstream.clone())


def test_an_output_without_a_gradient(counts):
    x, r, w = of_widths((4, 8), (4, 8), (8,))
    for which in (0, 1):
        taken = lt.fused_add_rms_norm(x, r, w)[which].sum()
        gradients = torch.autograd.grad(taken, (x, r, w), allow_unused=True)
        y = torch.nn.functional.rms_norm(x + r, (8,), w, 1e-6) if which == 0 else x + r
        expected = torch.autograd.grad(y.sum(), (x, r, w), allow_unused=True)
        for one, other in zip(gradients, expected):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert not counts


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_still_raise(name):
    function, _, make = CASES[name]
    tensors = [t for t in make(4)]
    output = outputs_of(function(*tensors))[0].square().sum()
    gradient, = torch.autograd.grad(output, tensors[:1], create_graph=True)
    with pytest.raises(ligerdsl.NotSupported, match="second derivatives are not supported"):
        gradient.sum().backward()


@pytest.mark.parametrize("name", CASES)
def test_freed_graph_raises(name):
    function, _, make = CASES[name]
    output = outputs_of(function(*make(4)))[0].sum()
    output.backward()
    with pytest.raises(RuntimeError, match="a second backward" if name in HEADS else "second time"):
        output.backward()


@pytest.mark.parametrize("name", CASES)
def test_changed_saved_tensor_raises(name):
    function, _, make = CASES[name]
    tensors = make(4)
    output = outputs_of(function(*[t if t is None else t * 1 for t in tensors]))[0]
    held = [t for t in output.grad_fn.saved_tensors if t is not None]
    with torch.no_grad():
        held[0].add_(1)
    with pytest.raises(RuntimeError, match="inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("contiguous", [True, False])
def test_rope_of_heads_first_copies_nothing(contiguous, counts, own_ways):
    """A gradient with strided heads is read in place; one with strided columns is copied."""
    q, k = of_widths((2, 3, 4, 8), (2, 1, 4, 8))
    upstream = [torch.randn_like(t) for t in (q, k)]
    if not contiguous:
        upstream = [u.transpose(2, 3).contiguous().transpose(2, 3) for u in upstream]
    found = []
    for way in (lambda: None, own_ways):
        way()
        found.append(results(lambda q, k: turned(q, k, heads_dim=1, layout="interleaved"), [q, k],
                             upstream))
        assert len(counts) == (0 if len(found) == 1 else 2)
    equal(*found)
    assert found[0][2].is_contiguous() == contiguous


def test_head_falls_back_to_its_function(counts):
    x, w = of_widths((4, 8), (10, 8))
    whole = lt.fused_linear_cross_entropy(x, w, LABELS, reduction="sum")
    expected = torch.autograd.grad(whole, (x, w))
    assert not counts
    for options, by in (({"num_items": 5}, 5), ({"num_items": torch.tensor(5)}, 5),
                        ({"reduction": "sum", "grad_scale": torch.tensor(2.0)}, 1),
                        ({"reduction": "none"}, 1), ({"reduction": "sum", "with_entropy": True}, 1),
                        ({"reduction": "sum", "with_accuracy": True}, 1)):
        counts.clear()
        result = lt.fused_linear_cross_entropy(x, w, LABELS, **options)
        loss = (result if isinstance(result, torch.Tensor) else result.loss).sum()
        found = torch.autograd.grad(loss, (x, w))
        assert counts, options
        torch.testing.assert_close((loss, *found), tuple(t / by for t in (whole, *expected)),
                                   msg=str(options))


def test_head_returns_its_gradients_once(counts):
    x, w = of_widths((4, 8), (10, 8))
    loss = lt.fused_linear_cross_entropy(x, w, LABELS)
    expected = torch.autograd.grad(lt.fused_linear_cross_entropy(x, w, LABELS), (x, w),
                                   torch.tensor(0.5))
    equal(torch.autograd.grad(loss, (x, w), torch.tensor(0.5), retain_graph=True), expected)
    with pytest.raises(ligerdsl.NotSupported, match="a second backward"):
        torch.autograd.grad(loss, (x, w), torch.tensor(0.5))
    frozen = lt.fused_linear_cross_entropy(x, w.detach(), LABELS)
    # a frozen weight has no gradient to save
    assert [t is None for t in frozen.grad_fn.saved_tensors] == [False, True, True, False, False,
                                                                 True, True]
    equal(torch.autograd.grad(frozen, (x,), torch.tensor(0.5)), expected[:1])
    unused = lt.fused_linear_cross_entropy(x.detach(), w, LABELS)
    equal(torch.autograd.grad(unused, (w,), torch.tensor(0.5)), expected[1:])
    assert not counts


@pytest.mark.parametrize("its_own", [False, True])
def test_a_heads_backward_reports_labels(its_own, own_ways):
    """The forward pass does not check labels. On a GPU, it returns before they are read."""
    if its_own:
        own_ways()
    x, w = of_widths((2, 8), (10, 8))
    lt.config.check_labels = "off"
    try:
        loss = lt.fused_linear_cross_entropy(x, w, torch.tensor([0, 10]))
    finally:
        lt.config.check_labels = "lazy"
    with pytest.raises(ligerdsl.LabelError, match="row 1"):
        loss.backward()
    assert x.grad is None and w.grad is None
    lt.poll()


def test_a_head_adds_to_main_grad():
    x, w = of_widths((4, 8), (10, 8))
    expected, = torch.autograd.grad(lt.fused_linear_cross_entropy(x, w, LABELS), w)
    w.main_grad = torch.ones(10, 8)
    loss = lt.fused_linear_cross_entropy(x, w, LABELS)
    try:
        lt.config.main_grad = True
        loss.backward()
    finally:
        lt.config.main_grad = False
    assert w.grad is None and x.grad is not None
    torch.testing.assert_close(w.main_grad, expected + 1)


def test_modes_see_operators():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    names = []
    x, w = of_widths((4, 8), (8,))
    with Seen():
        y = lt.rms_norm(x, w)
    assert any("ligerdsl.rms_norm_forward" in name for name in names)
    y = lt.rms_norm(x, w)
    with Seen():
        y.sum().backward()
    assert any("ligerdsl.rms_norm_backward" in name for name in names)


def test_saved_tensor_hooks_run(counts):
    x, w = of_widths((4, 8), (8,))
    packed = []

    def pack(tensor):
        packed.append(tensor.shape)
        return tensor.detach().numpy().copy()

    expected = results(lt.rms_norm, [x, w])
    with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
        ours = results(lt.rms_norm, [x, w])
    equal(ours, expected)
    assert packed == [(4, 8), (8,), (4,)] and not counts


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant):
    x, w, b = of_widths((4, 8), (8,), (8,))
    through = lambda x: torch.utils.checkpoint.checkpoint(
        lambda x: lt.layer_norm(lt.rms_norm(x, w), w, b), x, use_reentrant=reentrant)
    for parameter in (x, w, b):
        parameter.grad = None
    lt.layer_norm(lt.rms_norm(x, w), w, b).square().sum().backward()
    expected = [t.grad.clone() for t in (x, w, b)]
    for parameter in (x, w, b):
        parameter.grad = None
    through(x).square().sum().backward()
    equal([x.grad, w.grad, b.grad], expected)


@pytest.mark.parametrize("between", [False, True])
def test_main_grad(between):
    """main_grad is enabled before the forward pass, or between forward and backward of a norm."""
    x, w = of_widths((4, 8), (8,))
    expected, = torch.autograd.grad(lt.rms_norm(x, w).sum(), w)
    w.main_grad = torch.ones(8)
    try:
        lt.config.main_grad = not between
        y = lt.rms_norm(x, w)
        lt.config.main_grad = True
        y.sum().backward()
    finally:
        lt.config.main_grad = False
    assert w.grad is None
    torch.testing.assert_close(w.main_grad, expected + 1)


def test_errors_have_the_librarys_text():
    with pytest.raises(ligerdsl.InvalidArgument, match="`weight`: expected"):
        lt.rms_norm(leaf(2, 4), leaf(5))
    with pytest.raises(ligerdsl.InvalidArgument, match="bias_dtype"):
        lt.layer_norm(leaf(2, 4), leaf(4), leaf(4, dtype=torch.bfloat16))
    with pytest.raises(ligerdsl.LabelError):
        lt.cross_entropy(leaf(2, 4), torch.tensor([0, 9]))
    with pytest.raises(Exception, match="rms_norm|dimension"):
        lt.rms_norm(leaf(()), None)


@pytest.mark.parametrize("shape", [(3, 16), (5, 7, 16), (4, 16), (16,), (0, 16)])
@pytest.mark.parametrize("hooks", [False, True])
def test_statistics_are_aligned(shape, hooks):
    """Saved statistics are aligned to 16 bytes, whatever the number of rows."""
    x, w, b = leaf(*shape), leaf(16), leaf(16)
    context = (torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t) if hooks
               else contextlib.nullcontext())
    with context:
        y = lt.layer_norm(x, w, b)
    statistics, = (t for t in y.grad_fn.saved_tensors if t.shape == (2, *shape[:-1]))
    assert all(part.data_ptr() % 16 == 0 for part in statistics)
    torch.testing.assert_close(
        torch.autograd.grad(y.square().sum(), (x, w, b)),
        torch.autograd.grad(torch.nn.functional.layer_norm(x, (16,), w, b).square().sum(),
                            (x, w, b)),
        atol=1e-4, rtol=1e-4)


def test_no_tensor_is_leaked():
    """Tensors are freed with their last reference, without the cycle collector; passed constants
    keep their reference counts."""
    gc.disable()
    try:
        for name, (function, _, make) in CASES.items():
            tensors = make(4)
            results(function, tensors)
            before = [sys.getrefcount(value) for value in (torch.float32, torch.empty_like, LABELS)]
            for _ in range(50):
                found = results(function, tensors)
            watched = [weakref.ref(t) for t in [*found, *tensors] if t is not None]
            del found, tensors
            assert [ref() for ref in watched] == [None] * len(watched), name
            after = [sys.getrefcount(value) for value in (torch.float32, torch.empty_like, LABELS)]
            assert all(now - then < 25 for now, then in zip(after, before)), name
    finally:
        gc.enable()


def test_threads():
    inputs = {name: make(4) for name, (_, _, make) in CASES.items()}

    def with_ones(name):
        function = CASES[name][0]
        return results(function, inputs[name],
                       [torch.ones_like(output) for output in outputs_of(function(*inputs[name]))])

    expected = {name: with_ones(name) for name in inputs}
    wrong = []

    def work():
        try:
            for _ in range(30):
                for name in inputs:
                    equal(with_ones(name), expected[name])
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("of_gates", [lt.swiglu, lt.geglu])
def test_overwritten_tensor_held_by_hooks_is_not_read_again(of_gates):
    gate, up = leaf(4, 8), leaf(4, 8)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        y = of_gates(gate * 1, up * 1, in_place=True)
    torch.autograd.grad(y, (gate, up), torch.ones_like(y), retain_graph=True)
    with pytest.raises(ligerdsl.NotSupported, match="second backward"):
        torch.autograd.grad(y, (gate, up), torch.ones_like(y))


@pytest.mark.parametrize("of_gates", [lt.swiglu, lt.geglu])
def test_only_one_thread_overwrites_tensor_held_by_hooks(of_gates):
    def unpack(tensor):
        time.sleep(0.05)  # meanwhile the other thread unpacks, too
        return tensor

    gate, up = leaf(4, 8), leaf(4, 8)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        y = of_gates(gate * 1, up * 1, in_place=True)
    refused = []

    def backward():
        try:
            torch.autograd.grad(y, (gate, up), torch.ones_like(y), retain_graph=True)
        except ligerdsl.NotSupported as error:
            refused.append(str(error))

    threads = [threading.Thread(target=backward) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1 and "second backward" in refused[0]


@pytest.mark.parametrize("in_place", [False, True])
def test_error_of_a_hook_is_raised_once(in_place):
    calls = []

    def unpack(x):
        calls.append(x)
        raise KeyboardInterrupt

    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        y = lt.swiglu(leaf(4, 8) * 1, leaf(4, 8) * 1, in_place=in_place)
    with pytest.raises(KeyboardInterrupt):
        y.sum().backward()
    assert len(calls) == 1


def test_reloaded_modules_work():
    """Each reload makes new Functions, and the old ones keep working."""
    x, weight = leaf(4, 8), leaf(8)
    upstream = torch.randn(4, 8)
    kinds = [norms._rms_norm_direct("x") for _ in range(200)]
    expected = results(lt.rms_norm, (x, weight), [upstream])
    for kind in (kinds[0], kinds[100], kinds[-1]):
        equal(results(lambda *tensors: kind.apply(*tensors, (1e-6, 0.0, 0, False)), (x, weight),
                      [upstream]),
              expected)


def test_invalid_plans_are_refused():
    forward = norms.RMSNormFunction.forward
    steps = b"\0\0\0\0" b"\0\1\0\0" b"\4\0\0\0" b"\5\0\0\0" b"\1\0\0\0" b"\1\0\0\0" b"\1\0\0\0"
    backward = (b"\0\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\4\2\1\0\4\3\2\0\1\0\0\0\1\0\0\0\2\0\0\0")
    good = [forward, 2, 1, 0, "rms_norm_forward", steps, "rms_norm_backward", backward, b"\0\1\3",
            b"\2", b"\4\5"]
    assert callable(_bind.direct_forward(*good))
    for place, value in [(1, 0), (1, 9), (2, 0), (2, 2), (4, "none_such"), (4, ""),
                         (4, "rms_norm_forward rms_norm_forward"), (6, ""), (6, "rms_norm_backwar"),
                         (6, "rms_norm_backward scale"), (6, "scale scale scale scale scale"),
                         (5, steps[:-4]), (5, steps[:-1]), (5, b"\0\7" + steps[2:]),
                         (5, b"\x0a" + steps[1:]), (7, backward[:16] + b"\4\x30\1" + backward[19:]),
                         (8, b"\0\1\x30"), (8, b"\0" * 40), (9, b"\x20"), (9, b"\2\2"),
                         (10, b"\4\6"), (10, b"\4")]:
        bad = list(good)
        bad[place] = value
        with pytest.raises(ValueError, match="direct: "):
            _bind.direct_forward(*bad)
    scale = b"\0\0\0\0" b"\0\1\0\0" b"\x08\0\0\0" b"\2\0\0\0"
    assert callable(_bind.direct_forward(*good[:6], "rms_norm_backward scale scale",
                                         backward + 2 * scale, *good[8:]))
    with pytest.raises(ValueError, match="direct: "):  # step 2 reads the result of step 3
        _bind.direct_forward(*good[:6], "rms_norm_backward scale scale",
                             backward + b"\0\7" + scale[2:] + scale, *good[8:])
    with pytest.raises(TypeError, match="direct_backward"):
        _bind.direct_backward(len, norms.RMSNormFunction._backward_cls)
    with pytest.raises(RuntimeError, match="belongs to no Function of this library"):
        class Other(norms._RMS_NORMS[0]._backward_cls):
            pass
        Other().apply(torch.ones(1))

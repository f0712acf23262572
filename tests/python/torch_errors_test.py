"""Invalid input through torch, and calls that must not crash the interpreter."""

import gc
import threading
import weakref

import pytest

torch = pytest.importorskip("torch")

import ligerdsl
import ligerdsl.torch as lt
from cases import CASES, inputs_of, outputs_of


def x(*shape):
    return torch.randn(*shape)


@pytest.mark.parametrize("call, kind, words", [
    (lambda: lt.rms_norm(x(2, 4), x(5)), ligerdsl.InvalidArgument, "`weight`: expected"),
    (lambda: lt.rms_norm(x(2, 4).double()), ligerdsl.InvalidArgument, "INVALID_DTYPE"),
    (lambda: lt.rms_norm(torch.ones(2, 4, dtype=torch.complex64)), ligerdsl.InvalidArgument,
     "INVALID_DTYPE"),
    (lambda: lt.rms_norm(torch.ones(2, 4, dtype=torch.int64)), ligerdsl.InvalidArgument,
     "INVALID_DTYPE"),
    (lambda: lt.rms_norm(x(2, 4), casting="gemini"), ValueError,
     "expected one of llama, gemma, none"),
    (lambda: lt.rms_norm(x(2, 4), casting=None), TypeError,
     "expected one of llama, gemma, none, got None"),
    (lambda: lt.cross_entropy(x(2, 4), torch.tensor([0, 1]), reduction="max"), ValueError,
     "expected one of none, sum, mean"),
    (lambda: lt.rms_norm(torch.empty(2, 4, device="meta")), TypeError,
     "`x`: expected a tensor with memory, got one on the meta device"),
    (lambda: lt.rms_norm(x(2, 4).to_sparse()), TypeError,
     r"got one with the layout torch.sparse_coo; call to_dense\(\)"),
    (lambda: lt.rms_norm(torch._neg_view(x(2, 4))), ValueError, "resolve_neg"),
    (lambda: lt.rms_norm([1.0]), TypeError, "expected a torch.Tensor, got a builtins.list"),
    (lambda: lt.swiglu(x(2, 4), x(2, 5)), ligerdsl.InvalidArgument, "INVALID_SHAPE"),
    (lambda: lt.swiglu(x(2, 5)), ligerdsl.InvalidArgument, "INVALID_SHAPE"),
    (lambda: lt.cross_entropy(x(2, 4), torch.tensor([0, 1, 2])), ligerdsl.InvalidArgument,
     "INVALID_SHAPE"),
    (lambda: lt.cross_entropy(x(2, 4), x(2)), ligerdsl.InvalidArgument, "label_dtype"),
    (lambda: lt.rope(x(1, 2, 3, 8), None, x(2, 8).requires_grad_(), x(2, 8)), ligerdsl.NotSupported,
     "detach"),
    (lambda: lt.jsd(x(2, 4), x(2, 4).requires_grad_()), ligerdsl.NotSupported,
     "target has no gradient"),
    (lambda: lt.attention(*[x(1, 4, 2, 8)] * 3, scale=0.0), ValueError,
     "scale: expected a number other than 0"),
    (lambda: lt.grouped_linear(x(6, 4), x(3, 5, 4), torch.tensor([0, 2, 6])),
     ligerdsl.InvalidArgument, "`offsets`: expected 4 elements"),
    (lambda: lt.grouped_linear(x(6, 4), x(3, 5, 3), torch.tensor([0, 2, 2, 6])),
     ligerdsl.InvalidArgument, "`b`: expected"),
    (lambda: lt.grouped_linear(x(6, 4), x(3, 5, 4), x(4)), ligerdsl.InvalidArgument, "index_dtype"),
    (lambda: lt.grouped_linear(x(6, 4), x(3, 5, 4), torch.tensor([0, 4, 2, 6])),
     ligerdsl.BoundsError, "offsets out of bounds at group 1"),
    (lambda: lt.grouped_linear(x(6, 4), x(3, 5, 4), torch.tensor([0, 2, 4, 7])),
     ligerdsl.BoundsError, "offsets out of bounds at group 2"),
    (lambda: lt.dropout(x(2, 4), 1.5), ligerdsl.InvalidArgument, "`p`"),
    (lambda: lt.AdamW([x(3).requires_grad_()], lr=-1), ValueError, "expected lr"),
])
def test_bad_input(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
    assert torch.allclose(lt.softmax(x(2, 4)).sum(-1), torch.ones(2))


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_numpy_arrays_are_refused_with_a_message(name, gradients):
    wanted, others = inputs_of(name)
    for i in range(len(wanted)):
        inputs = [t.detach().numpy() if i == j else t for j, t in enumerate(wanted)]
        with torch.set_grad_enabled(gradients), pytest.raises(
                TypeError, match=r"expected a (torch\.T|t)ensor, got (a numpy\.)?ndarray"):
            CASES[name][0](*inputs, *others)


@pytest.mark.parametrize("name", CASES)
def test_torch_func_transforms_are_refused_with_a_message(name):
    wanted, others = inputs_of(name)
    inputs = [t.detach() for t in wanted]
    total = lambda *inputs: sum(o.sum() for o in outputs_of(CASES[name][0](*inputs, *others)))
    for call in (lambda: torch.func.grad(total)(*inputs), lambda: torch.func.jacrev(total)(*inputs),
                 lambda: torch.vmap(total)(*[torch.stack([t, t]) for t in inputs])):
        with pytest.raises(
                (ligerdsl.NotSupported, TypeError),
                match="transforms of torch.func .* are not supported; use torch.autograd.grad"):
            call()


def test_the_same_errors_through_the_operator():
    with pytest.raises(ligerdsl.InvalidArgument, match="`weight`: expected"):
        torch.ops.ligerdsl.rms_norm_forward(x(2, 4), x(5))


def test_integers_have_no_gradients():
    with pytest.raises(RuntimeError, match="floating point"):
        lt.embedding(torch.tensor([1]).requires_grad_(), x(3, 4))


@pytest.mark.parametrize("name", CASES)
def test_a_second_derivative_raises(name):
    wanted, others = inputs_of(name)
    outputs = outputs_of(CASES[name][0](*wanted, *others))
    gradients = torch.autograd.grad(sum(o.square().sum() for o in outputs), wanted,
                                    create_graph=True)
    with pytest.raises((ligerdsl.NotSupported, RuntimeError),
                       match="second derivatives are not supported|does not require grad"):
        sum(g.sum() for g in gradients if g.requires_grad).backward()
    assert all(g.requires_grad for g in gradients)


def test_double_backward_without_retain_graph():
    a = x(2, 4).requires_grad_()
    y = lt.rms_norm(a).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_an_input_changed_before_backward():
    a = x(2, 4).requires_grad_()
    b = a * 1
    y = lt.rms_norm(b)
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_no_tensor_is_leaked():
    a = x(64, 64)
    reference = weakref.ref(a)
    y = lt.rms_norm(a)
    del a
    gc.collect()
    assert reference() is None
    assert torch.isfinite(y).all()


def test_tensors_dropped_before_backward():
    """autograd keeps the tensors that backward reads."""
    w = x(64).requires_grad_()
    y = lt.rms_norm(x(64, 64), w)
    gc.collect()
    for _ in range(10):
        x(64, 64)
    y.sum().backward()
    assert torch.isfinite(w.grad).all()


def freed(tensor, base=None):
    """Frees the tensor's storage, as FSDP does between two uses of a module."""
    (tensor if base is None else base).untyped_storage().resize_(0)
    return tensor


def second_row():
    base = x(2, 8)
    return freed(base[1], base)


def backward_after_freeing(function, *inputs):
    """Frees one of the tensors that backward reads, then runs backward."""
    y = function(*inputs)
    freed([t for t in y.grad_fn.saved_tensors if t is not None][-1])
    torch.autograd.grad(y.sum(), [t for t in inputs if t.requires_grad])


@pytest.mark.parametrize("call, kind, words", [
    (lambda: lt.rms_norm(x(2, 8), freed(x(8))), ligerdsl.InvalidArgument, "`weight`: data is NULL"),
    (lambda: lt.rms_norm(x(2, 8).requires_grad_(), freed(x(8))), ligerdsl.InvalidArgument,
     "`weight`: data is NULL"),
    (lambda: lt.rms_norm(x(2, 8), second_row()), ValueError,
     "`weight`: the tensor's storage was freed"),
    (lambda: lt.rms_norm(x(2, 8).requires_grad_(), second_row()), ValueError,
     "`weight`: the tensor's storage was freed"),
    (lambda: backward_after_freeing(lt.rms_norm, x(2, 8).requires_grad_()),
     ligerdsl.InvalidArgument, "`rstd`: data is NULL"),
    (lambda: backward_after_freeing(lt.layer_norm, x(2, 8).requires_grad_(), x(8), x(8)),
     ligerdsl.InvalidArgument, "`mean`: data is NULL"),
    (lambda: backward_after_freeing(
         lambda h, w: lt.fused_linear_cross_entropy(h, w, torch.tensor([0, 1])),
         x(2, 8).requires_grad_(), x(5, 8).requires_grad_()),
     ligerdsl.InvalidArgument, "scale: `x`: data is NULL"),
])
def test_freed_memory_is_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("call, kind, words", [
    (lambda a: lt.rope(a(1, 2, 3, 8), a(1, 2, 1, 6), x(2, 8), x(2, 8)), ligerdsl.InvalidArgument,
     "rope: `k`"),
    (lambda a: lt.rope(a(1, 2, 3, 8), None, x(1, 8), x(1, 8)), ligerdsl.InvalidArgument,
     "rope: `cos`"),
    (lambda a: lt.rope(a(1, 2, 3, 8), None, x(2, 8).double(), x(2, 8).double()),
     ligerdsl.InvalidArgument, "table_dtype"),
    (lambda a: lt.rope(a(2, 8), None, x(2, 8), x(2, 8)), ValueError, "rope: `q`"),
    (lambda a: lt.fused_linear_cross_entropy(a(2, 4), a(5, 6), torch.tensor([0, 1])),
     ligerdsl.InvalidArgument, "`weight`: expected"),
    (lambda a: lt.fused_linear_cross_entropy(a(2, 4), a(5, 4), torch.tensor([0, 1, 2])),
     ligerdsl.InvalidArgument, "`labels`: expected"),
    (lambda a: lt.fused_linear_cross_entropy(a(2, 4), a(5, 4), x(2)), ligerdsl.InvalidArgument,
     "label_dtype"),
    (lambda a: lt.fused_linear_cross_entropy(a(2, 4), a(5, 4), torch.tensor([0, 5])),
     ligerdsl.LabelError, "row 1"),
    (lambda a: lt.fused_linear_cross_entropy(a(2, 4), torch.empty(5, 4, device="meta"),
                                             torch.tensor([0, 1])),
     TypeError, "`weight`: expected a tensor with memory"),
    (lambda a: lt.fused_linear_cross_entropy(a(2, 4).double(), a(5, 4).double(),
                                             torch.tensor([0, 1])),
     ligerdsl.InvalidArgument, "INVALID_DTYPE"),
])
def test_bad_input_with_gradients(call, kind, words):
    with pytest.raises(kind, match=words):
        call(lambda *shape: x(*shape).requires_grad_())


@pytest.mark.parametrize("mode", ["lazy", "sync"])
def test_labels(mode):
    logits = x(3, 5).requires_grad_()
    lt.config.check_labels = mode
    try:
        with pytest.raises(ligerdsl.LabelError, match="cross_entropy.* out of bounds in row 1"):
            lt.cross_entropy(logits, torch.tensor([0, 5, 1]))
        with pytest.raises(IndexError, match="fused_linear_cross_entropy"):
            lt.fused_linear_cross_entropy(x(3, 4), x(5, 4), torch.tensor([0, 1, -1]))
        assert torch.isfinite(lt.cross_entropy(logits, torch.tensor([0, 4, 1])))
    finally:
        lt.config.check_labels = "lazy"


def test_labels_unchecked():
    lt.config.check_labels = "off"
    try:
        assert lt.cross_entropy(x(3, 5), torch.tensor([0, 5, 1])).isnan()
    finally:
        lt.config.check_labels = "lazy"
    with pytest.raises(ligerdsl.LabelError):
        lt.poll()
    lt.poll()
    with pytest.raises(ValueError, match="expected one of off, lazy, sync"):
        lt.config.check_labels = "sometimes"


def test_threads():
    """The interpreter's lock is released while the CPU computes; results equal those of one
    thread."""
    inputs = [(x(32, 64), x(64)) for _ in range(8)]
    expected = [lt.rms_norm(*each) for each in inputs]
    failures = []

    def work(each, result):
        for _ in range(200):
            if not torch.equal(lt.rms_norm(*each), result):
                failures.append(each)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threads_compile_one_plan():
    """Eight threads call with a width that has no plan yet."""
    a = x(4, 517)
    results = [None] * 8
    threads = [threading.Thread(target=lambda i=i: results.__setitem__(i, lt.rms_norm(a)))
               for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(result, results[0]) for result in results)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        torch.manual_seed(i)
        return lt.rms_norm(torch.randn(4, 16))


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_data_loader(start):
    """Workers compute, even if forked from a process with a context."""
    data = Rows()
    expected = torch.stack([data[i] for i in range(8)])
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2,
                                         multiprocessing_context=start)
    torch.testing.assert_close(torch.cat(list(loader)), expected, rtol=0, atol=0)


def test_a_tensor_of_another_device_is_refused():
    class Elsewhere:
        def __dlpack_device__(self):
            return (10, 0)

        def __dlpack__(self, **options):
            raise AssertionError("never asked")

    with pytest.raises(ValueError, match="on a GPU, expected a torch.Tensor"):
        ligerdsl.ops.softmax_forward(Elsewhere(), y=x(2, 2))

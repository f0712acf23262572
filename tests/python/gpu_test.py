"""Properties of a GPU: streams, memory of torch's allocator, graphs, late label errors, several
devices."""

import gc

import pytest

torch = pytest.importorskip("torch")

import ligerdsl
import ligerdsl.torch as lt
from cases import CASES, inputs_of, outputs_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
DTYPES = {torch.float32: dict(rtol=2e-3, atol=2e-3), torch.bfloat16: dict(rtol=4e-2, atol=4e-2),
          torch.float16: dict(rtol=6e-3, atol=6e-3)}


def on_gpu(name, dtype=torch.float32):
    wanted, others = inputs_of(name, dtype)
    return [t.detach().cuda().requires_grad_() for t in wanted], [t.cuda() for t in others]


def run(function, wanted, others, upstream=None):
    outputs = outputs_of(function(*wanted, *others))
    upstream = upstream or [torch.randn_like(o) for o in outputs]
    return outputs, torch.autograd.grad(
        outputs, wanted, [u.to(o.dtype) for u, o in zip(upstream, outputs)]), upstream


@pytest.fixture(autouse=True)
def exact_products():
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_against_float64(name, dtype):
    ours, reference, _, _ = CASES[name]
    if name == "sparsemax":
        pytest.skip("its reference is for a CPU")
    wanted, others = on_gpu(name, dtype)
    outputs, found, upstream = run(ours, wanted, others)
    exact = [t.detach().double().cpu().requires_grad_() for t in wanted]
    expected, gradients, _ = run(
        reference, exact, [t.double().cpu() if t.is_floating_point() else t.cpu() for t in others],
        [u.cpu() for u in upstream])
    for one, other in zip([*outputs, *found], [*expected, *gradients]):
        torch.testing.assert_close(one.double().cpu(), other, **DTYPES[dtype])


@pytest.mark.filterwarnings("ignore::ligerdsl.errors.CopyWarning")
@pytest.mark.parametrize("name", CASES)
def test_transposed_inputs_and_upstream_gradients_are_copied(name):
    """The results equal those of contiguous tensors."""
    transposed = lambda t: t.mT.contiguous().mT if t.dim() > 1 else t
    wanted, others = on_gpu(name)
    outputs, found, upstream = run(CASES[name][0], wanted, others)
    moved = [transposed(t.detach()).requires_grad_() for t in wanted]
    ours, gradients, _ = run(CASES[name][0], moved, others, [transposed(u) for u in upstream])
    for one, other in zip([*ours, *gradients], [*outputs, *found]):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_the_current_stream():
    x, stream = torch.randn(4096, 4096, device="cuda"), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(20):
            y = lt.rms_norm(x)
            x = y * 1.01  # torch's kernel reads y and makes the next x
    stream.synchronize()
    expected = x / 1.01
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)


def test_workspace_comes_from_torchs_allocator_and_is_freed():
    x, w = (torch.randn(8192, 4096, device="cuda", requires_grad=True),
            torch.randn(4096, device="cuda", requires_grad=True))
    y = lt.rms_norm(x, w)
    d_y = torch.randn_like(y)
    torch.autograd.grad(y, (x, w), d_y, retain_graph=True)
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    found = torch.autograd.grad(y, (x, w), d_y, retain_graph=True)
    torch.cuda.synchronize()
    results = sum(t.untyped_storage().nbytes() for t in found)
    assert torch.cuda.memory_allocated() == before + results
    assert torch.cuda.max_memory_allocated() > before + results  # d_weight's partial sums


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are not two GPUs")
def test_workspace_is_on_the_tensors_device():
    x, w = (torch.randn(512, 256, device="cuda:1", requires_grad=True),
            torch.randn(256, device="cuda:1", requires_grad=True))
    torch.autograd.grad(lt.rms_norm(x, w).sum(), (x, w))
    y, rstd = lt.ops.rms_norm_forward(x.detach(), w.detach(), with_rstd=True)
    before = [torch.cuda.memory_stats(device)["allocation.all.allocated"] for device in range(2)]
    d_x, d_w = lt.ops.rms_norm_backward(torch.ones_like(y), x.detach(), w.detach(), rstd,
                                        d_weight_dtype=w.dtype)
    after = [torch.cuda.memory_stats(device)["allocation.all.allocated"] for device in range(2)]
    assert after[0] == before[0] and after[1] >= before[1] + 4  # ones, two gradients, partial sums
    a, b = x.detach().cpu().requires_grad_(), w.detach().cpu().requires_grad_()
    for one, other in zip((d_x, d_w), torch.autograd.grad(lt.rms_norm(a, b).sum(), (a, b))):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-3, atol=1e-3)


def test_lack_of_memory_raises_torchs_exception():
    x, w = (torch.randn(4096, 512, device="cuda", requires_grad=True),
            torch.randn(200000, 512, device="cuda", requires_grad=True))
    labels = torch.zeros(4096, dtype=torch.int64, device="cuda")
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # cached memory could hold the workspace
    # Gradients take 399 MiB, which is within the 600 MiB limit. The logits of a chunk of 1,024 rows
    # take 781 MiB more, which is not.
    torch.cuda.set_per_process_memory_fraction(
        (torch.cuda.memory_reserved() + 600 * 2**20) / torch.cuda.mem_get_info()[1])
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError):
            lt.fused_linear_cross_entropy(x, w, labels)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
    assert torch.isfinite(lt.fused_linear_cross_entropy(x, w, labels,
                                                        max_workspace_bytes=256 * 2**20))


@pytest.mark.parametrize("name", CASES)
def test_replay_of_a_graph(name):
    """Captures forward and backward after one call."""
    wanted, others = on_gpu(name)
    _, _, upstream = run(CASES[name][0], wanted, others)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run(CASES[name][0], wanted, others, upstream)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs, found, _ = run(CASES[name][0], wanted, others, upstream)
    with torch.no_grad():
        fresh = [t * 0.5 for t in wanted]
        for tensor, value in zip(wanted, fresh):
            tensor.copy_(value)
    graph.replay()
    torch.cuda.synchronize()
    expected, gradients, _ = run(
        CASES[name][0], [t.detach().clone().requires_grad_() for t in wanted], others, upstream)
    for one, other in zip([*outputs, *found], [*expected, *gradients]):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_labels_are_reported_later():
    logits = torch.randn(3, 5, device="cuda", requires_grad=True)
    loss = lt.cross_entropy(logits, torch.tensor([0, 5, 1], device="cuda"))
    with pytest.raises(ligerdsl.LabelError, match="cross_entropy.*row 1"):
        lt.check(logits)
    assert loss.isnan()
    lt.cross_entropy(logits, torch.tensor([0, 5, 1], device="cuda"))
    torch.cuda.synchronize()
    with pytest.raises(ligerdsl.LabelError):
        lt.cross_entropy(logits, torch.tensor([0, 4, 1], device="cuda"))
    lt.config.check_labels = "sync"
    try:
        with pytest.raises(ligerdsl.LabelError):
            lt.cross_entropy(logits, torch.tensor([0, 5, 1], device="cuda"))
    finally:
        lt.config.check_labels = "lazy"


def test_tensors_of_two_devices():
    with pytest.raises(ligerdsl.InvalidArgument, match="INVALID_DEVICE"):
        lt.rms_norm(torch.randn(2, 4, device="cuda"), torch.randn(4))
    with pytest.raises(ligerdsl.InvalidArgument, match="INVALID_DEVICE"):
        lt.rms_norm(torch.randn(2, 4), torch.randn(4, device="cuda"))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_another_device_than_the_current_one():
    x, w = (torch.randn(4, 64, device="cuda:1", requires_grad=True),
            torch.randn(64, device="cuda:1", requires_grad=True))
    lt.rms_norm(x, w).square().sum().backward()
    exact = x.detach().double().cpu().requires_grad_()
    CASES["rms_norm"][1](exact, w.detach().double().cpu()).square().sum().backward()
    torch.testing.assert_close(x.grad.double().cpu(), exact.grad, rtol=1e-4, atol=1e-4)
    assert torch.cuda.current_device() == 0


def test_compiled_with_cuda_graphs():
    norm = lt.RMSNorm(64, device="cuda")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: lt.swiglu(norm(x), x).square().sum(), fullgraph=True,
                             mode="reduce-overhead")
    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    for _ in range(4):
        norm.zero_grad()
        x.grad = None  # the next graph run overwrites this gradient
        compiled(x).backward()
    found = norm.weight.grad.clone()
    norm.zero_grad()
    lt.swiglu(norm(x), x).square().sum().backward()
    torch.testing.assert_close(found, norm.weight.grad, rtol=1e-4, atol=1e-4)


def test_capturable_adamw():
    parameter = torch.nn.Parameter(torch.ones(100, device="cuda"))
    reference = torch.nn.Parameter(torch.ones(100, device="cuda"))
    ours, theirs = lt.AdamW([parameter], capturable=True), torch.optim.AdamW([reference])
    parameter.grad = torch.full((100,), 0.5, device="cuda")
    reference.grad = parameter.grad.clone()
    ours.step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ours.step()
    for _ in range(3):
        graph.replay()
    for _ in range(4):
        theirs.step()
    torch.testing.assert_close(parameter, reference, rtol=1e-5, atol=1e-6)

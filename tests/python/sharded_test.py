"""Gradients of a patched model on two processes equal those on one, also in bf16, recomputed and
compiled.

Also tests heads that are not gathered.
"""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
fsdp = pytest.importorskip("torch.distributed.fsdp")

import torch.distributed as dist

import ligerdsl
import ligerdsl.hf
import ligerdsl.torch as lt
from processes import COUNT, KIND, begin, end, spawn

if not hasattr(fsdp, "fully_shard"):
    pytest.skip("torch has no fully_shard here", allow_module_level=True)


def model_and_data():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False, use_cache=False)
    return transformers.LlamaForCausalLM(config).train(), torch.randint(0, 64, (2 * COUNT, 9))


def gradients(model, ids):
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    whole = lambda t: t.full_tensor() if hasattr(t, "full_tensor") else t
    return (loss.detach(),
            {name: whole(parameter.grad).clone() for name, parameter in model.named_parameters()})


def whole_model(rank, recomputed):
    """Returns the patched model before sharding; every process has the same."""
    with torch.device("cpu"):
        model, ids = model_and_data()
    model, ids = model.to(KIND), ids.to(KIND)
    report = ligerdsl.hf.patch(model, strict=True, keep_attention=1)
    if recomputed:
        assert report.patched["layer, if it is recomputed"] == 2
        model.gradient_checkpointing_enable()
    return model, ids[rank * 2:rank * 2 + 2]


def shard(model, **more):
    for layer in model.model.layers:
        fsdp.fully_shard(layer, **more)
    fsdp.fully_shard(model.lm_head, **more)
    fsdp.fully_shard(model, **more)


def compare(model, ids, expected_loss, rtol, atol):
    """Returns the gradients; the mean loss must be that of one process."""
    loss, found = gradients(model, ids)
    loss = loss.float()
    dist.all_reduce(loss)
    torch.testing.assert_close(loss / COUNT, expected_loss.to(KIND), rtol=rtol, atol=atol)
    return found


def work(rank, port, recomputed, expected_loss, expected):
    begin(rank, port)
    model, ids = whole_model(rank, recomputed)
    before = ligerdsl.calls("fused_add_rms_norm_backward")
    shard(model)
    found = compare(model, ids, expected_loss, 1e-5, 1e-5)
    # recomputed layers run as one node, and each calls the fused backward
    assert ligerdsl.calls("fused_add_rms_norm_backward") == before + (4 if recomputed else 0)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient.to(KIND), rtol=1e-3, atol=1e-5, msg=name)
    end()


@pytest.mark.parametrize("recomputed", [False, True])
def test_fully_sharded(recomputed):
    model, ids = model_and_data()
    spawn(work, recomputed, *gradients(model, ids))


def in_bf16(rank, compiled, expected_loss, expected):
    """Uses f32 shards, bf16 matmuls and activations. Layers are recomputed; if compiled, torch's
    checkpointing does this."""
    model, ids = whole_model(rank, True)
    if compiled:
        for layer in model.model.layers:
            layer.compile(backend="aot_eager")
    shard(
        model,
        mp_policy=fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    before = ligerdsl.calls("fused_add_rms_norm_backward")
    found = compare(model, ids, expected_loss, 1e-3, 1e-3)
    assert ligerdsl.calls("fused_add_rms_norm_backward") == before + (0 if compiled else 4)
    for name, gradient in expected.items():
        gradient = gradient.to(KIND)
        assert found[name].dtype == torch.float32
        assert (found[name] - gradient).norm() < 3e-2 * gradient.norm(), (compiled, name)
    ligerdsl.hf.unpatch(model)


def work_in_bf16(rank, port, *expected):
    begin(rank, port)
    for compiled in (False, True):
        in_bf16(rank, compiled, *expected)
    end()


def test_mixed_precision():
    model, ids = model_and_data()
    spawn(work_in_bf16, *gradients(model, ids))


def says_what_to_do(name, call):
    try:
        call()
    except ligerdsl.NotSupported as error:
        assert ("a DTensor of [64, 32] with placements (Shard(dim=0),)" in str(error)
                and "full_tensor()" in str(error)), (name, error)
    else:
        raise AssertionError(f"{name}: took a head that is not gathered")


def work_on_a_head_in_shards(rank, port):
    """Outside the head's forward, its weight is a shard, and the library must not gather it
    silently."""
    begin(rank, port)
    model, ids = whole_model(rank, False)
    shard(model)
    hidden, labels, weight = (torch.randn(2, 8, 32, requires_grad=True), ids[:, 1:].contiguous(),
                              model.lm_head.weight)
    says_what_to_do("with gradients", lambda: lt.fused_linear_cross_entropy(hidden, weight, labels))
    with torch.no_grad():
        says_what_to_do("without", lambda: lt.fused_linear_cross_entropy(hidden, weight, labels))
    says_what_to_do(
        "jsd",
        lambda: lt.fused_linear_jsd(hidden, weight, hidden.detach(), weight.detach(), labels))
    whole = weight.full_tensor()
    loss = lt.fused_linear_cross_entropy(hidden, whole, labels)
    expected = torch.nn.functional.cross_entropy((hidden @ whole.T).flatten(0, 1), labels.flatten())
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    end()


def test_ungathered_head():
    spawn(work_on_a_head_in_shards)

"""A patched model on two processes: gradients are those of one."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
fsdp = pytest.importorskip("torch.distributed.fsdp")

import torch.distributed as dist

import ligerdsl
import ligerdsl.hf
from processes import COUNT, KIND, begin, end, spawn

if not hasattr(fsdp, "fully_shard"):
    pytest.skip("torch has no fully_shard here", allow_module_level=True)


def model_and_data():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, tie_word_embeddings=False, use_cache=False)
    return transformers.LlamaForCausalLM(config).train(), torch.randint(0, 64, (2 * COUNT, 9))


def gradients(model, ids):
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    whole = lambda t: t.full_tensor() if hasattr(t, "full_tensor") else t
    return loss.detach(), {name: whole(parameter.grad).clone() for name, parameter in model.named_parameters()}


def work(rank, port, recomputed, expected_loss, expected):
    begin(rank, port)
    with torch.device("cpu"):
        model, ids = model_and_data()
    model, ids = model.to(KIND), ids.to(KIND)
    report = ligerdsl.hf.patch(model, strict=True, keep_attention=1)
    if recomputed:
        assert report.patched["layer, if it is recomputed"] == 2
        model.gradient_checkpointing_enable()
    before = ligerdsl.calls("fused_add_rms_norm_backward")
    for layer in model.model.layers:
        fsdp.fully_shard(layer)
    fsdp.fully_shard(model.lm_head)
    fsdp.fully_shard(model)
    loss, found = gradients(model, ids[rank * 2:rank * 2 + 2])
    assert ligerdsl.calls("fused_add_rms_norm_backward") == before + (4 if recomputed else 0)  # layers that are one node
    dist.all_reduce(loss)
    torch.testing.assert_close(loss / COUNT, expected_loss.to(KIND), rtol=1e-5, atol=1e-5)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient.to(KIND), rtol=1e-3, atol=1e-5, msg=name)
    end()


@pytest.mark.parametrize("recomputed", [False, True])
def test_fully_sharded(recomputed):
    model, ids = model_and_data()
    spawn(work, recomputed, *gradients(model, ids))

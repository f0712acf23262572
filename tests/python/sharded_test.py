"""A patched model on two processes of a CPU: gradients are those of one."""

import os

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
fsdp = pytest.importorskip("torch.distributed.fsdp")

import torch.distributed as dist
import torch.multiprocessing as mp

import ligerdsl.hf

if not hasattr(fsdp, "fully_shard"):
    pytest.skip("torch has no fully_shard here", allow_module_level=True)

PROCESSES = 2


def model_and_data():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, tie_word_embeddings=False, use_cache=False)
    return transformers.LlamaForCausalLM(config).train(), torch.randint(0, 64, (2 * PROCESSES, 9))


def gradients(model, ids):
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    whole = lambda t: t.full_tensor() if hasattr(t, "full_tensor") else t
    return loss.detach(), {name: whole(parameter.grad).clone() for name, parameter in model.named_parameters()}


def work(rank, port, expected_loss, expected):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=PROCESSES)
    model, ids = model_and_data()
    ligerdsl.hf.patch(model, strict=True)
    for layer in model.model.layers:
        fsdp.fully_shard(layer)
    fsdp.fully_shard(model.lm_head)
    fsdp.fully_shard(model)
    loss, found = gradients(model, ids[rank * 2:rank * 2 + 2])
    dist.all_reduce(loss)
    torch.testing.assert_close(loss / PROCESSES, expected_loss, rtol=1e-5, atol=1e-5)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=name)
    dist.destroy_process_group()


def test_fully_sharded():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    model, ids = model_and_data()
    mp.spawn(work, (port, *gradients(model, ids)), nprocs=PROCESSES)

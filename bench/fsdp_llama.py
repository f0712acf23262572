"""Training steps of a Llama of transformers on several GPUs by FSDP2: transformers alone and with the library's kernels, on one GPU and on all
of them, from the same weights and the same global batch. Losses, tokens a second of all GPUs, peak memory of the fullest one.

    python bench/fsdp_llama.py --gpus 2 --out bench/results/fsdp-DATE.json
    python bench/fsdp_llama.py --gpus 2 --compile --contenders ligerdsl --out bench/results/fsdp-compiled-DATE.json

f32 weights and optimiser in shards, bf16 products, gradients summed in f32, every layer recomputed in backward. Each run is made of processes of
its own; the result is written after each."""

import argparse
import datetime
import json
import os
import pathlib
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from e2e_llama import PRESETS, make_model, versions


def make_sharded(options, contender, device, mesh):
    model = make_model(PRESETS[options.preset].config, contender, device, torch.float32)
    if options.compile:
        for layer in model.model.layers:
            layer.compile()
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    policy = MixedPrecisionPolicy(param_dtype=kind, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def work(rank, options, contender, world, port, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    kind = options.device
    device = torch.device(kind, rank) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo", rank=rank, world_size=world)
    model = make_sharded(options, contender, device, init_device_mesh(kind, (world,)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=kind == "cuda")
    vocabulary = PRESETS[options.preset].config["vocab_size"]
    whole = torch.randint(0, vocabulary, (options.batch, options.length), generator=torch.Generator().manual_seed(1))
    ids = whole.chunk(world)[rank].to(device)
    wait = torch.cuda.synchronize if kind == "cuda" else lambda: None
    losses, times = [], []
    for step in range(options.warmup + options.steps):
        if step == options.warmup and kind == "cuda":
            torch.cuda.reset_peak_memory_stats()
        wait()
        begin = time.perf_counter()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        wait()
        times.append(time.perf_counter() - begin)
        loss = loss.detach().float()
        dist.all_reduce(loss)
        losses.append(float(loss) / world)
    peak = torch.tensor(torch.cuda.max_memory_allocated() / 1e9 if kind == "cuda" else 0.0, device=device)
    dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    if rank == 0:
        middle = statistics.median(times[options.warmup:])
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        pathlib.Path(path).write_text(json.dumps({
            "contender": contender, "gpus": world, "losses": losses, "last_gradient_norm": float(norm), "step_ms": round(middle * 1e3, 3),
            "tokens_per_s": round(options.batch * options.length / middle, 1), "peak_gb": round(float(peak), 3) if kind == "cuda" else None,
            "versions": versions("cuda:0" if kind == "cuda" else "cpu")}))
    del model, optimiser, loss, norm  # and what of theirs is still under way
    dist.barrier()
    dist.destroy_process_group()


def run(options, contender, world):
    path = options.out.with_suffix(f".{contender}-{world}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        mp.spawn(work, (options, contender, world, port, str(path)), nprocs=world)
        return json.loads(path.read_text())
    except Exception as error:
        return {"contender": contender, "gpus": world, "failed": str(error).strip().splitlines()[-1][:300]}
    finally:
        path.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="llama-3.2-1b")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--contenders", type=lambda text: text.split(","), default=["hf", "ligerdsl"])
    parser.add_argument("--batch", type=int, default=16, help="of all GPUs")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=5, help="timed ones; the middle time counts")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="torch.compile of every layer")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    rows, found = [], {}
    for contender in options.contenders:
        for world in sorted({1, options.gpus}):
            row = run(options, contender, world)
            found |= row.pop("versions", {})
            rows.append(row)
            print(row, flush=True)
            result = {"what": "training steps of a Llama under FSDP2, AdamW", "preset": options.preset, "batch": options.batch, "length": options.length,
                      "compiled": options.compile, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), **found, "rows": rows}
            options.out.write_text(json.dumps(result, indent=1) + "\n")
    for contender in options.contenders:
        losses = [row["losses"] for row in rows if row["contender"] == contender and "losses" in row]
        if len(losses) == 2:
            apart = max(abs(a - b) / abs(a) for a, b in zip(*losses))
            print(f"{contender}: losses on 1 and {options.gpus} are apart by {apart:.2e} of themselves at most")
    return 1 if any("failed" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

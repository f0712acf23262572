"""Training steps of transformers' Llama on several GPUs with FSDP2, with and without the library's
kernels.

    python bench/fsdp_llama.py --gpus 2 --out fsdp-DATE.json
    python bench/fsdp_llama.py --gpus 2 --compile --contenders ligerdsl \\
        --out fsdp-compiled-DATE.json

Each contender runs on one GPU and on all of them, from the same weights with the same global batch.
The result has losses, tokens per second of all GPUs, and the largest peak memory of a GPU.

Weights and optimiser are f32 shards, matmuls are bf16, gradients are summed in f32, and every layer
is recomputed in backward. Each run has its own processes; the result is written after each.

The first loss and the first gradients must equal those of one GPU up to the rounding of --dtype,
else the exit code is 1. SAMPLE elements of each parameter's gradient are compared, or all if it has
fewer. Later losses are only shown, because training amplifies small differences.
"""

import argparse
import datetime
import json
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from convergence import SIZES
from e2e_llama import PRESETS, layers_as_one_node, make_model, versions

SHAPES = {name: preset.config for name, preset in PRESETS.items()} | {"small": SIZES["small"]}
SAMPLE = 4096
# Largest relative difference of gradients, in the 2-norm. Losses may differ by a tenth of it.
TOLERANCES = {"bfloat16": 2e-2, "float32": 1e-4}


def make_sharded(options, contender, device, mesh):
    model = make_model(SHAPES[options.preset], contender, device, torch.float32)
    if options.compile:
        for layer in model.model.layers:
            layer.compile(backend=options.backend)
    policy = MixedPrecisionPolicy(param_dtype=getattr(torch, options.dtype),
                                  reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def sample(gradient):
    """Returns the same elements of a gradient for any sharding. For a sharded gradient it is a
    collective call."""
    whole = (gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient).flatten()
    return whole[::max(1, whole.numel() // SAMPLE)][:SAMPLE].float().cpu().clone()


def work(rank, options, contender, world, port, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    kind = options.device
    device = torch.device(kind, rank) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo", rank=rank, world_size=world)
    model = make_sharded(options, contender, device, init_device_mesh(kind, (world,)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=kind == "cuda")
    vocabulary = SHAPES[options.preset]["vocab_size"]
    whole = torch.randint(0, vocabulary, (options.batch, options.length),
                          generator=torch.Generator().manual_seed(1))
    ids = whole.chunk(world)[rank].to(device)
    wait = torch.cuda.synchronize if kind == "cuda" else lambda: None
    losses, times, first = [], [], None
    for step in range(options.warmup + options.steps):
        if step == options.warmup and kind == "cuda":
            torch.cuda.reset_peak_memory_stats()
        wait()
        begin = time.perf_counter()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        if first is None:
            nodes = layers_as_one_node(contender)
            first = {name: sample(parameter.grad) for name, parameter in model.named_parameters()}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        wait()
        times.append(time.perf_counter() - begin)
        loss = loss.detach().float()
        dist.all_reduce(loss)
        losses.append(float(loss) / world)
    peak = torch.tensor(torch.cuda.max_memory_allocated() / 1e9 if kind == "cuda" else 0.0,
                        device=device)
    dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    if rank == 0:
        middle = statistics.median(times[options.warmup:])
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        torch.save(first, f"{path}.gradients")
        pathlib.Path(path).write_text(json.dumps({
            "contender": contender,
            "gpus": world,
            "layers_as_one_node": nodes,
            "losses": losses,
            "last_gradient_norm": float(norm),
            "step_ms": round(middle * 1e3, 3),
            "tokens_per_s": round(options.batch * options.length / middle, 1),
            "peak_gb": round(float(peak), 3) if kind == "cuda" else None,
            "versions": versions("cuda:0" if kind == "cuda" else "cpu")}))
    del model, optimiser, loss, norm  # frees the GPU memory that these names keep alive
    dist.barrier()
    dist.destroy_process_group()


def run(options, contender, world, folder):
    """Returns a row, and the first gradients or None."""
    path = pathlib.Path(folder) / f"{contender}-{world}"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        mp.spawn(work, (options, contender, world, port, str(path)), nprocs=world)
        return json.loads(path.read_text()), torch.load(f"{path}.gradients")
    except Exception as error:
        return ({"contender": contender,
                 "gpus": world,
                 "failed": str(error).strip().splitlines()[-1][:300]}, None)


def relative_differences(one, other):
    """Returns relative norms of gradient differences: (of all parameters, name of the largest one,
    its norm)."""
    if one.keys() != other.keys():
        raise ValueError("the runs have gradients of different parameters: one GPU has "
                         f"{sorted(one)}, all GPUs have {sorted(other)}")
    squares = {name: (float((one[name] - other[name]).square().sum()),
                      float(one[name].square().sum())) for name in one}
    part = lambda difference, whole: (  # noqa: E731
        (difference / whole) ** 0.5 if whole else float(difference > 0))
    worst = max(squares, key=lambda name: part(*squares[name]))
    return part(*map(sum, zip(*squares.values()))), worst, part(*squares[worst])


def compared(rows, gradients, world):
    """Returns each contender's difference between all GPUs and one GPU."""
    found = {}
    for contender in dict.fromkeys(row["contender"] for row in rows):
        pair = [next((row for row in rows if row["contender"] == contender and row["gpus"] == count
                                             and "losses" in row), None) for count in (1, world)]
        if None in pair or world == 1:
            continue
        one, other = ([*row["losses"]] for row in pair)
        all_of_them, worst, furthest = relative_differences(
            *(gradients[contender, count] for count in (1, world)))
        found[contender] = {"first_loss": abs(one[0] - other[0]) / abs(one[0]),
                            "losses": max(abs(a - b) / abs(a) for a, b in zip(one, other)),
                            "first_gradients": all_of_them,
                            "furthest_parameter": worst,
                            "of_that_parameter": furthest}
    return found


def too_far(found, dtype):
    """Returns a line for each difference that exceeds rounding."""
    limits = {"first_loss": TOLERANCES[dtype] / 10, "first_gradients": TOLERANCES[dtype]}
    return [f"{contender}: {key}: relative difference from one GPU: expected at most {limit:.0e}, "
            f"got {each[key]:.2e}"
            for contender, each in found.items() for key, limit in limits.items()
            if not each[key] <= limit]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=SHAPES, default="llama-3.2-1b")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", choices=TOLERANCES, default="bfloat16",
                        help="dtype of matmuls; accumulation and the optimiser are f32")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--contenders", type=lambda text: text.split(","),
                        default=["hf", "ligerdsl"])
    parser.add_argument("--batch", type=int, default=16, help="number of sequences per step on all "
                                                              "GPUs together")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=5, help="number of timed steps; the result "
                                                             "has their median")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="compile every layer with "
                                                               "torch.compile")
    parser.add_argument("--backend", default="inductor", help="back end of torch.compile")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    rows, gradients, found = [], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for contender in options.contenders:
            for world in sorted({1, options.gpus}):
                row, gradients[contender, world] = run(options, contender, world, folder)
                found |= row.pop("versions", {})
                rows.append(row)
                print(row, flush=True)
                distances = compared(rows, gradients, options.gpus)
                result = {"what": "training steps of a Llama under FSDP2, AdamW",
                          "preset": options.preset,
                          "dtype": options.dtype,
                          "batch": options.batch,
                          "length": options.length,
                          "compiled": options.compile,
                          "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                          **found,
                          "apart": distances,
                          "rows": rows}
                options.out.write_text(json.dumps(result, indent=1) + "\n")
    for contender, each in distances.items():
        print(f"{contender}: differences between 1 and {options.gpus} GPUs: {each}")
    wrong = too_far(distances, options.dtype)
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong or any("failed" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

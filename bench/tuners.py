#!/usr/bin/env python3
"""Wall time of `ligerdsl tune` beside Triton's autotuner: the same operation and shape, as many configurations, cold disk caches.

    python3 bench/tuners.py --command build/release/bin/ligerdsl --out bench/results/tuners-DATE.json

A row: operation, shape, configurations, and of each tuner the seconds of its wall clock and the time in us of the kernel that it chose.
`ligerdsl` is the whole command: processes, data, float64 answers, checks of every configuration, finals. `triton` is the first call of an
autotuned kernel on tensors that are there; `triton_parallel` compiles all configurations first, a thread per core, into the cache that
the autotuner then finds. Neither checks results. On one GPU.
"""

import argparse
import concurrent.futures
import datetime
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"ROWS": rows}, num_warps=warps, num_stages=stages)
           for rows, warps, stages in itertools.product((1, 2, 4, 8), (1, 2, 4, 8, 16, 32), (1, 2))]


def rms_norm(x, weight, y, N, H: tl.constexpr, ROWS: tl.constexpr):
    columns = tl.arange(0, H)
    scale = tl.load(weight + columns).to(tl.float32)
    for i in range(ROWS):
        row = tl.program_id(0) * ROWS + i
        if row < N:
            values = tl.load(x + row.to(tl.int64) * H + columns).to(tl.float32)
            inverse = tl.rsqrt(tl.sum(values * values) / H + 1e-6)
            tl.store(y + row.to(tl.int64) * H + columns, values * inverse * scale)


def softmax(x, weight, y, N, H: tl.constexpr, ROWS: tl.constexpr):
    columns = tl.arange(0, H)
    for i in range(ROWS):
        row = tl.program_id(0) * ROWS + i
        if row < N:
            values = tl.load(x + row.to(tl.int64) * H + columns).to(tl.float32)
            powers = tl.exp(values - tl.max(values))
            tl.store(y + row.to(tl.int64) * H + columns, powers / tl.sum(powers))


OPERATIONS = {"rms_norm_forward": rms_norm, "softmax_forward": softmax}


def triton_tuned(function, n, h, parallel):
    """Seconds until the kernel was tuned and had run, its time, its configuration."""
    x, y, weight = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((n, h), (n, h), (h,)))
    jit = triton.jit(function)
    tuned = triton.autotune(CONFIGS, key=["H"])(jit)
    grid = lambda meta: (triton.cdiv(n, meta["ROWS"]),)  # noqa: E731
    torch.cuda.synchronize()
    began = time.perf_counter()
    if parallel:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda config: jit.warmup(x, weight, y, n, H=h, ROWS=config.kwargs["ROWS"], grid=(1,), num_warps=config.num_warps,
                                                    num_stages=config.num_stages), CONFIGS))
    tuned[grid](x, weight, y, n, H=h)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    assert tuned.best_config is not None
    us = triton.testing.do_bench(lambda: tuned[grid](x, weight, y, n, H=h), return_mode="median") * 1e3
    return {"seconds": seconds, "us": us, "config": str(tuned.best_config)}


def ligerdsl_tuned(command, operation, n, h, configurations):
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder) / "trials.jsonl"
        arguments = [command, "--device", "cuda:0", "tune", operation, "dtype=bf16", f"H={h}", f"N={n}", "--max-evals", str(configurations),
                     "--budget", "10m", "--store", store, "-q", "--json", "-"]
        began = time.perf_counter()
        out = subprocess.run(arguments, env={**os.environ, "LIGERDSL_CACHE_DIR": folder + "/cache", "CUDA_CACHE_DISABLE": "1"}, check=True, stdout=subprocess.PIPE).stdout
        seconds = time.perf_counter() - began
    result = json.loads(out)["results"][0]
    return {"seconds": seconds, "us": result["winner"]["us"][0], "heuristic_us": result["winner"]["heuristic_us"][0],
            "config": result["winner"]["config"], "tried": result["tried"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--shapes", nargs="*", default=["16384x4096", "4096x8192"])
    options = parser.parse_args()
    rows = []
    version = subprocess.run([options.command, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    result = {"device": torch.cuda.get_device_name(), "date": datetime.date.today().isoformat(), "library": version, "torch": torch.__version__,
              "triton": triton.__version__, "cores": os.cpu_count(), "rows": rows}
    for operation, shape in itertools.product(OPERATIONS, options.shapes):
        n, h = (int(size) for size in shape.split("x"))
        row = {"operation": operation, "shape": [n, h], "dtype": "bf16", "configurations": len(CONFIGS)}
        row["ligerdsl"] = ligerdsl_tuned(options.command, operation, n, h, len(CONFIGS))
        for name, parallel in (("triton", False), ("triton_parallel", True)):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["TRITON_CACHE_DIR"] = folder
                row[name] = triton_tuned(OPERATIONS[operation], n, h, parallel)
        rows.append(row)
        print(json.dumps(row), flush=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

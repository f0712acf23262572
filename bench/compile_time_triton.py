#!/usr/bin/env python3
"""Times a cold compile of a matmul by Triton, from the call to the first launch; compare with
`cold` of compile_time.cpp.

    compile_time_triton.py [--repetitions 21] > triton.json  # needs a GPU; JSON in milliseconds

Each repetition has a new function and an empty disk cache, in a process that has already compiled
another kernel.

`pointers` is the matmul of tiles.py, with pointers; `descriptors` uses tensor descriptors. Both
have tiles of 128x256x64, four stages and eight warps, and are not persistent.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tiles import triton_product

TILE, STAGES, WARPS = (128, 256, 64), 4, 8


def product_of_descriptors():
    @triton.jit
    def kernel(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        row, column = tl.program_id(1) * BM, tl.program_id(0) * BN
        total = tl.zeros((BM, BN), tl.float32)
        for at in range(0, k, BK):
            total = tl.dot(a.load([row, at]), b.load([column, at]).T, total)
        c.store([row, column], total.to(c.dtype))

    def run(a, b, c, tile, stages, warps):
        m, n = c.shape
        views = [TensorDescriptor.from_tensor(t, block) for t, block in (
            (a, [tile[0], tile[2]]), (b, [tile[1], tile[2]]), (c, [tile[0], tile[1]]))]
        kernel[triton.cdiv(n, tile[1]), triton.cdiv(m, tile[0])](*views, a.shape[1], BM=tile[0],
                                                                 BN=tile[1], BK=tile[2],
                                                                 num_stages=stages, num_warps=warps)

    return run


def cold(make, *args):
    run, folder = make(), tempfile.mkdtemp()
    os.environ["TRITON_CACHE_DIR"] = folder
    begin = time.perf_counter()
    run(*args, TILE, STAGES, WARPS)
    took = 1e3 * (time.perf_counter() - begin)
    if not any(pathlib.Path(folder).rglob("*.cubin")):
        sys.exit("compile_time_triton.py: no .cubin file in the new TRITON_CACHE_DIR: Triton took "
                 "the kernel from another cache, so the time is not that of a compile")
    torch.cuda.synchronize()
    shutil.rmtree(folder)
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=21)
    options = parser.parse_args()
    a, b, c = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    found = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
             "device": torch.cuda.get_device_name(),
             "triton": triton.__version__,
             "torch": torch.__version__}
    for name, make in (("pointers", lambda: triton_product()[0]),
                       ("descriptors", product_of_descriptors)):
        cold(make, a, b, c)  # untimed: initialisation that a process does once
        exact = a.double() @ (b.double() if name == "pointers" else b.double().T)
        if not (c.double() - exact).abs().max() <= 2e-2 * exact.abs().max():
            sys.exit(f"compile_time_triton.py: {name}: the result of the matmul is wrong: error "
                     "over "
                     "2e-2 of the largest element")
        times = sorted(cold(make, a, b, c) for _ in range(options.repetitions))
        found[name] = {"median_ms": times[len(times) // 2], "p95_ms": times[int(0.95 * len(times))],
                       "samples": len(times)}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Times every kernel that cuBLASLt proposes for the matmuls of fused linear cross-entropy.

    python3 bench/products.py --out products-DATE.json --budget-s 60

runtime/cuda/cublaslt_choice.cpp relies on these results. The script uses bf16 (or --dtype f16) on
one GPU. Proposals alternate, with an idle gap before each. The matmuls of M tokens, width H and
vocabulary V, row-major:

- nt: logits [M, V]
- nn: gradient of the tokens [M, H]
- tn: gradient of the weight [V, H], in the type of the data, and accumulated in f32

A row: product, M, H, V; proposals in cuBLASLt's order, each with its tile (cublasLtMatmulTile_t),
waves and median ms.
"""

import argparse
import ctypes as c
import datetime
import json
import pathlib
import subprocess
import sys
import time

import torch

F32, CODES = 0, {"bf16": (14, torch.bfloat16), "f16": (2, torch.float16)}
COMPUTE_F32, TRANSPOSE_A, TRANSPOSE_B, PREFER_WORKSPACE, CONFIG_TILE = 68, 3, 4, 1, 1
WORKSPACE, PROPOSALS, ROUNDS, GAP_S = 32 << 20, 16, 5, 0.008
SHAPES = ((4096, 4096, 128256), (2048, 4096, 128256), (8192, 2048, 128256), (4096, 2048, 128256),
          (8192, 4096, 128256), (1024, 4096, 128256), (3456, 3584, 152064), (8192, 4096, 32000),
          (2048, 3584, 256000), (4096, 8192, 128256))
# Transposition flags of both operands, in cuBLASLt's column-major view.
PRODUCTS = {"nt": (1, 0), "nn": (0, 0), "tn": (0, 1), "tn_f32_sum": (0, 1)}


class Heuristic(c.Structure):
    _fields_ = [("algorithm", c.c_uint64 * 8), ("workspace", c.c_size_t), ("state", c.c_int),
                ("waves", c.c_float), ("reserved", c.c_int * 4)]


def check(status, what):
    if status != 0:
        raise RuntimeError(f"cuBLASLt: {what} failed with status {status} (cublasStatus_t)")


class CublasLt:
    """The cuBLASLt library that PyTorch has loaded."""

    def __init__(self):
        torch.zeros(64, 64, device="cuda") @ torch.zeros(64, 64, device="cuda")
        lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
        self.c = c.CDLL(next(line.split()[-1] for line in lines if "libcublasLt" in line))
        self.c.cublasLtGetVersion.restype = c.c_size_t
        self.handle = c.c_void_p()
        check(self.c.cublasLtCreate(c.byref(self.handle)), "creating a handle")
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")

    def layout(self, tensor):
        """Describes a row-major tensor as the column-major matrix in the same memory."""
        out, code = (c.c_void_p(),
                     F32 if tensor.dtype == torch.float32
                     else next(k for k, t in CODES.values() if t == tensor.dtype))
        rows, cols = tensor.shape
        check(self.c.cublasLtMatrixLayoutCreate(c.byref(out), code, c.c_uint64(cols),
                                                c.c_uint64(rows), c.c_int64(cols)),
              "creating a layout")
        return out

    def description(self, transpositions):
        out = c.c_void_p()
        check(self.c.cublasLtMatmulDescCreate(c.byref(out), COMPUTE_F32, F32),
              "creating a matmul descriptor")
        for attribute, value in zip((TRANSPOSE_A, TRANSPOSE_B), transpositions):
            check(self.c.cublasLtMatmulDescSetAttribute(out, attribute, c.byref(c.c_int(value)),
                                                        c.c_size_t(4)),
                  "setting a transposition")
        return out

    def proposals(self, description, a, b, result):
        preference, found, count = c.c_void_p(), (Heuristic * PROPOSALS)(), c.c_int()
        check(self.c.cublasLtMatmulPreferenceCreate(c.byref(preference)), "creating a preference")
        limit = c.c_size_t(WORKSPACE)
        check(self.c.cublasLtMatmulPreferenceSetAttribute(preference, PREFER_WORKSPACE,
                                                          c.byref(limit), c.c_size_t(8)),
              "setting the workspace limit")
        check(self.c.cublasLtMatmulAlgoGetHeuristic(self.handle, description, a, b, result, result,
                                                    preference, PROPOSALS, found, c.byref(count)),
              "asking for proposals")
        return [h for h in found[:count.value] if h.state == 0]

    def tile(self, proposal):
        value, written = c.c_int(), c.c_size_t()
        check(self.c.cublasLtMatmulAlgoConfigGetAttribute(c.byref(proposal.algorithm), CONFIG_TILE,
                                                          c.byref(value), c.c_size_t(4),
                                                          c.byref(written)),
              "reading a proposal's tile")
        return value.value

    def multiply(self, description, proposal, a, b, beta, result, layouts):
        one, add = c.c_float(1), c.c_float(beta)
        address = lambda tensor: c.c_void_p(tensor.data_ptr())
        la, lb, lc = layouts
        check(self.c.cublasLtMatmul(self.handle, description, c.byref(one), address(a), la,
                                    address(b), lb, c.byref(add), address(result), lc,
                                    address(result), lc, c.byref(proposal.algorithm),
                                    address(self.workspace), c.c_size_t(WORKSPACE),
                                    c.c_void_p(torch.cuda.current_stream().cuda_stream)),
              "a matmul")


def measure(library, product, a, b, result):
    """Returns tile, waves and median ms of every proposal. Operands are swapped for a column-major
    library."""
    description, layouts = (library.description(PRODUCTS[product]),
                            [library.layout(t) for t in (b, a, result)])
    proposals = library.proposals(description, *layouts)
    times, beta = [[] for _ in proposals], float(product == "tn_f32_sum")
    for number in range(ROUNDS + 1):  # the first round is a warm-up and is not recorded
        for proposal, mine in zip(proposals, times):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            time.sleep(GAP_S)
            begin.record()
            library.multiply(description, proposal, b, a, beta, result, layouts)
            end.record()
            torch.cuda.synchronize()
            mine += [begin.elapsed_time(end)] if number else []
    return [{"tile": library.tile(p), "waves": round(p.waves, 2),
             "ms": round(sorted(mine)[ROUNDS // 2], 4)} for p, mine in zip(proposals, times)]


def one_shape(library, M, H, V, dtype):
    x, w = (torch.randn(M, H, device="cuda", dtype=dtype),
            (torch.randn(V, H, device="cuda") * H ** -0.5).to(dtype))
    z, dx, dw, sums = (torch.randn(M, V, device="cuda", dtype=dtype), torch.empty_like(x),
                       torch.empty_like(w), torch.zeros(V, H, device="cuda"))
    for product, a, b, result in (("nt", x, w, z), ("nn", z, w, dx), ("tn", z, x, dw),
                                  ("tn_f32_sum", z, x, sums)):
        yield {
            "product": product, "M": M, "H": H, "V": V,
            "proposals": measure(library, product, a, b, result)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--dtype", choices=CODES, default="bf16")
    parser.add_argument("--budget-s", type=float, default=60,
                        help="seconds after which no further shape starts; default: %(default)s")
    options = parser.parse_args()
    begin, library = time.monotonic(), CublasLt()
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                            capture_output=True, text=True).stdout.strip()
    result = {"device": torch.cuda.get_device_name(),
              "driver": driver,
              "command": " ".join(["bench/products.py", *sys.argv[1:]]),
              "date": datetime.date.today().isoformat(),
              "torch": torch.__version__,
              "cublaslt": library.c.cublasLtGetVersion(),
              "dtype": options.dtype,
              "rows": []}
    for shape in SHAPES:
        if time.monotonic() - begin > options.budget_s:
            break
        for row in one_shape(library, *shape, CODES[options.dtype][1]):
            result["rows"].append(row)
            print(row["product"], shape,
                  " ".join(f"{p['tile']}:{p['ms']:.3f}" for p in row["proposals"]), flush=True)
        torch.cuda.empty_cache()
        options.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

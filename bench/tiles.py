#!/usr/bin/env python3
"""Times tile kernels against PyTorch and Triton, in one process with the same tensors.

    PYTHONPATH=build/release/python python3 bench/tiles.py \\
        --kernels build/release/examples/author_kernels/libauthor_kernels.so \\
        --out tiles-DATE.json [--device cuda:0] [--smoke]

Our kernels: matmul and flash_attention of examples/author_kernels, the library's attention, its fp8
matmuls and its matmuls of experts. Peers: cuBLAS, each back end of scaled_dot_product_attention
and, for matmuls, a Triton kernel with the same tiles.

Fields of a row:

- kernel, shape, dtype, provider, settings
- us, us_p20, us_p80: bursts with a cold L2; us_sustained: uninterrupted repetitions; both alternate
  with the case's other contenders (timing.py)
- tflops: from us
- error: the largest error of an element against float64, relative to the largest element

A contender with an error above 2e-2 is listed as failed and has no time. Every configuration of
ours and of Triton is a row; the reader takes the best of each. `triton_mma_sync` is Triton with
layouts and pipelines for compute capability 8.0, compiled for this card. Triton has only NN
matmuls. The file is written during the run; --budget-s ends it in time.
"""

import argparse
import datetime
import itertools
import json
import os
import sys
import time
from functools import partial

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import ligerdsl
import ligerdsl.torch
from results import build_fields, one_line
from tiles_experts import EXPERTS, grouped_products
from timing import timer_for

MOST_ERROR = 2e-2
PRODUCTS = [(4096, 4096, 4096), (8192, 8192, 8192), (4096, 128256, 4096), (4096, 4096, 128),
            (512, 4096, 4096), (4000, 4024, 4088)]
ATTENTION = [(4, 32, 8, 4096, 128), (4, 32, 8, 16384, 128), (1, 32, 8, 16384, 128),
             (4, 32, 32, 2048, 64)]  # batch, heads, key heads, tokens, dim
# queries and keys per block, stages and warps of flash_attention
BLOCKS = [(128, 64, 2, 8), (128, 32, 3, 8), (64, 64, 2, 4), (128, 128, 2, 8)]
TILES = [(128, 256, 64), (128, 128, 64), (128, 256, 32), (128, 128, 32), (64, 128, 64)]
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", required=True,
                        help="path of the shared object of examples/author_kernels")
    parser.add_argument("--out", required=True, help="JSON file to write")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16"))
    parser.add_argument("--kernels-only", default="",
                        choices=("", "matmul", "scaled_matmul_nt", "flash_attention",
                                 "attention_backward", "grouped_matmul"), help="default: all")
    parser.add_argument("--budget-s", type=float, default=0,
                        help="seconds after which no further contender starts; 0: no limit")
    def lists(text):
        return [tuple(map(int, part.split("x"))) for part in text.split(",")]

    parser.add_argument("--shapes", type=lists, default=PRODUCTS,
                        help="matmul shapes, MxNxK,...; default: all")
    parser.add_argument("--tiles", type=lists, default=TILES,
                        help="matmul tiles, MxNxK,...; default: all")
    parser.add_argument("--stages", type=lists, default=[(3,), (4,)],
                        help="numbers of stages of matmuls, separated by commas")
    parser.add_argument("--warps", type=lists, default=[(4,), (8,)],
                        help="numbers of warps of matmuls, separated by commas")
    parser.add_argument(
        "--blocks", type=lists, default=BLOCKS,
        help="blocks of flash_attention, QUERIESxKEYSxSTAGESxWARPS,...; default: all")
    parser.add_argument(
        "--orders", default="NN",
        help="operand orders of matmuls, separated by commas: NN, TN, NT or TT; T: stored "
             "transposed")
    parser.add_argument("--persistent", default="false",
                        help="true, false or both, separated by a comma: whether matmuls are "
                             "persistent")
    parser.add_argument(
        "--tensor-copies", default="false",
        help="true, false or both, separated by a comma: whether TMA copies load operands of "
             "matmuls (sm_90a)")
    parser.add_argument("--peers", default="triton,triton_mma_sync",
                        help="peers of matmuls in addition to torch, separated by commas; may be "
                             "empty")
    parser.add_argument("--smoke", action="store_true", help="run tiny shapes, which a CPU can "
                                                             "check")
    return parser.parse_args()


def triton_product():
    """Returns a Triton kernel for c = a b, or the reason why there is none."""
    try:
        import triton
        import triton.language as tl
    except ImportError as error:
        return None, str(error)

    @triton.jit
    def kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
               WGMMA: tl.constexpr):
        rows = tl.program_id(1) * BM + tl.arange(0, BM)
        columns = tl.program_id(0) * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), tl.float32)
        for at in range(0, k, BK):
            along = at + tl.arange(0, BK)
            left = tl.load(a + rows[:, None] * k + along[None, :],
                           mask=(rows < m)[:, None] & (along < k)[None, :], other=0.0)
            right = tl.load(b + along[:, None] * n + columns[None, :],
                            mask=(along < k)[:, None] & (columns < n)[None, :], other=0.0)
            total = tl.dot(left, right, total)
        tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty),
                 mask=(rows < m)[:, None] & (columns < n)[None, :])

    # `wgmma` is unused; it only gives the forms with and without wgmma separate entries in Triton's
    # cache.
    def run(a, b, c, tile, stages, warps, wgmma=True):
        (m, k), n = a.shape, b.shape[1]
        grid = (triton.cdiv(n, tile[1]), triton.cdiv(m, tile[0]))
        kernel[grid](a, b, c, m, n, k, BM=tile[0], BN=tile[1], BK=tile[2], WGMMA=wgmma,
                     num_stages=stages, num_warps=warps)

    return run, ""


def without_wgmma(triton):
    """Returns Triton's kernel, compiled from its tile program for capability 8.0."""
    from triton.backends.nvidia.compiler import CUDABackend

    made = CUDABackend.make_ttgir

    def run(*args):
        CUDABackend.make_ttgir = staticmethod(lambda module, metadata, options, capability: made(
            module, metadata, options, 80))
        try:
            triton(*args, wgmma=False)
        finally:
            CUDABackend.make_ttgir = staticmethod(made)

    return run


class Rows:
    def __init__(self, options):
        self.rows, self.failures, self.options, self.begin = [], [], options, time.monotonic()
        self.case = []  # (row, call, flops) of the current case, not timed yet
        self.timer = timer_for(torch.device(options.device))

    def add(self, case, provider, settings, run, result, exact, flops):
        """After a run, `result` returns the tensor to compare with `exact`."""
        row = {**case, "dtype": self.options.dtype, "provider": provider, "settings": settings}
        if self.options.budget_s and time.monotonic() - self.begin > self.options.budget_s:
            self.failures.append({**row, "reason": "skipped: --budget-s has passed"})
            return
        try:
            run()
            error = ((result().double() - exact).abs().max() / exact.abs().max()).item()
            if not error <= MOST_ERROR:
                raise ArithmeticError(f"wrong result: relative error: expected at most "
                                      f"{MOST_ERROR:.0e}, got {error:.2e}")
        # A failing contender is listed; the others continue.
        except Exception as error:  # noqa: BLE001
            self.failures.append({**row, "reason": one_line(str(error))})
            return
        self.case.append(({**row, "error": error}, run, flops))

    def time(self):
        """Times a case's correct contenders and ends the case."""
        for (row, _, flops), (us, p20, p80, sustained) in zip(
                self.case, self.timer.alternately([run for _, run, _ in self.case])):
            self.rows.append({**row, "us": us, "us_p20": p20, "us_p80": p80,
                              "us_sustained": sustained, "tflops": flops / us / 1e6})
        self.case = []
        self.write()

    def write(self):
        device = self.options.device
        name = torch.cuda.get_device_name(device) if device != "cpu" else "cpu"
        found = {"device": name,
                 "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                 "command": [os.path.basename(word) for word in sys.argv],
                 **build_fields(ligerdsl.build_info()),
                 "torch": torch.__version__,
                 "rows": self.rows,
                 "failures": self.failures}
        with open(self.options.out, "w") as file:
            json.dump(found, file, indent=1)


def products(rows, kernels, shapes, tiles, dtype):
    triton, why = triton_product() if rows.options.device != "cpu" else (None, "no GPU")
    mma_sync = without_wgmma(triton) if triton else None
    for (m, n, k), order in itertools.product(shapes, rows.options.orders.split(",")):
        turned = [letter == "T" for letter in order]
        stored = [torch.randn(size[::-1] if transposed else size, device=rows.options.device,
                              dtype=dtype)
                  for size, transposed in zip(((m, k), (k, n)), turned)]
        a, b = (each.T if transposed else each for each, transposed in zip(stored, turned))
        exact, c = (a.double() @ b.double(),
                    torch.empty(m, n, device=rows.options.device, dtype=dtype))
        case, flops = {"kernel": "matmul", "shape": f"{m}x{n}x{k}", "order": order}, 2.0 * m * n * k

        def take():
            found = c.clone()
            c.fill_(float("nan"))  # so that the next contender cannot pass with this result
            return found

        rows.add(case, "torch", {}, partial(torch.matmul, a, b, out=c), take, exact, flops)
        for tile, (stages,), (warps,), persistent, copies in itertools.product(
                tiles, rows.options.stages, rows.options.warps, rows.options.persistent.split(","),
                rows.options.tensor_copies.split(",")):
            settings = {"block_m": tile[0], "block_n": tile[1], "block_k": tile[2],
                        "stages": stages, "warps": warps}
            ours = {**settings, "transposed_a": str(turned[0]).lower(),
                    "transposed_b": str(turned[1]).lower(), "persistent": persistent,
                    "tensor_copies": copies}
            rows.add(case, "ligerdsl", ours,
                     partial(kernels["matmul"], c=c, a=stored[0], b=stored[1], type=dtype, **ours),
                     take, exact, flops)
            for peer, run in (("triton", triton), ("triton_mma_sync", mma_sync)):
                if (run and order == "NN" and (persistent, copies) == ("false", "false")
                    and peer in rows.options.peers.split(",")):
                    rows.add(case, peer, settings, partial(run, a, b, c, tile, stages, warps), take,
                             exact, flops)
        rows.time()
        if not triton:
            rows.failures.append({**case, "provider": "triton", "reason": why})


def scaled_products(rows, shapes, dtype):
    """Times fp8 matmuls with one scale per matrix against cuBLAS.

    fast: accumulation in tensor cores alone; else also in f32 outside of them.
    """
    multiply = ligerdsl.torch.ops.scaled_matmul_nt
    for m, n, k in shapes:
        a, b = (torch.randn(*size, device=rows.options.device, dtype=dtype).to(torch.float8_e4m3fn)
                for size in ((m, k), (n, k)))
        a_scale, b_scale = (
            torch.full((1,), scale, device=rows.options.device) for scale in (0.5, 0.25))
        exact, held = 0.125 * (a.double() @ b.double().T), {}
        case, flops = ({"kernel": "scaled_matmul_nt", "shape": f"{m}x{n}x{k}", "order": "NT"},
                       2.0 * m * n * k)

        def take():
            return held.pop("c")

        for fast in (True, False):
            def cublas(fast=fast):
                held["c"] = torch._scaled_mm(a, b.T, a_scale, b_scale, out_dtype=dtype,
                                             use_fast_accum=fast)

            def ours(fast=fast):
                held["c"] = multiply(a, b, a_scale.expand(m), b_scale.expand(n), c_dtype=dtype,
                                     fast_accumulation=fast)
            rows.add(case, "torch", {"fast_accumulation": fast}, cublas, take, exact, flops)
            rows.add(case, "ligerdsl", {"fast_accumulation": fast}, ours, take, exact, flops)
        rows.time()


def backends(device):
    return [(f"torch_{name}", backend) for name, backend in BACKENDS.items()
            if name != "math" or device == "cpu"]


def random_heads(rows, shape, dtype):
    batch, heads, shared, tokens, dim = shape
    return [torch.randn(batch, h, tokens, dim, device=rows.options.device, dtype=dtype)
            for h in (heads, shared, shared)]


def exact_gradients(q, key, value, d_o, at, kv_head):
    """Returns float64 gradients of a key head and of the first query head that uses it."""
    group, scale = q.shape[1] // key.shape[1], q.shape[-1] ** -0.5
    k, v = key[at, kv_head].double(), value[at, kv_head].double()
    d_q, d_k, d_v = None, torch.zeros_like(k), torch.zeros_like(v)
    for head in range(kv_head * group, (kv_head + 1) * group):
        one, d_one = q[at, head].double(), d_o[at, head].double()
        s = (one @ k.T).mul_(scale)
        weights = s.masked_fill_(torch.ones_like(s, dtype=torch.bool).triu_(1),
                                 float("-inf")).softmax(-1)
        d_v += weights.T @ d_one
        slopes = d_one @ v.T
        d_s = slopes.sub_((slopes * weights).sum(-1, keepdim=True)).mul_(weights).mul_(scale)
        d_k += d_s.T @ one
        d_q = d_s @ k if d_q is None else d_q
    return torch.cat([d_q, d_k, d_v])


def attention_backward(rows, shapes, dtype):
    for shape in shapes:
        batch, heads, shared, tokens, dim = shape
        leaves = [t.requires_grad_() for t in random_heads(rows, shape, dtype)]
        d_o = torch.randn_like(leaves[0])
        picks = [(0, 0), (batch - 1, shared - 1)]
        with torch.no_grad():
            exact = torch.stack([exact_gradients(*leaves, d_o, *pick) for pick in picks])
        case = {"kernel": "attention_backward",
                "shape": f"{batch}x{heads}({shared})x{tokens}x{dim} causal"}
        held = {}

        def take():
            d_q, d_k, d_v = held.pop("gradients")
            return torch.stack([torch.cat([d_q[at, head * (heads // shared)], d_k[at, head],
                                           d_v[at, head]]) for at, head in picks])

        def add(provider, forward):
            try:
                o = forward()
            except RuntimeError as error:
                return rows.failures.append({**case, "provider": provider,
                                             "reason": one_line(str(error))})

            def run():
                held["gradients"] = torch.autograd.grad(o, leaves, d_o, retain_graph=True)

            rows.add(case, provider, {}, run, take, exact,
                     5.0 * batch * heads * tokens * tokens * dim)

        def sdpa(backend):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*leaves, is_causal=True,
                                                      enable_gqa=heads != shared)

        for name, backend in backends(rows.options.device):
            add(name, partial(sdpa, backend))
        add("ligerdsl", partial(ligerdsl.torch.attention, *leaves, causal=True, heads_dim=1))
        rows.time()


def attention(rows, kernels, shapes, blocks, dtype):
    for shape in shapes:
        batch, heads, shared, tokens, dim = shape
        q, key, value = random_heads(rows, shape, dtype)
        o, scale = torch.empty_like(q), dim**-0.5
        lse = torch.empty(batch * heads, tokens, device=rows.options.device)
        # Only the first and last head: float64 scores of all heads need too much memory.
        picks = [(0, 0), (batch - 1, heads - 1)]

        def exact_of(pick):
            at, head = pick
            s = (q[at, head].double() @ key[at, head * shared // heads].double().T) * scale
            s.masked_fill_(torch.ones_like(s, dtype=torch.bool).triu(1), float("-inf"))
            return torch.softmax(s, -1) @ value[at, head * shared // heads].double()

        exact = torch.stack([exact_of(pick) for pick in picks])
        case = {"kernel": "flash_attention",
                "shape": f"{batch}x{heads}({shared})x{tokens}x{dim} causal"}
        flops = 2.0 * batch * heads * tokens * tokens * dim

        held = {}

        def take():
            found = torch.stack([held["o"][pick] for pick in picks])
            held["o"].fill_(float("nan"))
            return found

        for name, backend in backends(rows.options.device):
            def sdpa(backend=backend):
                with sdpa_kernel(backend):
                    held["o"] = F.scaled_dot_product_attention(q, key, value, is_causal=True,
                                                               enable_gqa=heads != shared)
            rows.add(case, name, {}, sdpa, take, exact, flops)

        def library():
            held["o"] = ligerdsl.torch.attention(q, key, value, causal=True, heads_dim=1)
        rows.add(case, "ligerdsl", {"of": "the library"}, library, take, exact, flops)
        flat = {"q": q.view(-1, tokens, dim), "k": key.view(-1, tokens, dim),
                "v": value.view(-1, tokens, dim), "o": o.view(-1, tokens, dim)}
        for queries, keys, stages, warps in blocks:
            settings = {"queries": queries, "keys": keys, "stages": stages, "warps": warps,
                        "dim": dim, "group": heads // shared}
            held["o"] = o
            rows.add(case, "ligerdsl", settings,
                     partial(kernels["flash_attention"], **flat, lse=lse, scale=scale, type=dtype,
                             **settings),
                     take, exact, flops)
        rows.time()


def main():
    options = parse()
    torch.manual_seed(0)
    dtype, kernels, rows = (getattr(torch, options.dtype), ligerdsl.load(options.kernels),
                            Rows(options))
    if options.kernels_only in ("", "matmul"):
        products(rows, kernels,
                 *(([(70, 96, 64)], [(32, 32, 32)]) if options.smoke
                   else (options.shapes, options.tiles)), dtype)
    if options.kernels_only in ("", "scaled_matmul_nt"):
        scaled_products(rows,
                        [(70, 96, 64)] if options.smoke
                        else [(4096, 4096, 4096), (8192, 8192, 8192), (16384, 14336, 4096)],
                        dtype)
    if options.kernels_only in ("", "flash_attention"):
        attention(rows, kernels,
                  *(([(2, 4, 2, 70, 32)], [(32, 16, 2, 4)]) if options.smoke
                    else (ATTENTION, options.blocks)), dtype)
    if options.kernels_only in ("", "attention_backward"):
        attention_backward(rows, [(2, 4, 2, 70, 32)] if options.smoke else ATTENTION, dtype)
    if options.kernels_only in ("", "grouped_matmul"):
        grouped_products(rows, [(3, 2, 40, 64, 96)] if options.smoke else EXPERTS, dtype)
    rows.write()
    for row in sorted(rows.rows,
                      key=lambda r: (r["kernel"], r["shape"], r.get("order", ""), r["us"])):
        print(f"{row['kernel']:16} {row['shape']:32} {row.get('order', ''):2} {row['provider']:16} "
              f"{row['us']:10.1f} us {row['tflops']:7.1f} TFLOP/s  {row['settings']}")
    for failure in rows.failures:
        print(f"failed: {failure['kernel']} {failure['shape']} {failure['provider']}: "
              f"{failure['reason']}")
    return 0 if any(row["provider"] == "ligerdsl" for row in rows.rows) else 1


if __name__ == "__main__":
    sys.exit(main())

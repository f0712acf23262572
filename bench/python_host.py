#!/usr/bin/env python3
"""Times the host's part of a call, on tensors so small that nothing else takes time.

    python_host.py --package build/release/python --library build/release/lib/libligerdsl.so \\
        [--device cuda:0]

It compares the Python package, the ctypes binding of this folder, torch's norms and, on a GPU,
Liger-Kernel's if installed. It prints the smallest time of several runs, in microseconds per call.

    python_host.py --package build/release/python --compare before/build/release/python \\
        --calls 20 --repeats 400

--compare also times another build of the package, in its own process that alternates with the first
row by row. It then prints the lowest tenth of the repeats, and its ratio to torch's layer_norm
(forward and grad()) in the same process. Short repeats of 20 calls find quiet moments also on a
busy machine.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--package", default="build/release/python")
parser.add_argument("--compare", help="folder of another build's package, to time it as well")
parser.add_argument("--library", default="build/release/lib/libligerdsl.so")
parser.add_argument("--device", default="cpu")
parser.add_argument("--dtype", default="float32")
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--calls", type=int, default=2000)
parser.add_argument("--repeats", type=int, default=15)
parser.add_argument("--out", type=pathlib.Path, help="file for the results as JSON")
parser.add_argument("--note", help="description of the two packages for the JSON")
parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
options = parser.parse_args()
YARDSTICK = "torch's layer_norm, forward and grad()"


def rows_of():
    """Returns the rows' names and calls."""
    import torch
    import torch.nn.functional as F

    import ligerdsl.torch as lt
    from ligerdsl import _bind
    from ligerdsl_ctypes import Library

    torch.set_num_threads(1)
    device, dtype, width = (torch.device(options.device), getattr(torch, options.dtype),
                            options.width)
    leaf = lambda t: t.to(dtype=dtype, device=device).requires_grad_()
    x, r, up, w, b = (leaf(t)
                      for t in (torch.randn(4, width), torch.randn(4, width), torch.randn(4, width),
                                torch.ones(width), torch.zeros(width)))
    wide = leaf(torch.randn(4, 2 * width))
    labels = torch.randint(0, width, (4,), device=device)
    g, one = torch.randn(4, width, dtype=dtype, device=device), torch.ones((), device=device)
    head = leaf(torch.randn(2 * width, width))
    q, k = (leaf(torch.randn(1, 4, heads, width)) for heads in (4, 2))
    gq, gk = torch.randn_like(q), torch.randn_like(k)
    cos, sin = (
        t.to(dtype=dtype, device=device) for t in (torch.ones(4, width), torch.zeros(4, width)))
    xd, wd, bd = x.detach(), w.detach(), b.detach()
    y, rstd = lt.ops.rms_norm_forward(xd, wd, with_rstd=True)

    context = Library(options.library).context(device)
    code = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}[options.dtype]
    plan = context.plan("rms_norm_forward", n_cols=width, dtype=code, weight_dtype=code,
                        with_rstd=1)
    bound = plan.bind(4, x=xd, weight=wd, y=y, rstd=rstd)

    grad = torch.autograd.grad
    rows = {
        "ctypes: execute, descriptors bound before": bound,
        "ctypes: descriptors made for the call": lambda: plan.bind(4, x=xd, weight=wd, y=y,
                                                                   rstd=rstd)(),
        "_bind.rms_norm_forward, the results given": lambda: _bind.rms_norm_forward(xd, wd, y, rstd,
                                                                                    0, 1e-6, 0.0),
        "ligerdsl.torch.ops.rms_norm_forward, two results": lambda: lt.ops.rms_norm_forward(
            xd, wd, with_rstd=True),
        "torch.ops.ligerdsl.rms_norm_forward, two results":
            lambda: torch.ops.ligerdsl.rms_norm_forward(xd, wd, with_rstd=True),
        "rms_norm without gradients": lambda: lt.rms_norm(xd, wd),
        "layer_norm without gradients": lambda: lt.layer_norm(xd, wd, bd),
        "torch's layer_norm without gradients": lambda: F.layer_norm(xd, (width,), wd, bd),
        "rms_norm, forward and grad()": lambda: grad(lt.rms_norm(x, w), (x, w), g),
        "layer_norm, forward and grad()": lambda: grad(lt.layer_norm(x, w, b), (x, w, b), g),
        "fused_add_rms_norm, forward and grad()": lambda: grad(lt.fused_add_rms_norm(x, r, w),
                                                               (x, r, w), (g, g)),
        "swiglu, forward and grad()": lambda: grad(lt.swiglu(x, up), (x, up), g),
        "swiglu of one tensor, forward and grad()": lambda: grad(lt.swiglu(wide), (wide,), g),
        "geglu, forward and grad()": lambda: grad(lt.geglu(x, up), (x, up), g),
        "cross_entropy, forward and grad()": lambda: grad(lt.cross_entropy(x, labels), (x,), one),
        "rope, forward and grad()": lambda: grad(lt.rope(q, k, cos, sin), (q, k), (gq, gk)),
        "fused_linear_cross_entropy, forward and grad()": lambda: grad(
            lt.fused_linear_cross_entropy(x, head, labels), (x, head), one),
        YARDSTICK: lambda: grad(F.layer_norm(x, (width,), w, b), (x, w, b), g),
        "torch's silu and product, forward and grad()": lambda: grad(F.silu(x) * up, (x, up), g),
        "torch's linear and cross_entropy, forward and grad()": lambda: grad(
            F.cross_entropy(F.linear(x, head), labels), (x, head)),
        "torch's cross_entropy, forward and grad()": lambda: grad(F.cross_entropy(x, labels), (x,)),
    }
    if device.type == "cuda":  # backward on this thread leaves no work that delays the next call
        def in_this_thread(call):
            def run():
                with torch.autograd.set_multithreading_enabled(False):
                    call()
            return run

        rows |= {f"{name}, backward in the calling thread": in_this_thread(rows[name]) for name in
                 ("rms_norm, forward and grad()", "layer_norm, forward and grad()", YARDSTICK)}
    if device.type == "cuda" and os.environ.get("LIGER_KERNEL_IMPL", "").lower() != "ligerdsl":
        try:
            from liger_kernel.ops import LigerLayerNormFunction, LigerRMSNormFunction
            rows |= {
                "Liger-Kernel's rms_norm, forward and grad()": lambda: grad(
                    LigerRMSNormFunction.apply(x, w, 1e-6), (x, w), g),
                "Liger-Kernel's layer_norm, forward and grad()": lambda: grad(
                    LigerLayerNormFunction.apply(x, w, b, 1e-6), (x, w, b), g),
            }
        except ImportError:
            pass
    return rows


def described():
    """Returns the fields that describe the measurement."""
    import torch

    import ligerdsl

    cuda = torch.device(options.device).type == "cuda"
    return {"device": torch.cuda.get_device_name(options.device) if cuda else "cpu",
            "torch": torch.__version__,
            "library": ligerdsl.build_info()}


def timed(call):
    """Returns microseconds per call, measured once."""
    import torch

    if torch.device(options.device).type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(options.calls):
        call()
    return (time.perf_counter() - start) / options.calls * 1e6


def warm(call):
    for _ in range(200):
        call()


def least(call):
    """Returns the smallest repeat, because interference by other processes only adds time."""
    warm(call)
    return min(timed(call) for _ in range(options.repeats))


def serve():
    """Runs a process of --compare: reads row names, prints microseconds."""
    rows = rows_of()
    for call in rows.values():
        warm(call)
    print(json.dumps([described(), list(rows)]), flush=True)
    for line in sys.stdin:
        call = rows[line.rstrip("\n")]
        for _ in range(5):  # warm up: another process has evicted the CPU caches
            call()
        print(timed(call), flush=True)


def worker(package):
    passed = [f"--{name}={getattr(options, name)}"
              for name in ("library", "device", "dtype", "width", "calls")]
    process = subprocess.Popen(
        [sys.executable, __file__, "--worker", f"--package={package}", *passed],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, *json.loads(process.stdout.readline())


def ask(process, row):
    process.stdin.write(row + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def compared():
    """Returns both packages' lowest tenths by row: microseconds, and ratios to torch's
    layer_norm."""
    workers = {"package": worker(options.package), "compared": worker(options.compare)}
    names = workers["package"][2]
    taken = {which: {name: [] for name in names} for which in workers}
    for _ in range(options.repeats):
        for name in names:
            for which, (process, *_) in workers.items():
                taken[which][name].append(ask(process, name))
    for process, *_ in workers.values():
        process.stdin.close()
        process.wait()
    found = {}
    for which, rows in taken.items():
        tenths = {name: statistics.quantiles(times, n=10)[0] if len(times) > 1 else times[0]
                  for name, times in rows.items()}
        found[which] = {**workers[which][1],
                        "microseconds": {name: round(us, 2) for name, us in tenths.items()},
                        "over_torch_layer_norm": {
                            name: round(us / tenths[YARDSTICK], 3) for name, us in tenths.items()}}
    return found


sys.path[:0] = [options.package, str(pathlib.Path(__file__).resolve().parent)]
if options.worker:
    serve()
    sys.exit()
result = {"what": "microseconds that a call costs the host",
          "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
          "dtype": options.dtype,
          "shape": [4, options.width]}
if options.note:
    result["note"] = options.note
if options.compare:
    result |= compared()
    one, other = result["package"], result["compared"]
    print(f"package: {one['library']}\ncompared: {other['library']}\ntorch {one['torch']}, "
          f"{one['device']}, {options.dtype}, 4 x {options.width}")
    print("microseconds of the package and of --compare; both over torch's layer_norm; forward and "
          "grad()")
    for name, us in one["microseconds"].items():
        ratios = one["over_torch_layer_norm"][name], other["over_torch_layer_norm"][name]
        print(f"{us:8.1f} {other['microseconds'][name]:8.1f} {ratios[0]:7.2f} {ratios[1]:7.2f}  "
              f"{name}")
else:
    result |= described()
    print(f"torch {result['torch']}, {result['device']}, {options.dtype}, 4 x {options.width}")
    result["microseconds"] = {}
    for name, call in rows_of().items():
        result["microseconds"][name] = round(least(call), 2)
        print(f"{result['microseconds'][name]:8.1f}  {name}", flush=True)
if options.out:
    options.out.write_text(json.dumps(result, indent=1) + "\n")

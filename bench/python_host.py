#!/usr/bin/env python3
"""What a call costs the host: the Python package, the ctypes binding of this folder, torch's own norms and on a GPU Liger-Kernel's, where
it is installed, on tensors so small that nothing else takes time. Prints the least of several runs, in microseconds a call.

    python_host.py --package build/release/python --library build/release/lib/libligerdsl.so [--device cuda:0]
"""

import argparse
import datetime
import json
import os
import pathlib
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--package", default="build/release/python")
parser.add_argument("--library", default="build/release/lib/libligerdsl.so")
parser.add_argument("--device", default="cpu")
parser.add_argument("--dtype", default="float32")
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--calls", type=int, default=2000)
parser.add_argument("--repeats", type=int, default=15)
parser.add_argument("--out", type=pathlib.Path, help="the same as JSON")
options = parser.parse_args()
sys.path[:0] = [options.package, str(pathlib.Path(__file__).resolve().parent)]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import ligerdsl  # noqa: E402
import ligerdsl.torch as lt  # noqa: E402
from ligerdsl import _bind  # noqa: E402
from ligerdsl_ctypes import Library  # noqa: E402

torch.set_num_threads(1)
device, dtype, width = torch.device(options.device), getattr(torch, options.dtype), options.width


def microseconds(call):
    """The least of the repeats: what another process takes is no cost of the call."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for _ in range(200):
        call()
    best = float("inf")
    for _ in range(options.repeats):
        wait()
        start = time.perf_counter()
        for _ in range(options.calls):
            call()
        best = min(best, (time.perf_counter() - start) / options.calls * 1e6)
    return best


x = torch.randn(4, width, dtype=dtype, device=device, requires_grad=True)
w = torch.ones(width, dtype=dtype, device=device, requires_grad=True)
b = torch.zeros(width, dtype=dtype, device=device, requires_grad=True)
g = torch.randn(4, width, dtype=dtype, device=device)
xd, wd, bd = x.detach(), w.detach(), b.detach()
y, rstd = lt.ops.rms_norm_forward(xd, wd, with_rstd=True)

context = Library(options.library).context(device)
code = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}[options.dtype]
plan = context.plan("rms_norm_forward", n_cols=width, dtype=code, weight_dtype=code, with_rstd=1)
bound = plan.bind(4, x=xd, weight=wd, y=y, rstd=rstd)

norms = (x, w), (x, w, b)
rows = [
    ("ctypes: execute, descriptors bound before", bound),
    ("ctypes: descriptors made for the call", lambda: plan.bind(4, x=xd, weight=wd, y=y, rstd=rstd)()),
    ("_bind.rms_norm_forward, the results given", lambda: _bind.rms_norm_forward(xd, wd, y, rstd, 0, 1e-6, 0.0)),
    ("ligerdsl.torch.ops.rms_norm_forward, two results", lambda: lt.ops.rms_norm_forward(xd, wd, with_rstd=True)),
    ("torch.ops.ligerdsl.rms_norm_forward, two results", lambda: torch.ops.ligerdsl.rms_norm_forward(xd, wd, with_rstd=True)),
    ("rms_norm without gradients", lambda: lt.rms_norm(xd, wd)),
    ("layer_norm without gradients", lambda: lt.layer_norm(xd, wd, bd)),
    ("torch's layer_norm without gradients", lambda: F.layer_norm(xd, (width,), wd, bd)),
    ("rms_norm, forward and grad()", lambda: torch.autograd.grad(lt.rms_norm(x, w), norms[0], g)),
    ("layer_norm, forward and grad()", lambda: torch.autograd.grad(lt.layer_norm(x, w, b), norms[1], g)),
    ("torch's layer_norm, forward and grad()", lambda: torch.autograd.grad(F.layer_norm(x, (width,), w, b), norms[1], g)),
]
if device.type == "cuda" and os.environ.get("LIGER_KERNEL_IMPL", "").lower() != "ligerdsl":
    try:
        from liger_kernel.ops import LigerLayerNormFunction, LigerRMSNormFunction
        rows += [
            ("Liger-Kernel's rms_norm, forward and grad()", lambda: torch.autograd.grad(LigerRMSNormFunction.apply(x, w, 1e-6), norms[0], g)),
            ("Liger-Kernel's layer_norm, forward and grad()", lambda: torch.autograd.grad(LigerLayerNormFunction.apply(x, w, b, 1e-6), norms[1], g)),
        ]
    except ImportError:
        pass
name_of_device = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
print(f"torch {torch.__version__}, {name_of_device}, {options.dtype}, 4 x {width}")
found = {}
for name, call in rows:
    found[name] = round(microseconds(call), 2)
    print(f"{found[name]:8.1f}  {name}", flush=True)
if options.out:
    options.out.write_text(json.dumps({
        "what": "microseconds that a call costs the host", "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "device": name_of_device, "torch": torch.__version__, "library": ligerdsl.build_info(), "dtype": options.dtype, "shape": [4, width],
        "microseconds": found}, indent=1) + "\n")

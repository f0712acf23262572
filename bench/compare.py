#!/usr/bin/env python3
"""Times libligerdsl beside PyTorch eager, torch.compile and Liger-Kernel: one process, one run, torch's tensors and stream.

    python3 bench/compare.py --library build/release/lib/libligerdsl.so --out bench/results/h200.json [--only rms_norm,swiglu]

Rows: kernel, pass, shape, dtype, provider, us (median), us_p20, us_p80, host_us, gbps, frac_copy, frac_same_copy, peak_mb,
max_error. Every time is taken with a cold L2. "copy" is a device-to-device copy of 2 GiB; "same copy" one that moves as many
bytes as the row's kernel.
"""

import argparse
import datetime
import json
import subprocess
import sys

import torch

from cases import CASES, CODES
from ligerdsl_ctypes import Library
from timing import Timer


def copy_us(timer, nbytes):
    """Time of a copy that reads and writes `nbytes` in total."""
    source = torch.empty(max(nbytes // 2, 1), dtype=torch.uint8, device=timer.device)
    target = torch.empty_like(source)
    return timer.kernel_us(lambda: target.copy_(source), repetitions=21)[0]


def measure_case(case, timer, providers, same_copy, copy_gbps, rows):
    for provider in providers:
        if provider not in case.make:
            continue
        try:
            torch._dynamo.reset()
            passes = case.make[provider]()
        except ImportError as error:
            print(f"{case.kernel} {provider}: not installed ({error})", flush=True)
            continue
        restore, error = passes.pop("restore", None), passes.pop("error", None)
        for name, fn in passes.items():
            if restore:
                restore()
            us, p20, p80 = timer.kernel_us(fn, before=restore)
            nbytes = case.bytes[name]
            if nbytes not in same_copy:
                same_copy[nbytes] = copy_us(timer, nbytes)
            row = {"kernel": case.kernel, "pass": name, "shape": list(case.shape), "dtype": CODES[case.dtype],
                   "provider": provider, "us": round(us, 2), "us_p20": round(p20, 2), "us_p80": round(p80, 2),
                   "host_us": round(timer.host_us(fn), 2), "gbps": round(nbytes / us / 1e3, 1)}
            row["frac_copy"] = round(row["gbps"] / copy_gbps, 4)
            row["frac_same_copy"] = round(same_copy[nbytes] / us, 4)
            row["peak_mb"] = round(timer.peak_mb(fn) + getattr(fn, "workspace_bytes", 0) / 2**20, 1)
            rows.append(row)
        if error:
            worst = error()
            for row in rows[-len(passes):]:
                row["max_error"] = worst
        for row in rows[-len(passes):]:
            print(f"{row['kernel']:20s} {row['pass']:5s} {str(tuple(row['shape'])):24s} {provider:9s} {row['us']:9.1f} us "
                  f"{row['gbps']:7.0f} GB/s copy {row['frac_copy']:.3f} same {row['frac_same_copy']:.3f} host {row['host_us']:7.1f} us "
                  f"peak {row['peak_mb']:8.1f} MB err {row.get('max_error', float('nan')):.2e}", flush=True)
        del passes, fn
        torch.cuda.empty_cache()


def ratios(rows):
    """Peer time / our time for every kernel, pass and shape."""
    ours = {(r["kernel"], r["pass"], tuple(r["shape"]), r["dtype"]): r["us"] for r in rows if r["provider"] == "ligerdsl"}
    out = []
    for r in rows:
        key = (r["kernel"], r["pass"], tuple(r["shape"]), r["dtype"])
        if r["provider"] != "ligerdsl" and key in ours:
            out.append({"kernel": key[0], "pass": key[1], "shape": list(key[2]), "dtype": key[3], "peer": r["provider"],
                        "speedup": round(r["us"] / ours[key], 3)})
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="path of libligerdsl.so")
    parser.add_argument("--out", required=True, help="JSON file to write")
    parser.add_argument("--only", default="", help="kernels, comma separated; default all")
    parser.add_argument("--providers", default="ligerdsl,liger,compile,torch")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("compare.py needs a CUDA device")

    torch.manual_seed(0)
    library, timer = Library(options.library), Timer(torch.device("cuda:0"))
    context = library.context(timer.device)
    rows, same_copy = [], {}
    two_gib = copy_us(timer, 2 << 31)
    copy_gbps = (2 << 31) / two_gib / 1e3
    rows.append({"kernel": "copy", "pass": "fwd", "shape": [1 << 31], "dtype": "u8", "provider": "copy", "us": round(two_gib, 2),
                 "gbps": round(copy_gbps, 1), "frac_copy": 1.0})
    print(f"copy of 2 GiB: {two_gib:.1f} us, {copy_gbps:.0f} GB/s", flush=True)

    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    result = {"device": torch.cuda.get_device_name(), "driver": driver.stdout.strip().split("\n")[0], "date": datetime.date.today().isoformat(),
              "command": " ".join(["bench/compare.py", *sys.argv[1:]]), "build": library.build_info(),
              "torch": torch.__version__, "rows": rows, "failures": []}
    wanted = set(filter(None, options.only.split(",")))
    for name, (make, shapes) in CASES.items():
        if wanted and name not in wanted:
            continue
        for shape in shapes:
            try:
                measure_case(make(context, *shape), timer, options.providers.split(","), same_copy, copy_gbps, rows)
            except Exception as error:  # a peer's failure must not lose the others' numbers
                print(f"{name} {shape} FAILED: {type(error).__name__}: {error}", flush=True)
                result["failures"].append({"kernel": name, "shape": list(shape), "error": f"{type(error).__name__}: {error}"[:400]})
            torch.cuda.empty_cache()
            result["ratios"] = ratios(rows)
            with open(options.out, "w") as file:
                json.dump(result, file, indent=1)
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())

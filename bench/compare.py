#!/usr/bin/env python3
"""Times libligerdsl beside PyTorch eager, torch.compile, Liger-Kernel and QuACK: one process, one run, torch's tensors and stream.

    python3 bench/compare.py --library build/release/lib/libligerdsl.so --out bench/results/h200.json --set issue3-table,flce

Cases run in order of importance until --budget-s is spent; the file is written after every contender, and --resume goes on with
the cases that it lacks. Exit code 0: all measured; 1: something failed; 4: the GPU's context is lost; 5: the budget cut cases.
A row: kernel, pass, shape, dtype, provider; us, us_p20, us_p80 (kernel time, cold L2), wall_us (the same, waiting for the host),
host_us, us_sustained (fused linear cross-entropy: us is in bursts then), us_graph (a chain: us is one link of many on a stream, this
in a CUDA graph; or graph_error); gbps, frac_copy (of a copy of 2 GiB), frac_same_copy (of one that moves as many bytes); peak_mb
(outputs and temporaries; of all sets of a chain), workspace_mb; max_error against float64.
"""

import argparse
import contextlib
import datetime
import importlib
import os
import platform
import signal
import subprocess
import sys
import time
from importlib import metadata

import torch

import sets
from cases import build
from ligerdsl_ctypes import Library
from measure import Copies, measure
from results import ResultFile, one_line, problems
from timing import timer_for

PROVIDERS = ("ligerdsl", "liger", "compile", "torch", "quack")
OK, FAILED, LOST, CUT = 0, 1, 4, 5


class Late(Exception):
    """A contender took longer than it may."""


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="path of libligerdsl.so")
    parser.add_argument("--out", required=True, help="JSON file to write")
    parser.add_argument("--set", default="issue3-table", help="sets or models, comma separated: " + ", ".join([*sets.SETS, *sets.MODELS]))
    parser.add_argument("--only", default="", help="kernels of the sets, comma separated; default all")
    parser.add_argument("--providers", default=",".join(PROVIDERS), help="default %(default)s; their variants and the floor come along")
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu")
    parser.add_argument("--smoke", action="store_true", help="the set smoke: tiny shapes, which a CPU can check")
    parser.add_argument("--budget-s", type=float, default=0, help="start no contender that would end later than this; 0 = no limit")
    parser.add_argument("--contender-s", type=int, default=120, help="give up on a contender after this long")
    parser.add_argument("--resume", default="", help="a result of the same machine and build: measure what it lacks")
    options = parser.parse_args()
    options.set = "smoke" if options.smoke else options.set
    return options


def about(library, device):
    """The fields that describe a run."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        asked = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
        driver = asked.stdout.strip().split("\n")[0] or f"unknown; CUDA {torch.version.cuda}"
    else:
        name, driver = f"cpu {platform.machine()}, {os.cpu_count()} threads", "none"
    return {"device": name, "driver": driver, "date": datetime.date.today().isoformat(), "build": library.build_info(),
            "torch": torch.__version__, "command": " ".join(["bench/compare.py", *map(without_folder, sys.argv[1:])]), "peers": peers()}


def without_folder(argument):
    """Results are published: they say what was run, not where a machine keeps it."""
    return argument.rsplit("/", 1)[-1]


def peers():
    """Versions of the peers that are installed."""
    found = {}
    for name in ("triton", "liger-kernel", "quack-kernels", "nvidia-cutlass-dsl"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


NEEDS = {"liger": ("liger_kernel", "the wheel liger-kernel"),
         "quack": ("quack", "the wheels quack-kernels, nvidia-cutlass-dsl with its -libs-core, -libs-base and -libs-cu13, apache-tvm-ffi, "
                            "torch-c-dlpack-ext, einops, in a folder called site-packages, and its nvidia_cutlass_dsl/dsl_packages "
                            "on PYTHONPATH")}


def installed(providers, file):
    """The providers that can be imported; the file says which cannot, why, and what they need."""
    present = []
    for provider in providers:
        module, wheels = NEEDS.get(provider, ("torch", ""))
        try:
            importlib.import_module(module)
            present.append(provider)
        except Exception as error:  # of a peer's own making, not only ImportError
            file.data["not_measured"].append(f"{provider}: cannot be imported ({one_line(str(error))[:200]}); it needs {wheels}")
    return present


class Budget:
    """Seconds since the start of the process, and what a contender of a kernel took before."""

    def __init__(self, seconds):
        self.seconds, self.begin, self.took = seconds, time.monotonic(), {}

    def allows(self, kernel, provider):
        expected = self.took.get((kernel, provider), 8.0)
        return expected < self.left()

    def left(self):
        return self.seconds - (time.monotonic() - self.begin) if self.seconds else float("inf")

    def note(self, kernel, provider, seconds):
        self.took[kernel, provider] = seconds


def wanted_of(case, providers):
    """The contenders of a case: those asked for, their variants (ligerdsl_f32, liger32), and the floor, in the case's order."""
    return [name for name in case.make if name == "floor" or any(name.rstrip("0123456789").split("_")[0] == p for p in providers)]


def context_is_lost(device):
    if device.type != "cuda":
        return False
    try:
        torch.cuda.synchronize()
        return False
    except RuntimeError:
        return True


def show(row):
    print(f"{row['kernel']:26s} {row['pass']:4s} {'x'.join(map(str, row['shape'])):20s} {row['dtype']:4s} {row['provider']:14s} "
          f"{row['us']:10.1f} us wall {row['wall_us']:10.1f} host {row['host_us']:8.1f} {row['gbps']:7.0f} GB/s copy {row['frac_copy']:.3f} "
          f"same {row['frac_same_copy']:.3f} peak {row['peak_mb'] or 0:9.1f} MB err {row['max_error']:.1e}", flush=True)


class Run:
    def __init__(self, options, library, device, file):
        self.options, self.device, self.file = options, device, file
        self.context, self.timer, self.budget = library.context(device), timer_for(device), Budget(options.budget_s)
        self.copies = Copies(self.timer, 2 << 30 if device.type == "cuda" else 64 << 20)
        file.rows.insert(0, self.copies.row("copy", "fwd", [self.copies.ceiling_bytes], "u8", 2 * self.copies.ceiling_bytes))
        print(f"copy: {self.copies.gbps:.0f} GB/s", flush=True)

    def contender(self, case, wanted, provider):
        """Measures one contender; a failure is written down and the next one goes on."""
        begin = time.monotonic()
        signal.alarm(int(min(self.options.contender_s, max(self.budget.left(), 5))))
        try:
            torch._dynamo.reset()
            rows = measure(case, wanted, provider, self.timer, self.copies)
            signal.alarm(0)
            self.file.add(rows)
            for row in rows:
                show(row)
        except Exception as error:
            signal.alarm(0)
            print(f"FAILED {wanted} {provider}: {type(error).__name__}: {error}"[:1000], flush=True)
            self.file.fail(wanted, provider, f"{type(error).__name__}: {error}")
        self.budget.note(wanted.kernel, provider, time.monotonic() - begin)

    def one_case(self, wanted, providers):
        """All contenders of a case, or none of those that the file has already."""
        torch.manual_seed(0)
        case = build(self.context, wanted)
        contenders = wanted_of(case, providers)
        if all(self.file.has(wanted, provider) for provider in contenders):
            return
        self.file.drop(wanted)
        self.file.add([self.copies.row(case.kernel, name, case.shape, wanted.dtype, size) for name, size in case.bytes.items()])
        for provider in contenders:
            if self.file.has(wanted, provider):  # it is known to fail
                continue
            if not self.budget.allows(wanted.kernel, provider):
                self.file.data["not_measured"].append(f"{wanted} {provider}: the budget of {self.options.budget_s:g} s is spent")
                continue
            self.contender(case, wanted, provider)
            if context_is_lost(self.device):
                raise SystemExit(LOST)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def all(self, cases, providers):
        for i, wanted in enumerate(cases):
            if not self.budget.allows(wanted.kernel, "ligerdsl"):
                self.file.data["not_measured"] += [f"{left}: the budget of {self.options.budget_s:g} s is spent" for left in cases[i:]]
                break
            try:
                self.one_case(wanted, providers)
            except Exception as error:
                if context_is_lost(self.device):
                    raise SystemExit(LOST)
                print(f"FAILED {wanted}: {type(error).__name__}: {error}", flush=True)
                self.file.fail(wanted, "case", f"{type(error).__name__}: {error}")
        self.file.write()


def own_stream(device):
    """A stream of our own for everything: kernels of the default stream of CUDA may not overlap."""
    return torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else contextlib.nullcontext()


def on_alarm(signum, frame):
    raise Late("took longer than --contender-s, or than what --budget-s left")


def summary(file):
    for failure in file.data["failures"]:
        print(f"FAILED {failure['kernel']} {failure['shape']} {failure['dtype']} {failure['provider']}: {failure['error'][:200]}")
    for text in file.data["not_measured"]:
        print(f"NOT MEASURED {text}")
    wrong = problems(file.data)
    for text in wrong:
        print(f"INCOMPLETE {text}")
    print(f"{len(file.rows)} rows, {len(file.data['failures'])} failures, {len(file.data['not_measured'])} not measured: {file.path}")
    return FAILED if file.data["failures"] or wrong else CUT if file.data["not_measured"] else OK


def main():
    options = parse()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("compare.py: torch sees no CUDA device; --device cpu --smoke checks everything but the speed")
    try:
        cases = sets.select(options.set.split(","), list(filter(None, options.only.split(","))))
    except KeyError as error:
        sys.exit(f"compare.py: {error.args[0]}")
    signal.signal(signal.SIGALRM, on_alarm)
    if device.type == "cpu":
        torch.set_num_threads(1)
    library = Library(options.library)
    file = ResultFile(options.out, about(library, device))
    if options.resume:
        file.resume(options.resume)
    providers = installed(options.providers.split(","), file)
    try:
        with own_stream(device):
            Run(options, library, device, file).all(cases, providers)
    except SystemExit as lost:
        file.data["not_measured"].append("everything after the last failure: the GPU's context was lost; go on with --resume")
        file.write()
        summary(file)
        return lost.code
    return summary(file)


if __name__ == "__main__":
    sys.exit(main())

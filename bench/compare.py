#!/usr/bin/env python3
"""Times libligerdsl, PyTorch eager, torch.compile, Liger-Kernel, QuACK and FlashAttention-4 in one
process, on torch's tensors and stream.

    python3 bench/compare.py --library build/release/lib/libligerdsl.so --out out --run 1 \\
        --jobs head=60 issue3-table+issue2=260 flce=240 --budget-s 560

A job is one set of cases, or several joined by '+', with a time limit in seconds. Each job writes
compare-DATE-RUN-SETS.json into the folder --out. Without --jobs, --set names the sets and --out the
only file. Cases run in order of importance until the time is spent. The file is written after every
contender, and --resume measures the cases that a file lacks.

Exit code 0: all measured; 1: a contender failed; 4: the GPU's context is lost; 5: cases were left
out for lack of time.

Fields of a row:

- kernel, pass, shape, dtype, provider
- us, us_p20, us_p80: kernel time with a cold L2; bursts for fused heads and matmuls
- us_sustained: time of repetitions back to back (fused heads and matmuls)
- us_graph or graph_error: a link of a chain in a CUDA graph; us is then one of many links on a
  stream
- us_kernels: kernels alone, for a contender whose host waits for the GPU within a pass
- wall_us: time that includes waits for the host; host_us: time of the host
- gbps; frac_copy: relative to a copy of 2 GiB; frac_same_copy: relative to a copy of the same size
- peak_mb: outputs and temporaries, of all links of a chain; workspace_mb
- errors: error of every output against float64; max_error: the largest of them
"""

import argparse
import contextlib
import datetime
import importlib
import os
import pathlib
import platform
import signal
import subprocess
import sys
from importlib import metadata

import torch

import sets
from ligerdsl_ctypes import Library
from measure import Copies
from results import ResultFile, build_fields, one_line, problems
from runner import CUT, FAILED, LOST, OK, Budget, Run, on_alarm
from timing import timer_for

PROVIDERS = ("ligerdsl", "liger", "compile", "torch", "quack", "flash4")
AFTERWARDS_S = 30  # seconds kept free at the end of the process for the profiler


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="path of libligerdsl.so")
    parser.add_argument("--out", required=True, help="JSON file to write; with --jobs a folder")
    parser.add_argument("--jobs", nargs="+", metavar="SET[+SET]=SECONDS",
                        help="jobs with their time limits, each with a result file; 0 seconds: no "
                             "limit")
    parser.add_argument(
        "--set", default="issue3-table",
        help="sets or models, separated by commas: " + ", ".join([*sets.SETS, *sets.MODELS]))
    parser.add_argument("--only", default="",
                        help="kernels of the sets, separated by commas; default: all")
    parser.add_argument("--providers", default=",".join(PROVIDERS),
                        help="contenders, separated by commas; their variants and the floor also "
                             "run, but "
                             "compile_max and quack_tuned only if named, because they search for "
                             "minutes; default: %(default)s")
    parser.add_argument(
        "--run", type=int,
        help="number of this run among those of the day; default: seconds since midnight, UTC")
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu")
    parser.add_argument("--smoke", action="store_true",
                        help="run the set smoke: tiny shapes, which a CPU can check")
    parser.add_argument(
        "--budget-s", type=float, default=0,
        help="time limit of the process in seconds; contenders that would end later do not start; "
             "0: no limit")
    parser.add_argument("--contender-s", type=int, default=120,
                        help="seconds after which a contender counts as failed; default: "
                             "%(default)s")
    parser.add_argument("--resume", default="",
                        help="file of an earlier run on the same machine and build; only the cases "
                             "that it lacks are measured; not with --jobs")
    options = parser.parse_args()
    options.set = "smoke" if options.smoke else options.set
    return options


def about(library, device, run, tool="bench/compare.py"):
    """Returns the fields that describe a run of a command."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        asked = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True, text=True)
        driver = asked.stdout.strip().split("\n")[0] or f"unknown; CUDA {torch.version.cuda}"
    else:
        name, driver = f"cpu {platform.machine()}, {os.cpu_count()} threads", "none"
    now = datetime.datetime.now(datetime.timezone.utc)
    number = run if run is not None else now.hour * 3600 + now.minute * 60 + now.second
    return {"device": name,
            "driver": driver,
            "date": now.date().isoformat(),
            "run": number,
            **build_fields(library.build_info()),
            "torch": torch.__version__,
            "command": " ".join([tool, *map(without_folder, sys.argv[1:])]),
            "peers": peers()}


def without_folder(argument):
    """Returns the file name alone, because published results must not contain local paths."""
    return argument.rsplit("/", 1)[-1]


def peers():
    """Returns the versions of the installed peers."""
    found = {}
    for name in ("triton", "liger-kernel", "quack-kernels", "nvidia-cutlass-dsl"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


WHEELS = ("nvidia-cutlass-dsl, nvidia-cutlass-dsl-libs-core, -libs-base and -libs-cu13, "
          "apache-tvm-ffi, torch-c-dlpack-ext and einops in a folder named site-packages; add that "
          "folder and its nvidia_cutlass_dsl/dsl_packages to PYTHONPATH")
NEEDS = {
    "liger": ("liger_kernel", "the wheel liger-kernel"),
    "flash4": ("flash_attn.cute.interface", "the wheels flash-attn-4, quack-kernels, " + WHEELS),
    "quack": ("quack", "the wheels quack-kernels, " + WHEELS)}


def installed(providers):
    """Returns the providers that can be imported, and for the others the reason and the wheels they
    need."""
    present, missing = [], []
    for provider in providers:
        module, wheels = NEEDS.get(provider.split("_")[0], ("torch", ""))
        try:
            importlib.import_module(module)
            present.append(provider)
        except Exception as error:  # a peer may raise any exception, not only ImportError
            missing.append(f"{provider}: cannot be imported ({one_line(str(error))[:200]}); "
                           f"install {wheels or module}")
    return present, missing


def jobs_of(options, fields):
    """Returns [(sets, seconds, file)] from the command line."""
    if not options.jobs:
        return [(options.set.split(","), options.budget_s, pathlib.Path(options.out))]
    found = []
    for job in options.jobs:
        names, _, seconds = job.partition("=")
        file = (pathlib.Path(options.out)
                / f"compare-{fields['date']}-{fields['run']}-{names.replace('+', '_')}.json")
        found.append((names.split("+"), float(seconds or 0), file))
    return found


def own_stream(device):
    """Returns a new stream for all work: kernels of CUDA's default stream cannot overlap."""
    return (torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda"
            else contextlib.nullcontext())


def summary(file):
    for failure in file.data["failures"]:
        print(f"FAILED {failure['kernel']} {failure['shape']} {failure['dtype']} "
              f"{failure['provider']}: {failure['error'][:200]}")
    for text in file.data["not_measured"]:
        print(f"NOT MEASURED {text}")
    wrong = problems(file.data)
    for text in wrong:
        print(f"INCOMPLETE {text}")
    print(f"{file.path}: {len(file.rows)} rows, {len(file.data['failures'])} failures, "
          f"{len(file.data['not_measured'])} not measured")
    return FAILED if file.data["failures"] or wrong else CUT if file.data["not_measured"] else OK


def measure_all(jobs, options, library, device, fields):
    """Returns the exit codes of the jobs."""
    context, timer, total = library.context(device), timer_for(device), Budget(options.budget_s)
    copies = Copies(timer, 2 << 30 if device.type == "cuda" else 64 << 20)
    print(f"copy: {copies.gbps:.0f} GB/s", flush=True)
    providers, missing = installed(options.providers.split(","))
    runs, lost = [], False
    try:
        for names, seconds, path in jobs:
            file = ResultFile(path, fields)
            if options.resume:
                file.resume(options.resume)
            file.data["not_measured"] += missing
            allowed = min(seconds or float("inf"),
                          max(total.left() - (AFTERWARDS_S if options.jobs else 0), 0.001))
            run = Run(context, device, timer, copies, file,
                      Budget(allowed if allowed != float("inf") else 0), options.contender_s)
            runs.append((run, sets.select(names, list(filter(None, options.only.split(","))))))
            run.all(runs[-1][1], providers)
        for run, cases in runs:
            run.budget = total
            run.kernel_times(cases)
    except SystemExit:  # the GPU's context is lost
        lost = True
        runs[-1][0].file.data["not_measured"].append("everything after the last failure: the GPU's "
                                                     "context was lost; continue with --resume")
        runs[-1][0].file.write()
    codes = [summary(run.file) for run, _ in runs]
    return [LOST] if lost else codes


def main():
    options = parse()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("compare.py: torch finds no CUDA device; use a machine with a GPU, or check the "
                 "script without measurements by --device cpu --smoke")
    library = Library(options.library)
    fields = about(library, device, options.run)
    jobs = jobs_of(options, fields)
    try:
        for names, _, _ in jobs:
            sets.select(names, list(filter(None, options.only.split(","))))
    except KeyError as error:
        sys.exit(f"compare.py: {error.args[0]}")
    signal.signal(signal.SIGALRM, on_alarm)
    if device.type == "cpu":
        torch.set_num_threads(1)
    with own_stream(device):
        codes = measure_all(jobs, options, library, device, fields)
    return next((code for code in (LOST, FAILED, CUT) if code in codes), OK)


if __name__ == "__main__":
    sys.exit(main())

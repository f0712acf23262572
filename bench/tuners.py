#!/usr/bin/env python3
"""Compares the wall time of `ligerdsl tune` with Triton's autotuner.

    python3 bench/tuners.py --command build/release/bin/ligerdsl \\
        --library build/release/lib/libligerdsl.so --out tuners-DATE.json

Both tuners get the same operation, shape, number of configurations and number of timed launches.

Every search is a process with empty disk caches. One clock measures two times:

- `process_seconds`: the whole process, with imports and the GPU's context
- `search_seconds`: the search alone

METHOD, which goes into the JSON, describes both. Triton runs in each of MODES (tuners_triton.py).
One process then times all winners with one timer (`winners_us`). A search that fails is listed with
its reason. `--device cpu` runs ours alone, to try this script without a GPU.
"""

import argparse
import datetime
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from results import one_line

HERE = pathlib.Path(__file__).resolve().parent
CONFIGURATIONS = 48  # configurations that Triton searches for these kernels (tuners_triton.fields)
# samples after which `ligerdsl tune` drops a slow configuration (lib/cli/tune/tune_worker.cpp)
FIRST_SAMPLES = 3
MODES = {
    "triton": "configurations compiled in parallel, the same total of timed launches as ligerdsl",
    "triton_own_samples": "configurations compiled in parallel, Triton's own benchmark: 100 ms of "
                          "launches of each configuration after 25 ms",
    "triton_as_it_is": "only the first call of the autotuned kernel: one compile after the other, "
                       "Triton's own benchmark",
}
METHOD = {
    "process_seconds": "wall clock (time.perf_counter of the process that starts it) around the "
                       "whole process, with empty disk caches",
    "search_seconds of ligerdsl": "from the time when the process that runs kernels has its "
                                  "context: data, float64 answers, compiling, checking and timing "
                                  "every configuration, finals",
    "search_seconds of triton": "after the imports, the GPU's context, the tensors and one compile "
                                "and launch of another kernel: compiling and timing every "
                                "configuration, one launch of the best. No result is checked",
    "timed_launches": "between two events, with a cold L2, without warm-up. ligerdsl: candidates, "
                      "the heuristic alternating with them, finals",
    "winners_us": "median of bench/timing.py, all winners in one process after the searches",
}


def timed_launches(trials):
    """Returns a search's number of timed launches of one problem; the heuristic alternates with
    each candidate."""
    samples = sum(FIRST_SAMPLES + (trial["samples"] if trial["fate"] == "ok" else 0)
                  for trial in trials if trial["us"])
    return 2 * samples


def samples_each(launches, configurations):
    """Returns timed launches per configuration, rounded up to reach the total."""
    return max(1, math.ceil(launches / max(configurations, 1)))


def run(arguments, environment):
    """Returns a process's seconds and output. Raises RuntimeError with its last line if it
    fails."""
    began = time.perf_counter()
    done = subprocess.run([str(argument) for argument in arguments],
                          env={**os.environ, **environment}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise RuntimeError(one_line(done.stderr.strip().splitlines()[-1] if done.stderr.strip()
                                    else f"exit code {done.returncode}"))
    return seconds, done.stdout


def ligerdsl_search(options, operation, n, h, folder):
    store = folder / "trials.jsonl"
    seconds, out = run([options.command, "--device", options.device, "tune", operation,
                        "dtype=bf16", f"H={h}", f"N={n}", "--max-evals", options.configurations,
                        "--budget", "10m", "--store", store, "--export", folder / "table.json",
                        "-q", "--json", "-"],
                       {"LIGERDSL_CACHE_DIR": str(folder / "cache"), "CUDA_CACHE_DISABLE": "1"})
    result = json.loads(out)["results"][0]
    trials = [json.loads(line) for line in store.read_text().splitlines()]
    return {"process_seconds": seconds, "search_seconds": result["seconds"],
            "configurations": result["tried"], "timed_launches": timed_launches(trials),
            "config": result["winner"]["config"], "heuristic_won": result["heuristic_won"]}


def triton_search(mode, operation, n, h, configurations, launches, folder):
    each = samples_each(launches, configurations)
    seconds, out = run([sys.executable, HERE / "tuners_triton.py", "search", mode, operation, n, h,
                        "--configurations", configurations, "--samples", each],
                       {"TRITON_CACHE_DIR": str(folder / mode), "CUDA_CACHE_DISABLE": "1"})
    return {"process_seconds": seconds, **json.loads(out)}


def winners_us(options, operation, n, h, searches, folder):
    """Returns the times of all tuners' winners, measured with one timer."""
    configs = {name: search["config"] for name, search in searches.items()
               if name != "ligerdsl" and "config" in search}
    out = run([sys.executable, HERE / "tuners_triton.py", "time", operation, n, h, "--library",
               options.library, "--configs", json.dumps(configs)],
              {"LIGERDSL_TABLE": str(folder / "table.json")})[1]
    return json.loads(out)


def attempt(body):
    try:
        return body()
    except (RuntimeError, OSError, ValueError, KeyError, IndexError) as error:
        return {"error": one_line(f"{type(error).__name__}: {error}")}


def measured(options, operation, n, h):
    """Runs one repetition: each tuner's search, and the times of its winner."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        searches = {"ligerdsl": attempt(lambda: ligerdsl_search(options, operation, n, h, folder))}
        ours = searches["ligerdsl"]
        for mode in MODES:
            if "error" in ours:
                searches[mode] = {"error": "not run: the search by ligerdsl failed, so the number "
                                           "of launches is unknown"}
            elif options.device == "cpu":
                searches[mode] = {"error": "not run: Triton needs a GPU; use --device cuda:0"}
            else:
                searches[mode] = attempt(lambda: triton_search(
                    mode, operation, n, h, ours["configurations"], ours["timed_launches"], folder))
        if options.device != "cpu" and options.library:
            searches["winners_us"] = attempt(lambda: winners_us(options, operation, n, h, searches,
                                                                folder))
        return searches


def medians(repetitions):
    """Returns each tuner's medians of both times over repetitions."""
    found = {}
    for name in ("ligerdsl", *MODES):
        right = [one[name] for one in repetitions if "error" not in one[name]]
        if right:
            found[name] = {key: statistics.median(search[key] for search in right)
                           for key in ("process_seconds", "search_seconds")}
    return found


def versions(options):
    library = run([options.command, "--version"], {})[1].strip()
    peer = attempt(lambda: json.loads(run([sys.executable, HERE / "tuners_triton.py", "versions"],
                                          {})[1]))
    return {"library": library, **(peer if "error" not in peer else {"triton": peer})}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", required=True, help="path of the `ligerdsl` command")
    parser.add_argument("--library", help="path of libligerdsl.so, to time the winners; default: "
                                          "they are not timed")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--operations", nargs="*", default=["rms_norm_forward", "softmax_forward"])
    parser.add_argument("--shapes", nargs="*",
                        default=["2048x4096", "16384x4096", "4096x8192", "2048x16384"],
                        help="shapes ROWSxCOLUMNS")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--configurations", type=int, default=CONFIGURATIONS,
                        help="largest number of configurations per search; default: %(default)s")
    options = parser.parse_args()
    if not 1 <= options.configurations <= CONFIGURATIONS:
        parser.error(f"--configurations: expected 1 to {CONFIGURATIONS}, which Triton searches, "
                     "got "
                     f"{options.configurations}")
    rows = []
    result = {"device": options.device,
              "date": datetime.date.today().isoformat(),
              **versions(options),
              "cores": os.cpu_count(),
              "asked_configurations": options.configurations,
              "method": METHOD,
              "modes": MODES,
              "rows": rows}
    for operation, shape in itertools.product(options.operations, options.shapes):
        n, h = (int(size) for size in shape.split("x"))
        repetitions = [measured(options, operation, n, h) for _ in range(options.repetitions)]
        rows.append({"operation": operation, "shape": [n, h], "dtype": "bf16",
                     "medians": medians(repetitions), "repetitions": repetitions})
        print(json.dumps({key: rows[-1][key] for key in ("operation", "shape", "medians")}),
              flush=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all("ligerdsl" in row["medians"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

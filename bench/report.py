#!/usr/bin/env python3
"""Writes docs/performance.md and docs/performance/ (details.md and plots) from the JSON of
bench/results.

    python3 bench/report.py

--check writes nothing and exits with 1 if docs/ differs from the output. --results and --docs name
other folders.
"""

import argparse
import pathlib
import re
import sys
from collections import defaultdict

import sets
from results import case_key
from shown import FULL, NO_PEER, OURS, WRONG, Dirty, by_device, cases_of, load, span, time_of, used
from svg import plot
from tables import (ERRORS, FLCE, NAMES, chain_table, error_table, key_of, linear_table, mean_line, name_of, shape_text, standing, summary,
                    table)

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUT = "s is spent"  # end of a line about a spent budget
# Plots: kernel, index of the shape that varies, its letter and its name.
SWEEPS = (("cross_entropy", 1, "V", "classes"), ("rms_norm", 1, "H", "row width"), ("layer_norm", 1, "H", "row width"),
          ("swiglu", 0, "T", "rows"), ("geglu", 0, "T", "rows"), ("rope", 1, "T", "positions"), (FLCE, 0, "T", "rows"))


def provenance(results):
    """Returns one line per run: its origin."""
    groups = defaultdict(list)
    for result, name in results:
        groups[result["date"], result.get("run", 0), result["device"], result["commit"]].append((result, name))
    lines = []
    for (date, run, device, commit), entries in groups.items():
        result = entries[0][0]
        peers = ", ".join(f"{k} {v}" for k, v in result.get("peers", {}).items())
        copies = [row["gbps"] for r, _ in entries for row in r["rows"] if row["kernel"] == "copy"]
        lines.append(f"* {date} run {run}, commit {commit[:12]}, {device}, driver {result.get('driver', 'unknown')}, PyTorch {result['torch']}"
                     f"{', ' + peers if peers else ''}; a copy of 2 GiB: {span(copies, '{:.0f}')} GB/s; {len(entries)} "
                     f"file{'s' * (len(entries) > 1)}")
    return lines


def failures(results, known):
    """Returns one line per peer, kernel and reason, with the shapes."""
    groups = defaultdict(list)
    for result, _ in results:
        for f in result.get("failures", []):
            if (case_key(f), f["provider"]) not in known:
                reason = re.sub(r"\d+", "N", f["error"][:100])  # numbers depend on the shape
                groups[f["kernel"], f["provider"], reason].append((shape_text(case_key(f)), f["error"]))
    return [f"* {kernel} {name_of(provider)}, {', '.join(dict.fromkeys(shape for shape, _ in found))}: {found[0][1][:160]}"
            for (kernel, provider, _), found in groups.items()]


def wrong_results(cases):
    """Returns the peers' passes that do not count, because their results are wrong."""
    return [f"* {key[0]} {shape_text(key)} {name} {name_of(provider)}: not counted, its result is off by {row['max_error']:.2g}"
            for key, runs in cases.items() if key[0] not in ERRORS for run, _, _ in runs for (name, provider), row in run.items()
            if provider not in NO_PEER and row["max_error"] > WRONG]


def missing_lines(cases, results):
    """Returns the cases that shown runs failed to measure and that no other of them measured."""
    known = {(key, provider) for key, runs in cases.items() for run, _, _ in runs for _, provider in run}
    text_of = lambda key: f"{key[0]} {'x'.join(map(str, key[1]))} {key[2]}"
    measured = {f"{text_of(key)} {provider}" for key, provider in known} | set(map(text_of, cases))
    out, cut = failures(results, known), []
    for result, _ in results:
        left = [text for text in result.get("not_measured", []) if text.split(":")[0] not in measured]
        out += [f"* {text[:200]}" for text in left if not text.endswith(CUT)]
        cut += [text.split(":")[0] for text in left if text.endswith(CUT) and not text.split(":")[0].endswith(("slow contenders", *SLOW))]
    out += wrong_results(cases)
    if cut:
        out.append("* For lack of time: " + "; ".join(dict.fromkeys(cut)))
    out += slow_forms(results)
    return ["", "## Not measured", "", *dict.fromkeys(out)] if out else []


def figures(cases):
    """Returns {file name: SVG} of sweeps with three points or more, each case from its most
    complete run."""
    files = {}
    for kernel, axis, letter, words in SWEEPS:
        rate, unit = ("tflops", "TFLOP/s") if kernel == FLCE else ("gbps", "GB/s of necessary bytes")
        for field, what, unit in ((rate, "speed", unit), ("peak_mb", "memory", "peak MB")):
            groups = defaultdict(lambda: defaultdict(dict))
            for key, runs in cases.items():
                for (pass_name, provider), row in max((run for run, _, _ in runs), key=len).items():
                    if key[0] != kernel or key[2] != "bf16" or pass_name != FULL or row.get(field) is None:
                        continue
                    if what == "memory" and row[field] == 0:  # a copy
                        continue
                    rest = key[1][:axis] + key[1][axis + 1:]
                    faster = row["us"] / time_of(row) if what == "speed" else 1
                    groups[rest][provider][key[1][axis]] = row[field] * faster
            if not groups:
                continue
            rest, lines = max(groups.items(), key=lambda g: len(g[1].get(OURS, ())))
            if len(lines.get(OURS, ())) < 3:
                continue
            places = sorted({place for points in lines.values() for place in points})
            order = [p for p in (*NAMES, *lines) if p in lines]
            title = f"{kernel}, forward + backward, bf16, {'x'.join(map(str, rest))}"
            files[f"{kernel}-{what}.svg"] = plot(title, f"{letter}: {words}", unit, places, {p: lines[p] for p in dict.fromkeys(order)}, NAMES)
    return files


def cpu_lines(results):
    if not results:
        return []
    result = results[0][0]
    rows = [[r["kernel"], r["settings"], f"{r['median_ms']:.2f}", f"{r['fraction_of_copy']:.2f}", f"{r['fraction_of_same_size_copy']:.2f}"]
            for r in result["results"]]
    return ["", "## On a CPU", "", f"`ligerdsl bench --device cpu` on {result['device']}, {result['threads']} threads, commit "
            f"{result['commit'][:12]}; a copy of the same run: {result['copy_gb_per_s']:.1f} GB/s.",
            *table(["kernel", "settings", "ms", "of copy", "of same copy"], rows)]


def compile_lines(results):
    rows = []
    for result, _ in results:
        cold, phases = result["cold"], result["cold"]["phases_of_median_ms"]
        last = phases.get("driver", 0) + phases.get("link", 0) + phases.get("load", 0)
        compiler = sum(phases.values()) - phases["builder"] - last - phases.get("store", 0) - phases.get("lookup", 0)
        rows.append([result["device"], result["kernel"], f"{result['first']['median_ms']:.1f}", f"{cold['median_ms']:.1f} ({cold['p95_ms']:.1f})",
                     f"{phases['builder']:.2f}, {compiler:.1f}, {last:.1f}",
                     f"{result['disk']['median_ms']:.2f} ({result['disk']['p95_ms']:.2f})"])
    if not rows:
        return []
    return ["", "## Time to get a kernel", "", "Milliseconds from the builder's first call to a kernel that can be launched. Cold: no cache "
            "of ours, the driver's own cache off, in a process that has compiled another kernel. First: the first compile of a process, "
            "another kernel.", *table(["device", "kernel", "first", "cold (p95)", "of it: builder, MLIR + LLVM, driver or link",
                                       "from the disk cache (p95)"], rows)]


BRIEFLY = ("Generated by `bench/report.py` from `bench/results`; every number was measured, none is edited here. Times are in us, of forward and backward "
           "with a cold L2, beside the peers' in one process; a ratio above 1: we are faster. \"Of a copy\" is the fraction of the speed of a copy of 2 GiB. A range "
           "is of several runs. Other shapes, types and options, memory, sweeps, a CPU, how it is counted, the runs, and what was not measured: "
           "[`performance/details.md`](performance/details.md).")
INTRODUCTION = ("Generated by `bench/report.py` from `bench/results`; every number was measured, none is edited here. Each case is timed beside "
                "its peers in one process: cold L2, median of event times in us. A range is that of the medians of several runs of one "
                "commit, a single number that of one run or of runs that agree; a ratio is formed within a run, and above 1 where we are "
                "faster. The best peer is the one that came nearest to us in any run, and only runs that timed it count for a ratio; of a peer's "
                "forms (Liger's Triton and CuTe kernels, in place or not; QuACK with scaled exponentials or stored logits; torch.compile by "
                "default or, where the page says so, max-autotune) the best counts. A case is left out where time ran out for one of them. Where a "
                "peer's host waits for the GPU within a pass (Liger's cross-entropy), its kernels alone count.")
SHARDS = "fwd: the shard's statistics; full: also the losses and the gradient from those of eight shards. Liger: its operation as the only rank."
OTHERS = ("Shapes of published models, sweeps of the published figure, the other types, options that cost arithmetic: the smallest and the "
          "largest ratio to the best peer over the cases of each kernel. `bench/results` has every case.")
UNGATED = ("torch.compile's backward of ReLU reads a mask of a byte per element, which its forward writes where a backward follows; ours reads the "
           "input. So its backward alone moves fewer bytes, and of f32 both together do.")
LINEAR = ("Loss and both gradients. The bare products are the three matrix products of the same tensors by PyTorch's library; in brackets the "
          "multiple of them. In bursts: an idle quarter of a second before each, the queue filled while the GPU overwrites memory, so that no "
          "host's time is in it; sustained: back to back. QuACK cuts chunks of 4,096 rows, its "
          "default, and with scaled exponentials, which reject a chunk of H rows, 2,048 where H is 4,096; Liger's chunks are its default, "
          "where no number says otherwise; of each peer the best form is shown. The gradients are multiplied by the loss's gradient, here 1 and read on the device, in all. "
          "Error: the largest of loss, some rows of dx and a column of dw; of the bare products, that of the logits.")
PEAKED = ("Errors against float64, of both gradients as a whole (normwise) and of the loss, bf16, 2048 rows, H 1024, V 32000: random logits of "
          "a standard deviation, and rows made so that the label has a probability of 0.999, as it has in trained models.")
SLOW = {"compile_max": "torch.compile's max-autotune", "quack_tuned": "QuACK's autotuner, which is its default and searches for minutes"}


def slow_forms(results):
    """Returns lines about the forms of peers that search for long: where they were timed."""
    lines = []
    for provider, words in SLOW.items():
        rows = [row for result, _ in results for row in result["rows"] if row["provider"] == provider]
        where = ", ".join(dict.fromkeys(f"{row['kernel']} {shape_text(case_key(row))}" for row in rows))
        lines.append(f"* {words}: " + (f"only {where}" if where else "in no case"))
    return lines if results else []


def section(title, lines, *text):
    return ["", "## " + title, *(part for paragraph in text for part in ("", paragraph)), *lines] if lines else []


def groups(without):
    """Returns {title: cases} of the other sets: by kernel in bf16, by type in others."""
    found = defaultdict(list)
    for wanted in [*sets.widths(), *sets.figure(), *sets.dtypes(), *sets.options(), *sets.models()]:
        if key_of(wanted) not in without + found[wanted.kernel, wanted.dtype]:
            found[wanted.kernel, wanted.dtype].append(key_of(wanted))
    return {kernel.replace("_", " ") + ("" if dtype == "bf16" else " " + dtype): keys for (kernel, dtype), keys in found.items()}


def comparison(results):
    """Returns the sections of the comparison: (lines of the page, lines of its details, plots)."""
    out, details, plots = [], [], {}
    devices = by_device(results)
    for i, (device, entries) in enumerate(devices.items()):
        cases = cases_of(entries)
        keys = list(dict.fromkeys(map(key_of, [*sets.table(), *sorted(sets.flce(), key=lambda w: w.shape)])))
        out += section(f"Forward and backward beside the best peer, {device}", standing(cases, keys) + mean_line(cases))
        if i:
            continue
        more = [key for key in map(key_of, sets.issue2()) if key not in keys]
        plots = figures(cases)
        out += section("Other kernels", standing(cases, more))
        out += section("Chains of small kernels", chain_table(cases),
                       "us of one forward and backward of many that follow each other. On a stream the host's time shows where it is longer.")
        ungated = [key for key in map(key_of, sets.activations()) if key not in keys]
        details += section("Activations, biases, dropout, residual LayerNorm", standing(cases, ungated), UNGATED)
        divergences = list(map(key_of, sets.divergences()))
        details += section("Divergences of distributions", standing(cases, divergences))
        substitutes = list(map(key_of, sets.substitutes()))
        details += section("PolyNorm and DyT", standing(cases, substitutes))
        grouped = [key_of(case) for case in dict.fromkeys(sets.groups() + sets.wide_groups())]
        details += section("GroupNorm", standing(cases, grouped))
        modulated = list(map(key_of, sets.modulated()))
        details += section("Modulated RMSNorm", standing(cases, modulated))
        shards = list(map(key_of, sets.shards()))
        sparse = [key_of(case) for case in dict.fromkeys(sets.sparse() + sets.sparse_widths())]
        details += section("One shard of a vocabulary", standing(cases, shards), SHARDS)
        details += section("Sparsemax", standing(cases, sparse))
        shown = keys + more + ungated + divergences + substitutes + grouped + modulated + shards + sparse + list(map(key_of, sets.fused_jsd()))
        details += section("Other shapes, types and options", summary(cases, groups(shown)), OTHERS)
        details += section("Fused linear cross-entropy", linear_table(cases), LINEAR)
        details += section("Fused linear JSD", linear_table(cases, "fused_linear_jsd"))
        details += section("Fused linear cross-entropy: error on peaked rows", error_table(cases), PEAKED)
        details += section("Sweeps", [""] * bool(plots) + [f"![{name[:-4]}]({name})" for name in plots])
    shown = used({(device, key): runs for device, entries in devices.items() for key, runs in cases_of(entries).items()})
    details += section("Runs", [""] + provenance(shown) if shown else [])
    all_cases = {key: runs for entries in reversed(devices.values()) for key, runs in cases_of(entries).items()}
    return out, details + missing_lines(all_cases, shown), plots


def report(folder):
    """Returns the files below docs/, {name: text}, and the names of results without a commit, which
    are left out."""
    results, without = load(folder, "compare-*.json")
    lines, details, plots = comparison(results)
    cpu, no_cpu = load(folder, "bench-cpu-*.json")
    compiles = [load(folder, pattern) for pattern in ("compile-cpu-*.json", "compile-cuda-*.json")]
    without += no_cpu + [name for _, names in compiles for name in names]
    page = ["# Performance", "", BRIEFLY, *lines, *compile_lines([found[0] for found, _ in compiles if found])]
    details = ["# Performance: the rest", "", INTRODUCTION, *details, *cpu_lines(cpu)]
    if without:
        details += ["", f"Not shown, of no commit: {', '.join(without)}."]
    if (folder / "notes.md").exists():
        page += ["", "What is wanted, what is reached and what limits the rest: `bench/results/goals.md`; what was tried and what is predicted but not measured: `bench/results/notes.md`."]
    files = {"performance.md": page, "performance/details.md": details}
    return {name: "\n".join(text) + "\n" for name, text in files.items()} | {f"performance/{name}": svg for name, svg in plots.items()}, without


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    try:
        written, without = report(options.results)
    except Dirty as error:
        sys.exit(f"report.py: {error}")
    for name in without:
        print(f"not shown: no commit: {name}")
    files = {options.docs / name: text for name, text in written.items()}
    left_over = set((options.docs / "performance").glob("*.svg")) - set(files)
    if options.check:
        stale = [path for path, wanted in files.items() if not path.exists() or path.read_text() != wanted] + sorted(left_over)
        for path in stale:
            print(f"{path} is not what bench/results gives: run python3 bench/report.py")
        return 1 if stale else 0
    for path in left_over:
        path.unlink()
    for path, wanted in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes docs/performance.md and its plots from the JSON files of bench/results: python3 bench/report.py

--check writes nothing and exits 1 when what is in docs/ is not what the files give. --results and --docs name other folders.
"""

import argparse
import json
import pathlib
import sys
from collections import defaultdict

import sets
from probes import probe_us
from results import case_key, geometric_means
from svg import plot

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = {"ligerdsl": "libligerdsl", "liger": "Liger", "compile": "torch.compile", "torch": "PyTorch", "quack": "QuACK", "copy": "copy",
         "floor": "bare products", "liger32": "Liger, f32 sums", "ligerdsl_f32": "libligerdsl, f32 dW", "ligerdsl_300mb": "libligerdsl, f32 dW, 300 MB",
         "ligerdsl_300mb_dw16": "libligerdsl, 300 MB", "ligerdsl_64mb": "libligerdsl, f32 dW, 64 MB", "quack_logits": "QuACK, stored logits"}
PEERS = ("liger", "compile", "torch", "quack")
PASSES = {"fwd": "forward", "bwd": "backward", "full": "both"}
DTYPES = ("bf16", "f16", "f32")
# Plots: kernel, the shape's index that varies, what it is called.
SWEEPS = (("cross_entropy", 1, "V", "classes"), ("rms_norm", 1, "H", "row width"), ("layer_norm", 1, "H", "row width"),
          ("swiglu", 0, "T", "rows"), ("geglu", 0, "T", "rows"), ("rope", 1, "T", "positions"),
          ("fused_linear_cross_entropy", 0, "T", "rows"))


def load(folder, pattern):
    """Result files by date and name, the newest first."""
    files = [(json.loads(f.read_text()), f.name) for f in folder.glob(pattern)]
    return sorted(files, key=lambda entry: (entry[0].get("date", ""), entry[1]), reverse=True)


def newest_runs(folder):
    """The comparisons on the device of the newest, the last one first (compare-DATE-NUMBER-NAME.json). Each names its build."""
    files = load(folder, "compare-*.json")
    return [entry for entry in files if entry[0]["device"] == files[0][0]["device"]]


def cases_of(runs):
    """{case: {(pass, provider): row}}, each case from the last run that has it."""
    found = {}
    for result, _ in runs:
        mine = defaultdict(dict)
        for row in result["rows"]:
            if row["kernel"] != "copy":
                mine[case_key(row)][row["pass"], row["provider"]] = row
        for key, rows in mine.items():
            found.setdefault(key, rows)
    return found


def shape_text(key):
    return "x".join(map(str, key[1])) + " " + key[2]


def provenance(runs):
    lines = []
    for result, name in runs:
        copy = next(r for r in result["rows"] if r["kernel"] == "copy")
        peers = ", ".join(f"{k} {v}" for k, v in result.get("peers", {}).items())
        lines.append(f"* {result['device']}, {result['date']}, driver {result.get('driver', 'unknown')}, PyTorch {result['torch']}"
                     f"{', ' + peers if peers else ''}; `{result['command']}`; build {result['build']}; a copy of 2 GiB ran at "
                     f"{copy['gbps']:.0f} GB/s; `bench/results/{name}`")
    return "\n".join(lines)


def ours_cells(row, device):
    probe = probe_us(device, row)
    error, peak = row.get("max_error"), row.get("peak_mb") if "workspace_mb" in row else None  # else it was the workspace alone
    return [f"{row['us']:.1f}", f"{row['us_p20']:.1f}-{row['us_p80']:.1f}", f"{row['frac_copy']:.3f}", f"{row['frac_same_copy']:.3f}",
            f"{probe / row['us']:.3f}" if probe else "", f"{error:.1e}" if error is not None else "",
            f"{peak:.0f}" if peak is not None else "", f"{row['host_us']:.1f}"]


def peer_cell(row, ours):
    peak = row.get("peak_mb")
    return f"{row['us']:.1f} ({row['us'] / ours['us']:.2f}x)" + (f", {peak:.0f} MB" if peak is not None else "")


def peer_table(cases, device):
    rows = [r for case in cases.values() for r in case.values()]
    peers = [p for p in PEERS if any(r["provider"] == p for r in rows)]
    head = ["kernel", "shape", "pass", "us", "20-80 %", "of copy", "of same copy", "of hand-tuned", "max error", "peak MB", "host us"]
    out = ["| " + " | ".join(head + [NAMES[p] for p in peers]) + " |", "|" + "---|" * (len(head) + len(peers))]
    for key, case in cases.items():
        for pass_name in PASSES:
            ours = case.get((pass_name, "ligerdsl"))
            if key[0] == "fused_linear_cross_entropy" or not ours:
                continue
            cells = [key[0], shape_text(key), PASSES[pass_name], *ours_cells(ours, device)]
            for peer in peers:
                row = case.get((pass_name, peer))
                cells.append(peer_cell(row, ours) if row else "")
            out.append("| " + " | ".join(cells) + " |")
    return out


def mean_lines(cases):
    rows = [r for case in cases.values() for r in case.values()]
    means = geometric_means(rows, sets.geometric_mean())
    if not means:
        return []
    out = ["", "Geometric mean of peer time / our time, forward + backward, over RMSNorm 4k, 8k, 16k; LayerNorm 4k, 16k; SwiGLU; GeGLU; "
           "RoPE at two shapes; cross-entropy at three:", "", "| peer | times as long | cases |", "|---|---|---|"]
    return out + [f"| {NAMES.get(peer, peer)} | {mean:.2f} | {count} of {all_of} |" for peer, (mean, count, all_of) in means.items()]


def linear_lines(cases):
    """Fused linear cross-entropy: against the bare products, in bursts and sustained."""
    out = []
    for key, case in cases.items():
        floor = case.get(("full", "floor"))
        if key[0] != "fused_linear_cross_entropy" or not floor:
            continue
        for (_, provider), row in case.items():
            if provider != "copy":
                out.append(f"| {shape_text(key)} | {NAMES.get(provider, provider)} | {row['us'] / 1e3:.2f} ({row['us'] / floor['us']:.3f}) | "
                           f"{row['us_sustained'] / 1e3:.2f} ({row['us_sustained'] / floor['us_sustained']:.3f}) | "
                           f"{row.get('tflops', 0):.0f} | {row['peak_mb'] or 0:.0f} | {row['workspace_mb'] or ''} | {row['max_error']:.1e} |")
    if not out:
        return []
    return ["", "## Fused linear cross-entropy", "", "Loss and both gradients. The floor is the three bare matrix products of the same "
            "tensors by PyTorch's library; in brackets the multiple of it. In bursts: an idle quarter of a second before each; sustained: "
            "back to back. Peak: outputs and temporaries.", "",
            "| rows x H x V | contender | bursts, ms | sustained, ms | TFLOP/s | peak MB | workspace MB | max error |",
            "|---|---|---|---|---|---|---|---|", *out]


def dtype_lines(cases):
    """Our fractions of a copy's speed where a kernel was timed at one shape in several types."""
    groups = defaultdict(dict)
    for (kernel, shape, dtype), case in cases.items():
        groups[kernel, shape][dtype] = case
    out = []
    for (kernel, shape), of in groups.items():
        for pass_name in PASSES:
            ours = {dtype: case.get((pass_name, "ligerdsl")) for dtype, case in of.items()}
            cells = [f"{ours[d]['frac_copy']:.3f} ({ours[d]['frac_same_copy']:.3f})" if ours.get(d) else "" for d in DTYPES]
            if len(of) > 1 and any(cells):
                out.append("| " + " | ".join([kernel, "x".join(map(str, shape)), PASSES[pass_name], *cells]) + " |")
    if not out:
        return []
    return ["", "## The same in other types", "", "Fraction of a copy's speed and, in brackets, of a copy of as many bytes, at one shape:", "",
            "| kernel | shape | pass | " + " | ".join(DTYPES) + " |", "|" + "---|" * (3 + len(DTYPES)), *out]


def chain_lines(cases, device):
    """Small kernels queued one after the other: on a stream and in a CUDA graph."""
    out = []
    for key, case in cases.items():
        for (pass_name, provider), row in case.items():
            if pass_name != "chain" or provider == "copy":
                continue
            if provider == "ligerdsl" and probe_us(device, row):
                graph = probe_us(device, {**row, "pass": "graph"})
                out.append(f"| {key[0]} | {shape_text(key)} | hand-tuned CUDA | {probe_us(device, row):.1f} | | {graph:.1f} | | | |")
            graph = f"{row['us_graph']:.1f}" if "us_graph" in row else row.get("graph_error", "")
            out.append(f"| {key[0]} | {shape_text(key)} | {NAMES.get(provider, provider)} | {row['us']:.1f} | "
                       f"{row['us_p20']:.1f}-{row['us_p80']:.1f} | {graph} | {row['frac_same_copy']:.3f} | {row['host_us']:.1f} | {row['max_error']:.1e} |")
    if not out:
        return []
    return ["", "## Chains of small kernels", "", "us of one forward and backward (with the sum over the rows for the weight) of many that "
            "follow each other, over sets of tensors that together exceed the second-level cache. On a stream the host's time shows where it "
            "is the longer.", "", "| kernel | shape | contender | on a stream | 20-80 % | in a CUDA graph | of same copy | host us | max error |",
            "|" + "---|" * 9, *out]


def figures(cases):
    """{file name: SVG} of every sweep with at least three points."""
    files = {}
    for kernel, axis, letter, words in SWEEPS:
        rate, unit = ("tflops", "TFLOP/s") if kernel == "fused_linear_cross_entropy" else ("gbps", "GB/s of necessary bytes")
        for field, what, unit in ((rate, "speed", unit), ("peak_mb", "memory", "peak MB")):
            groups = defaultdict(lambda: defaultdict(dict))
            for key, case in cases.items():
                for (pass_name, provider), row in case.items():
                    if key[0] != kernel or key[2] != "bf16" or pass_name != "full" or row.get(field) is None:
                        continue
                    if what == "memory" and row[field] == 0:  # a copy, or a run that did not count outputs
                        continue
                    rest = key[1][:axis] + key[1][axis + 1:]
                    groups[rest][provider][key[1][axis]] = row[field]
            if not groups:
                continue
            rest, lines = max(groups.items(), key=lambda g: len(g[1].get("ligerdsl", ())))
            places = sorted({place for points in lines.values() for place in points})
            if len(lines.get("ligerdsl", ())) < 3:
                continue
            order = [p for p in (*NAMES, *lines) if p in lines]
            title = f"{kernel}, forward + backward, bf16, {'x'.join(map(str, rest))}"
            files[f"{kernel}-{what}.svg"] = plot(title, f"{letter}: {words}", unit, places, {p: lines[p] for p in dict.fromkeys(order)}, NAMES)
    return files


def missing_lines(runs):
    out = []
    for result, _ in runs:
        out += [f"* {f['kernel']} {'x'.join(map(str, f['shape']))} {NAMES.get(f.get('provider'), f.get('provider') or '')}: {f['error']}"
                for f in result.get("failures", [])]
        out += [f"* {text}" for text in result.get("not_measured", [])]
    return ["", "Not measured:", "", *dict.fromkeys(out)] if out else []


def cpu_lines(folder):
    files = load(folder, "bench-cpu-*.json")
    if not files:
        return []
    result, name = files[0]
    copy = result.get("copy_gb_per_s") or result["copy_gbps"]
    out = ["", "## On a CPU", "", f"`ligerdsl bench --device cpu` on {result['device']}, {result['threads']} threads; a copy of the same run: "
           f"{copy:.1f} GB/s; build {result['build']}; `bench/results/{name}`.", "",
           "| kernel | settings | ms | of copy | of same copy |", "|---|---|---|---|---|"]
    for r in result.get("results", []):
        out.append(f"| {r['kernel']} | {r['settings']} | {r['median_ms']:.2f} | {r['fraction_of_copy']:.2f} | "
                   f"{r['fraction_of_same_size_copy']:.2f} |")
    return out


def compile_lines(folder):
    entries = [load(folder, pattern)[0] for pattern in ("compile-cpu-*.json", "compile-cuda-*.json") if load(folder, pattern)]
    if not entries:
        return []
    out = ["", "## Time to get a kernel", "", "Milliseconds from the builder's first call to a kernel that can be launched. Cold: no cache "
           "of ours, the driver's own cache off, in a process that has compiled another kernel. First: the first compile of a process, "
           "another kernel.", "",
           "| device | kernel | first | cold (p95) | of it: builder, MLIR + LLVM, driver or link | from the disk cache (p95) |",
           "|---|---|---|---|---|---|"]
    for result, _ in entries:
        cold, phases = result["cold"], result["cold"]["phases_of_median_ms"]
        last = phases.get("driver", 0) + phases.get("link", 0) + phases.get("load", 0)
        compiler = sum(phases.values()) - phases["builder"] - last - phases.get("store", 0) - phases.get("lookup", 0)
        out.append(f"| {result['device']} | {result['kernel']} | {result['first']['median_ms']:.1f} | {cold['median_ms']:.1f} "
                   f"({cold['p95_ms']:.1f}) | {phases['builder']:.2f}, {compiler:.1f}, {last:.1f} | {result['disk']['median_ms']:.2f} "
                   f"({result['disk']['p95_ms']:.2f}) |")
    return out


def report(folder):
    """The page and its plots: (text, {file name: SVG})."""
    out = ["# Performance", "", "Generated by `bench/report.py` from `bench/results`; every number was measured, none is edited here."]
    runs = newest_runs(folder)
    plots = {}
    if runs:
        cases = cases_of(runs)
        plots = figures(cases)
        out += ["", "## Beside its peers", "", provenance(runs), "", "Each case in one process and run, cold L2, median of event times. "
                "\"Same copy\" moves as many bytes as the kernel; \"of hand-tuned\" is the time of CUDA tuned by hand for that shape over ours "
                "(`bench/probes.py`). Peers: time in us and, in brackets, how many times longer they take; their peak memory.", ""]
        out += peer_table(cases, runs[0][0]["device"]) + mean_lines(cases)
        out += [""] * bool(plots) + [f"![{name[:-4]}](performance/{name})" for name in plots]
        out += chain_lines(cases, runs[0][0]["device"]) + linear_lines(cases) + dtype_lines(cases) + missing_lines(runs)
    out += cpu_lines(folder) + compile_lines(folder)
    if (folder / "notes.md").exists():
        out += ["", "What these numbers leave open, what limits them, and what is predicted but not measured: `bench/results/notes.md`."]
    return "\n".join(out) + "\n", plots


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text, plots = report(options.results)
    files = {options.docs / "performance.md": text, **{options.docs / "performance" / name: svg for name, svg in plots.items()}}
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

"""Plots the results of bench/e2e_llama.py or bench/convergence.py as SVG.

    python bench/e2e_plot.py RESULT.json --out FOLDER"""

import argparse
import json
import pathlib
import sys

from svg import curves, plot, steps

NAMES = {"hf": "transformers",
         "liger": "Liger-Kernel",
         "ligerdsl": "ligerdsl",
         "liger_without_flce": "Liger-Kernel but FLCE",
         "ligerdsl_without_flce": "ligerdsl but FLCE",
         "ligerdsl_without_layers": "ligerdsl but layers as one node",
         "liger_on_ligerdsl": "Liger-Kernel on ligerdsl"}
VALUES = {"tokens_per_s": ("throughput", "tokens/s"), "peak_gb": ("memory", "GB, the step's peak")}
SWEEPS = {"batch": ("batch", "batch size", "T = {length}"),
          "length": ("length", "sequence length", "batch {batch}"),
          "workspace": ("workspace_mib", "MiB of workspace", "batch {batch}, T = {length}")}


def sweep_plots(result):
    """Returns {name: SVG} of every sweep with two or more points. A run that was out of memory
    gives no point."""
    files = {}
    for sweep, (axis, words, at) in SWEEPS.items():
        rows = [row for row in result["rows"] if row.get("sweep") == sweep]
        places = sorted({row[axis] for row in rows if axis in row})
        if len(places) < 2:
            continue
        for value, (short, unit) in VALUES.items():
            lines = {}
            for row in rows:
                if row.get(value) is not None:
                    lines.setdefault(row["contender"], {})[row[axis]] = row[value]
            if lines:
                title = f"{result['preset']}, {at.format(**rows[0])}, {result['dtype']}"
                files[f"{sweep}-{short}"] = plot(title, words, unit, places, lines, NAMES)
    return files


def ablation_plots(result):
    order = [
        name for name in ("hf", "liger_without_flce", "liger", "ligerdsl_without_flce", "ligerdsl")]
    rows = {row["contender"]: row for row in result["rows"] if row.get("sweep") == "ablation"}
    files = {}
    for value, (short, unit) in VALUES.items():
        measured = {
            name: rows[name][value] for name in order if rows.get(name, {}).get(value) is not None}
        if len(measured) > 1:
            some = next(iter(rows.values()))
            parts = {"nothing": ("hf", "hf"),
                     "all but FLCE": ("liger_without_flce", "ligerdsl_without_flce"),
                     "all": ("liger", "ligerdsl")}
            lines = {family: {
                part: measured[names[i]] for part, names in parts.items() if names[i] in measured}
                     for i, family in enumerate(("liger", "ligerdsl"))}
            lines = {
                family: points for family, points in lines.items() if set(points) - {"nothing"}}
            files[f"ablation-{short}"] = plot(
                f"{result['preset']}, batch {some['batch']}, T = {some['length']}",
                "kernels that are replaced", unit, list(parts), lines, NAMES)
    return files


def timeline_plot(result):
    rows = {row["contender"]: row for row in result["rows"] if row.get("timeline")}
    if not rows:
        return {}
    some = next(iter(rows.values()))
    lines = {name: [(ms, mb / 1e3) for ms, mb in row["timeline"]] for name, row in rows.items()}
    return {"timeline": steps(
        f"One step of {result['preset']}, batch {some['batch']}, T = {some['length']}", "ms",
        "GB allocated", lines, NAMES)}


def convergence_plot(result):
    runs = {f"{run['contender']}, seed {run['seed']}": run["losses"]
            for run in result.get("runs", ()) if run.get("losses")}
    if not runs:
        return {}
    names = {name: ", ".join([NAMES[name.split(",")[0]], name.split(", ")[1]]) for name in runs}
    return {"convergence": curves(
        f"Losses of a small Llama that learns text, {result['device']}", "step", "loss",
        {name: list(enumerate(losses)) for name, losses in runs.items()}, names)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    result = json.loads(options.result.read_text())
    files = (convergence_plot(result) if "runs" in result
             else sweep_plots(result) | ablation_plots(result) | timeline_plot(result))
    if not files:
        sys.exit(f"e2e_plot.py: {options.result}: expected a sweep with at least two points, a "
                 "timeline or runs, got none")
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        svg = options.out / f"{name}.svg"
        svg.write_text(text)
        print(svg)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares predicted times (kernels/core/predict.h) with measured ones, and fits the rates.

    python3 bench/fit_machine.py build/release/bin/predicted_times [OPTION]

    no option   table by family
    --worst 5   with the five worst rows of each family
    --tuned     rows of the tuned table instead of the baselines
    --fit       fits the rates and prints them
    --held-out  fits half of the rows, shows both halves

The error of a row is abs(ln(predicted / measured)). The quantiles omit a row in two cases:

- The number of iterations of a loop depends on data.
- EXCLUDED lists the row, with a reason.
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys
import zlib
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from predicted_cases import operations  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
BASELINES = ROOT / "bench/baselines/h200.csv"
TUNED = ROOT / "kernels/tuned/sm_90a.json"

# Baseline rows that the fit ignores because the code has changed since, with the reason.
EXCLUDED = {
    ("dyt", "16384x14336", "bwd"): "measured before its schedule changed",
    ("dyt", "16384x14336", "full"): "measured before its schedule changed"}
# Bounds of each fitted rate; values outside them have no physical meaning.
BOUNDS = {"tensor": (1200, 2048), "operand_bytes": (90, 128), "l2_bytes": (45, 68),
          "latency_clocks": (300, 1500), "program_clocks": (50, 3000), "access_clocks": (1, 8),
          "exposed": (0.2, 1.5), "scalar": (0.2, 1.5), "reduction": (2, 20),
          "tensor_heat": (0.01, 0.6), "looped": (0.85, 1)}
# Start values of a fit. They are published rates or round numbers, not earlier fits, so a fit to
# one half of the rows does not depend on the other half.
START = {"memory_gbps": 4800, "looped": 1, "launch_us": 3, "follow_us": 1, "ramp_us": 2,
         "program_clocks": 500, "latency_clocks": 500, "tensor": 2048, "tensor_heat": 0.1,
         "operand_bytes": 128, "exposed": 1, "l2_bytes": 64, "access_clocks": 4, "scatter": 8,
         "scalar": 1, "reduction": 10}
FAMILIES = (("fused_linear", "fused head"), ("flce", "fused head"), ("matmul", "matmul"),
            ("attention", "attention"), ("cross_entropy", "cross-entropy"), ("norm", "norms"),
            ("softmax", "softmax, sparsemax"), ("sparsemax", "softmax, sparsemax"),
            ("embedding", "embedding"), ("rope", "rope"), ("kl_div", "divergences"),
            ("jsd", "divergences"), ("tvd", "divergences"))


@dataclass
class Row:
    family: str
    name: str
    us: float
    operations: str
    assumed: bool = False


def family_of(kernel):
    return next((family for part, family in FAMILIES if part in kernel), "elementwise")


def baseline_rows():
    """Returns this library's rows that the command can express and EXCLUDED does not list."""
    rows = []
    with open(BASELINES, newline="") as file:
        for row in csv.DictReader(file):
            key = row["kernel"], row["shape"], row["pass"]
            if not row["provider"].startswith("ligerdsl") or key in EXCLUDED:
                continue
            shape = [int(size) for size in row["shape"].split("x")]
            found = operations(row["kernel"], shape, row["dtype"], row["provider"]).get(row["pass"])
            if found:
                name = " ".join((*key, row["dtype"], row["provider"]))
                rows.append(Row(family_of(row["kernel"]), name, float(row["us"]), ";".join(found)))
    return rows


def tuned_rows():
    """Returns the tuned table's times of tuned and heuristic schedules. No fit uses them."""
    rows = []
    for key, entry in json.loads(TUNED.read_text())["entries"].items():
        if not key:
            continue
        config = " ".join(f"config.{field}" for field in entry["config"].split())
        times = zip(entry["problems"], entry["us"], entry["heuristic_us"])
        for problem, us, heuristic_us in times:
            call = f"{entry['operation']} {problem}"
            rows.append(Row("tuned", f"{call} {config}", us, f"{call} {config}"))
            rows.append(Row("heuristic", call, heuristic_us, call))
    return rows


class Model:
    """Process of predicted_times, which counts the work of all rows once."""

    def __init__(self, program, rows):
        self.rows = rows
        self.process = subprocess.Popen([program], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.process.stdin.write("\n".join(row.operations for row in rows) + "\n\n")
        self.process.stdin.flush()
        assumed = self._line()
        if len(assumed) != len(rows):
            raise SystemExit(f"{program}: expected {len(rows)} cases, got {len(assumed)}")
        for row, flag in zip(rows, assumed):
            row.assumed = flag == "1"

    def _line(self):
        return self.process.stdout.readline().split()

    def predict(self, rates=None):
        """Returns the times of all rows in us."""
        text = " ".join(f"{name}={value!r}" for name, value in (rates or {}).items())
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return [float(us) for us in self._line()]

    def errors(self, rates=None):
        """Returns {family: [(ln ratio, row)]} of the rows whose predictions assume nothing about
        data."""
        errors = {}
        for row, us in zip(self.rows, self.predict(rates)):
            if not row.assumed:
                errors.setdefault(row.family, []).append((math.log(us / row.us), row))
        return errors


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def score(errors, of=lambda row: True):
    """Returns the families' mean error, weighted by square roots of their sizes to limit large
    families' influence."""
    total = weight = 0.0
    for found in errors.values():
        own = [min(abs(error), 0.5) for error, row in found if of(row)]
        if own:
            total += sum(own) / len(own) * len(own) ** 0.5
            weight += len(own) ** 0.5
    return total / weight


def fit(model, rates, of=lambda row: True, rounds=20):
    """Fits the rates by coordinate descent: one rate at a time, in steps of 30, 10, 3 and 1
    percent."""
    best = score(model.errors(rates), of)
    for _ in range(rounds):
        before = best
        for step in (1.3, 1.1, 1.03, 1.01):
            for name in rates:
                for factor in (step, 1 / step):
                    trial = {**rates, name: rates[name] * factor}
                    low, high = BOUNDS.get(name, (0, math.inf))
                    if not low <= trial[name] <= high:
                        continue
                    found = score(model.errors(trial), of)
                    if found < best - 1e-6:
                        best, rates = found, trial
        if before - best < 1e-5:
            break
    return rates


def quality(errors, of=lambda row: True):
    """Returns {family: (rows, median, 90th percentile, largest, mean of ln ratio)}, also for
    "all"."""
    table, everything = {}, []
    for family, found in sorted(errors.items()):
        own = [error for error, row in found if of(row)]
        everything += own
        table[family] = own
    table["all"] = everything
    return {family: (len(own), quantile(map(abs, own), 0.5), quantile(map(abs, own), 0.9),
                     max(map(abs, own)), sum(own) / len(own))
            for family, own in table.items() if own}


def show(model, rates=None, of=lambda row: True, worst=0):
    errors = model.errors(rates)
    print(f"{'family':20} rows  median  9 of 10  largest  mean ln ratio")
    for family, (count, median, most, largest, mean) in quality(errors, of).items():
        print(f"{family:20} {count:4}  {median:6.3f}  {most:7.3f}  {largest:7.3f}  {mean:+13.3f}")
        own = [(error, row) for error, row in errors.get(family, []) if of(row)]
        for error, row in sorted(own, key=lambda pair: -abs(pair[0]))[:worst]:
            print(f"    {error:+.3f} {row.name}: {row.us:g} us")
    print(f"left out: {sum(row.assumed for row in model.rows)} rows whose iterations depend on "
          "data")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/release/bin/predicted_times")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--worst", type=int, default=0)
    given = parser.parse_args()
    model = Model(given.program, tuned_rows() if given.tuned else baseline_rows())
    if given.held_out:
        half = lambda row: zlib.crc32(row.operations.encode()) % 2 == 0
        rates = fit(model, START, half)
        print("rows of the fit:")
        show(model, rates, half)
        print("other rows:")
        show(model, rates, lambda row: not half(row), given.worst)
        return
    rates = fit(model, START) if given.fit else None
    for name, value in (rates or {}).items():
        print(f"  double {name} = {value:.4g};")
    show(model, rates, worst=given.worst)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Keeps the measurements that the pages show as small tables in bench/baselines.

    # A result of compare.py, of `ligerdsl bench --json` on a CPU, or of compile_time:
    python3 bench/baselines.py add RUN.json ...

    # Only the contenders that the table lacks, from a second run of the same commit:
    python3 bench/baselines.py add --peers-only RUN.json

`add` refuses a run without a commit or with changed sources. A run replaces a case's rows only if
it measured all main contenders within its time limit. Needs no torch.

  h200.csv     one file per GPU: a row for each pass of a case by a contender
  runs.csv     facts of runs
  missing.csv  contenders that failed on a case or were wrong
  cpu.csv      kernels on a CPU
  compile.csv  time to get a kernel

bench/baselines/README.md explains the columns.
"""

import argparse
import csv
import json
import pathlib
import re
import sys
from collections import defaultdict

from results import build_fields, case_key, problems

FOLDER = pathlib.Path(__file__).resolve().parent / "baselines"
WRONG = 0.1  # a peer with a larger error has not computed the result
FULL, OURS, NO_PEER = "full", "ligerdsl", ("copy", "floor")
# peers that every complete run of a case measures
MAIN_FORMS = ("liger", "liger_cute", "quack", "quack_logits", "compile")
NUMBERS = ("us", "us_p20", "us_p80", "in_ours", "us_sustained", "us_kernels", "us_graph", "host_us",
           "gbps", "tflops", "frac_copy", "frac_same_copy", "peak_mb", "workspace_mb", "max_error")
COLUMNS = ("date", "run", "commit", "kernel", "pass", "shape", "dtype", "provider", *NUMBERS,
           "errors")
RUNS = ("date", "run", "commit", "device", "driver", "torch", "peers", "copy_gbps")
MISSING = ("kernel", "shape", "dtype", "provider", "reason")
CPU = ("date", "commit", "device", "threads", "copy_gbps", "kernel", "settings", "ms", "frac_copy",
       "frac_same_copy")
COMPILE = ("date", "commit", "device", "compiler", "kernel", "first_ms", "cold_ms", "cold_p95_ms",
           "builder_ms", "compiler_ms", "driver_ms", "disk_ms", "disk_p95_ms")
# kernels for which the table lists the error of each output
ERROR_CASES = ("flce_deviation_1", "flce_deviation_4", "flce_deviation_12", "flce_trained")


class Refused(ValueError):
    """A run that may not enter the tables."""


def digits(value):
    """Returns a number with four significant digits, without an exponent if that is short."""
    return ("" if value is None else f"{float(f'{value:.4g}'):.10g}"
            if isinstance(value, (int, float)) else value)


def short(shape):
    return "x".join(map(str, shape))


def family(provider):
    """Returns the contender's family: ligerdsl, liger, quack, compile, torch or flash."""
    return provider.rstrip("0123456789").split("_")[0]


def time_of(row):
    """Returns a contender's time, or the time of its kernels alone if that is shorter, as it is for
    a contender whose host waits for the GPU between kernels."""
    return min(row["us"], row.get("us_kernels") or row["us"])


def counts(row):
    """Returns true if a row belongs to a peer with a correct result."""
    return (row["provider"] not in NO_PEER and family(row["provider"]) != OURS
            and row["max_error"] <= WRONG)


def kept(rows):
    """Returns the rows of one case that a page shows, from {(pass, provider): row}.

    These are ours, the bare matmuls, each family's best form of forward and backward together, the
    best peer of each pass, and for ERROR_CASES every form of MAIN_FORMS.
    """
    passes = list(dict.fromkeys(name for name, _ in rows))
    whole = FULL if FULL in passes else passes[0]
    wanted = set()
    forms = defaultdict(list)
    for (name, provider), row in rows.items():
        if (row["kernel"] in ERROR_CASES and provider in MAIN_FORMS or provider == "floor"
            or family(provider) == OURS):
            wanted.add((name, provider))
        elif name == whole and counts(row):
            forms[family(provider)].append(row)
    wanted |= {(whole, min(each, key=time_of)["provider"]) for each in forms.values()}
    for name in passes:
        theirs = [row for (of, _), row in rows.items() if of == name and counts(row)]
        for each, read in (theirs, time_of), ([row for row in theirs if row.get("us_sustained")],
                                              lambda row: row["us_sustained"]):
            wanted |= {(name, row["provider"]) for row in sorted(each, key=read)[:1]}
    return [row for key, row in rows.items() if key in wanted]


def late(result, key):
    """Returns the main contenders that a case lacks because a time limit passed."""
    start = f"{key[0]} {short(key[1])} {key[2]}"
    left = [text.split(":")[0][len(start):].strip() for text in result.get("not_measured", [])
            if text.startswith((start + " ", start + ":"))]
    left += [f["provider"] for f in result.get("failures", [])
             if case_key(f) == key and "Late: " in f["error"]]
    timed = {row["provider"] for row in result["rows"] if case_key(row) == key}
    return [
        provider for provider in left if provider in ("", *MAIN_FORMS) and provider not in timed]


def flat(result, row, ours):
    """Returns a row in the table's form."""
    cells = {name: digits(row.get(name)) for name in NUMBERS}
    own = ours.get((case_key(row), row["pass"]))
    cells["in_ours"] = digits(time_of(row) / time_of(own)) if own else ""
    errors = row.get("errors") if row["kernel"] in ERROR_CASES else None
    return {"date": result["date"][:10],
            "run": result.get("run", 0),
            "commit": result["commit"][:12],
            "kernel": row["kernel"],
            "pass": row["pass"],
            "shape": short(row["shape"]),
            "dtype": row["dtype"],
            "provider": row["provider"],
            **cells,
            "errors": " ".join(f"{name}={digits(value)}" for name, value in (errors or {}).items())}


class Tables:
    """The tables of one folder. Cells are strings."""

    def __init__(self, folder=FOLDER):
        self.folder = pathlib.Path(folder)

    def read(self, name):
        path = self.folder / name
        if not path.exists():
            return []
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    def write(self, name, columns, rows):
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n", restval="")
            writer.writeheader()
            writer.writerows(rows)

    def gpus(self):
        """Returns the GPU tables, those with the columns COLUMNS."""
        names = sorted(path.name for path in self.folder.glob("*.csv"))
        return [name for name in names
                if (self.folder / name).read_text().split("\n", 1)[0] == ",".join(COLUMNS)]

    def add(self, result, peers_only=False, only=None):
        """Adds a run to the tables. Returns a line for each case that was added or left out."""
        result = {**result, **build_fields(result.get("build", ""))}
        if result["dirty"]:
            raise Refused(f"the library was built from sources that differ from commit "
                          f"{result['commit']}: commit them, build and measure again")
        if not result["commit"]:
            raise Refused("the result has no commit of the library: build in a git checkout and "
                          "measure again")
        if "cold" in result and "disk" in result:
            return self.add_compile(result)
        if "threads" in result:
            return self.add_cpu(result)
        return self.add_run(result, peers_only, only)

    def add_run(self, result, peers_only, only):
        # A peer with an infinite error is no reason to refuse the run: missing.csv lists it.
        wrong = [text for text in problems(result)
                 if not text.endswith("max_error is inf") or " ligerdsl" in text]
        if wrong:
            raise Refused("; ".join(wrong[:3]))
        ours = {
            (case_key(row), row["pass"]): row for row in result["rows"] if row["provider"] == OURS}
        found = defaultdict(dict)
        for row in result["rows"]:
            if row["kernel"] != "copy" and row["provider"] != "copy":
                found[case_key(row)][row["pass"], row["provider"]] = row
        name = re.sub(r"\W+", "-",
                      result["device"].removeprefix("NVIDIA ").split()[0].lower()) + ".csv"
        table, said = self.read(name), []
        missing = self.read("missing.csv")
        for key, rows in found.items():
            if only and key not in only:
                continue
            same = lambda row: (  # noqa: E731
                (row["kernel"], row["shape"], row["dtype"]) == (key[0], short(key[1]), key[2]))
            old = [row for row in table if same(row)]
            flat_rows = [flat(result, row, ours) for row in kept(rows)]
            text = f"{key[0]} {short(key[1])} {key[2]}"
            if peers_only:
                if not old or old[0]["commit"] != result["commit"][:12]:
                    said.append(f"{text}: left out: {name} has this case from "
                                f"{'commit ' + old[0]['commit'] if old else 'no run'}, expected "
                                f"commit {result['commit'][:12]}; add a run of all contenders")
                    continue
                there = {row["provider"] for row in old}
                new = [row for row in flat_rows if row["provider"] not in there and row["in_ours"]
                                                   and family(row["provider"]) != OURS]
                at = max(i for i, row in enumerate(table) if same(row)) + 1
                table[at:at] = new
                said.append(f"{text}: {len(new)} rows added to those of run {old[0]['run']}")
                continue
            if late(result, key):
                said.append(f"{text}: left out: the run's time limit passed before these "
                            "contenders were measured: "
                            f"{', '.join(filter(None, late(result, key))) or 'unknown'}")
                continue
            if not any(provider == OURS for _, provider in rows) and key[0] not in ERROR_CASES:
                said.append(f"{text}: left out: it has no row of {OURS}")
                continue
            at = next((i for i, row in enumerate(table) if same(row)), len(table))
            table = [row for row in table if not same(row)]
            table[at:at] = flat_rows
            missing = [row for row in missing if not same(row)]
            reasons = {f["provider"]: f["error"][:120].strip() for f in result.get("failures", [])
                       if case_key(f) == key}
            reasons |= {row["provider"]: f"wrong: off by {row['max_error']:.2g}"
                        for row in rows.values()
                        if row["provider"] not in NO_PEER and row["max_error"] > WRONG}
            missing += [{"kernel": key[0], "shape": short(key[1]), "dtype": key[2],
                         "provider": provider,
                         "reason": reason} for provider, reason in reasons.items()]
            said.append(f"{text}: {len(flat_rows)} rows")
        self.write(name, COLUMNS, table)
        self.write("missing.csv", MISSING, missing)
        copies = [row["gbps"] for row in result["rows"] if row["kernel"] == "copy"]
        fact = {"date": result["date"][:10],
                "run": result.get("run", 0),
                "commit": result["commit"],
                "device": result["device"],
                "driver": result.get("driver", ""),
                "torch": result["torch"],
                "peers": " ".join(f"{k}={v}" for k, v in result.get("peers", {}).items()),
                "copy_gbps": digits(max(copies, default=None))}
        key_of = lambda row: (row["date"], str(row["run"]), row["commit"][:12])  # noqa: E731
        used = {key_of(row) for gpu in self.gpus() for row in self.read(gpu)}
        runs = [row for row in self.read("runs.csv") if key_of(row) != key_of(fact)] + [fact]
        self.write("runs.csv", RUNS,
                   sorted((row for row in runs if key_of(row) in used),
                          key=lambda row: (row["date"], int(row["run"]))))
        return said

    def add_cpu(self, result):
        about = {"date": result["date"][:10], "commit": result["commit"][:12],
                 "device": result["device"], "threads": result["threads"],
                 "copy_gbps": digits(result["copy_gb_per_s"])}
        rows = [about | {"kernel": r["kernel"],
                         "settings": r["settings"],
                         "ms": digits(r["median_ms"]),
                         "frac_copy": digits(r["fraction_of_copy"]),
                         "frac_same_copy": digits(r["fraction_of_same_size_copy"])}
                for r in result["results"]]
        self.write("cpu.csv", CPU, rows)
        return [f"{len(rows)} kernels on {result['device']}"]

    def add_compile(self, result):
        cold, phases = result["cold"], result["cold"]["phases_of_median_ms"]
        driver = sum(phases.get(name, 0) for name in ("driver", "link", "load"))
        compiler = (sum(phases.values()) - phases["builder"] - driver - phases.get("store", 0)
                    - phases.get("lookup", 0))
        new = {"date": result["date"][:10], "commit": result["commit"][:12],
               "device": result["device"], "compiler": OURS, "kernel": result["kernel"],
               "first_ms": result["first"]["median_ms"], "cold_ms": cold["median_ms"],
               "cold_p95_ms": cold["p95_ms"], "builder_ms": phases["builder"],
               "compiler_ms": compiler, "driver_ms": driver, "disk_ms": result["disk"]["median_ms"],
               "disk_p95_ms": result["disk"]["p95_ms"]}
        new = {name: digits(value) for name, value in new.items()}
        same = ("device", "compiler", "kernel")
        self.write("compile.csv", COMPILE,
                   [row for row in self.read("compile.csv") if any(row[k] != new[k] for k in same)]
                   + [new])
        return [f"{result['kernel']} on {result['device']}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["add"])
    parser.add_argument("runs", nargs="+", type=pathlib.Path)
    parser.add_argument("--peers-only", action="store_true")
    parser.add_argument("--baselines", type=pathlib.Path, default=FOLDER)
    options = parser.parse_args()
    for path in options.runs:
        try:
            for text in Tables(options.baselines).add(json.loads(path.read_text()),
                                                      options.peers_only):
                print(text)
        except Refused as error:
            sys.exit(f"baselines.py: {path}: {error}")


if __name__ == "__main__":
    main()

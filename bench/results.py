"""A run's JSON: written after every contender, read to resume, checked for completeness. Needs no
torch.

Fields: device, driver, date, run (its number on that day), command, build, commit and dirty (of the
library's sources), and rows (ROW below). `failures` and `not_measured` list what is missing.
"""

import json
import math
import os
import pathlib
import re

RUN = ("device", "driver", "date", "run", "command", "build", "commit", "dirty", "torch", "rows",
       "failures", "not_measured", "ratios")
ROW = ("kernel", "pass", "shape", "dtype", "provider", "us", "us_p20", "us_p80", "host_us", "gbps",
       "frac_copy", "peak_mb", "max_error")
MAY_BE_ZERO = ("host_us", "peak_mb", "max_error")
PASSES = ("fwd", "bwd", "full", "chain")
# Fields that must be equal before a second process may add to a result file.
SAME = ("device", "driver", "build", "commit", "dirty", "torch")


def build_fields(text):
    """Parses ligerdsl_build_info ("ID commit HASH clean", "... dirty" or "... commit unknown")."""
    found = re.search(r" commit ([0-9a-f]{40,64}) (clean|dirty)$", text)
    return {"build": text, "commit": found and found[1],
            "dirty": bool(found) and found[2] == "dirty"}


def problems(result):
    """Returns a text for each fault of a result."""
    found = [f"the field '{name}' is missing" for name in RUN if name not in result]
    for i, row in enumerate(result.get("rows", [])):
        for name in ROW:
            value = row.get(name)
            if name in ("kernel", "provider", "dtype"):
                good = isinstance(value, str) and value
            elif name == "pass":
                good = value in PASSES
            elif name == "shape":
                good = isinstance(value, list) and value and all(isinstance(n, int) and n > 0
                                                                 for n in value)
            elif name == "peak_mb" and value is None:
                # torch counts no peak memory on a CPU
                good = result.get("device", "").startswith("cpu")
            else:
                good = isinstance(value, (int, float)) and math.isfinite(value) and (
                    value > 0 or value == 0 and name in MAY_BE_ZERO)
            if not good:
                found.append(f"row {i} ({row.get('kernel')} {row.get('pass')} "
                             f"{row.get('provider')}): {name} is {value!r}")
        if not found and not row["us_p20"] <= row["us"] <= row["us_p80"]:
            found.append(f"row {i}: expected us_p20 <= us <= us_p80, got {row['us_p20']}, "
                         f"{row['us']}, "
                         f"{row['us_p80']}")
    return found


def case_key(entry):
    return entry["kernel"], tuple(entry["shape"]), entry["dtype"]


def ratios(rows):
    """Returns peer time / our time for every kernel, pass, shape and dtype."""
    ours = {(case_key(r), r["pass"]): r["us"] for r in rows if r["provider"] == "ligerdsl"}
    out = []
    for r in rows:
        key = (case_key(r), r["pass"])
        if r["provider"] != "ligerdsl" and key in ours:
            out.append({"kernel": r["kernel"], "pass": r["pass"], "shape": r["shape"],
                        "dtype": r["dtype"], "peer": r["provider"],
                        "speedup": round(r["us"] / ours[key], 3)})
    return out


def one_line(text):
    """Returns an error's text without colours and line breaks, for a list."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


class ResultFile:
    """A run's file. `about`: the fields of RUN that describe the run."""

    def __init__(self, path, about):
        self.path = pathlib.Path(path)
        self.data = {**about, "rows": [], "failures": [], "not_measured": [], "ratios": []}
        self.path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def rows(self):
        return self.data["rows"]

    def resume(self, path):
        """Adopts the rows of another file. Raises ValueError if its device, driver, build or torch
        differs."""
        old = json.loads(pathlib.Path(path).read_text())
        for name in SAME:
            if old.get(name) != self.data[name]:
                raise ValueError(f"{path}: {name}: expected {self.data[name]!r} as in this run, "
                                 "got "
                                 f"{old.get(name)!r}; a file may only hold times of one machine "
                                 "and build, so start a new one without --resume")
        self.data["rows"] = [r for r in old["rows"] if r["kernel"] != "copy"]
        self.data["failures"] = old.get("failures", [])
        self.data["command"] = old["command"] + "; " + self.data["command"]

    def has(self, case, provider):
        """Returns true if this contender has rows or is known to fail on this case."""
        key = (case.kernel, case.shape, case.dtype)
        return any(r["provider"] == provider and case_key(r) == key for r in self.rows) or any(
            f["provider"] == provider and case_key(f) == key for f in self.data["failures"])

    def waiting(self, case):
        """Returns a case's providers whose host waits for the GPU and that lack us_kernels."""
        key = (case.kernel, case.shape, case.dtype)
        return list(dict.fromkeys(r["provider"] for r in self.rows
                                  if case_key(r) == key and r.get("host_waits")
                                     and "us_kernels" not in r))

    def note_kernels(self, case, provider, times):
        """Sets us_kernels in a contender's rows, from {pass: us}."""
        key = (case.kernel, case.shape, case.dtype)
        for row in self.rows:
            if (case_key(row) == key and row["provider"] == provider
                and times.get(row["pass"], 0) > 0):
                row["us_kernels"] = times[row["pass"]]

    def drop(self, case):
        """Drops a case's rows, because its times must come from one process."""
        key = (case.kernel, case.shape, case.dtype)
        self.rows[:] = [r for r in self.rows if case_key(r) != key]

    def add(self, rows):
        self.rows.extend(rows)
        self.write()

    def fail(self, case, provider, text):
        self.data["failures"].append({"kernel": case.kernel, "shape": list(case.shape),
                                      "dtype": case.dtype, "provider": provider,
                                      "error": one_line(text)[:600]})
        self.write()

    def write(self):
        """Writes atomically, so that a killed run leaves the last complete file."""
        self.data["ratios"] = ratios(self.rows)
        partial = self.path.with_name(self.path.name + ".part")
        partial.write_text(json.dumps(self.data, indent=1) + "\n")
        os.replace(partial, self.path)

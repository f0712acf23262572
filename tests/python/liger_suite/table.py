"""Prints the tables of tests/python/README.md for runs of run.py; paste them over the ones that
they replace.

    python tests/python/liger_suite/table.py RESULT.json ..."""

import json
import pathlib
import re
import sys

OUTCOMES = ("passed", "failed", "skipped", "xfailed", "xpassed")


def name_of(file):
    return re.sub(r"^test/(transformers/test_|convergence/)?|\.py$", "", file)


def rows_of(result):
    for group in result["groups"].values():
        alone = sum(each.get("alone") == "passed" for each in group["failed"].values())
        for file, each in group["files"].items():
            counts = each["counts"]
            others = (", ".join(f"{kernel} {count}" for kernel, count in each["triton"].items())
                      or "none")
            yield [name_of(file), *(counts.get(outcome, 0) or "" for outcome in OUTCOMES),
                   each["tests_with_our_calls"] or "", others]
        if alone:
            yield [f"of the failed {alone} pass alone", *[""] * 7]


def text_of(result):
    commit = re.search(r"commit ([0-9a-f]{7,40})", result["library"])
    cut = [name for name, group in result["groups"].items() if group["exit"] == "time"]
    said = (
        f"{result['device']}, "
        f"{result['date']}{', commit ' + commit.group(1)[:10] if commit else ''}, Liger-Kernel "
        f"{result['liger']}, torch {result['torch']}, transformers {result['transformers']}.") + (
        f" The time ended before all of {', '.join(cut)} had run." if cut else "")
    head = ["file", *OUTCOMES, "tests in which the library ran", "Liger's Triton kernels launched"]
    lines = [head, ["---"] * len(head), *rows_of(result)]
    return said + "\n\n" + "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


if __name__ == "__main__":
    print("\n\n".join(text_of(json.loads(pathlib.Path(path).read_text())) for path in sys.argv[1:]))

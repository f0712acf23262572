"""Writes the tables of tests/python/README.md from the results of run.py.

It takes the newest file of each of these patterns in bench/results:

- liger-suite-*.json
- liger-qwen2vl-*.json: with transformers 4
- liger-more-*.json: the other groups
- liger-rope-*.json: the file of 0.8.5
- liger-models-*.json
- liger-dispatched-*.json: Liger-Kernel 0.8.5's tests across back ends

    python tests/python/liger_suite/table.py
"""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "tests/python/README.md"
BEGIN, END = "<!-- liger_suite/table.py writes from here -->", "<!-- to here -->"
OUTCOMES = ("passed", "failed", "skipped", "xfailed", "xpassed")


def newest(kind):
    paths = sorted((ROOT / "bench/results").glob(f"liger-{kind}-*.json"))
    return json.loads(paths[-1].read_text()) if paths else None


def name_of(file):
    return re.sub(r"^test/(transformers/test_|convergence/)?|\.py$", "", file)


def rows_of(result):
    for group in result["groups"].values():
        alone = sum(each.get("alone") == "passed" for each in group["failed"].values())
        for file, each in group["files"].items():
            counts = each["counts"]
            others = ", ".join(f"{kernel} {count}" for kernel, count in each["triton"].items()) or "none"
            yield [name_of(file), *(counts.get(outcome, 0) or "" for outcome in OUTCOMES), each["tests_with_our_calls"] or "", others]
        if alone:
            yield [f"of the failed {alone} pass alone", *[""] * 7]


def text_of(result):
    commit = re.search(r"commit ([0-9a-f]{7,40})", result["library"])
    cut = [name for name, group in result["groups"].items() if group["exit"] == "time"]
    said = (f"{result['device']}, {result['date']}{', commit ' + commit.group(1)[:10] if commit else ''}, Liger-Kernel {result['liger']}, torch {result['torch']}, "
            f"transformers {result['transformers']}.") + (f" The time ended before all of {', '.join(cut)} had run." if cut else "")
    head = ["file", *OUTCOMES, "tests in which the library ran", "Liger's Triton kernels launched"]
    lines = [head, ["---"] * len(head), *rows_of(result)]
    return said + "\n\n" + "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def main():
    results = [result for result in map(newest, ("suite", "qwen2vl", "more", "rope", "models", "dispatched")) if result]
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + "\n" + "\n\n".join(map(text_of, results)) + "\n" + END + after)


if __name__ == "__main__":
    main()

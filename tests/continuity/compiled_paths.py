"""Checks the PTX of the kernels that drawn calls launch on sm_90a. Needs no GPU.

Usage: compiled_paths.py SOURCES COMPILED_PATHS COMPILER [--seed N] [--kernels N] [--calls N]
                         [--all] [--ptx FOLDER]

Draws calls at random, half of them with sizes that are multiples of 8, and compiles each distinct
kernel once. path_rules.h lists the rules.

known_paths.txt lists the rules that kernels break today, each with a call. The test fails if
another kernel breaks a rule. It also fails if no listed call breaks a listed rule any more.

The seed follows the commit of the sources, so each commit checks other shapes. --all checks 600
kernels.
"""

import argparse
import collections
import pathlib
import random
import re
import subprocess
import sys

from drawn_shapes import FUSED_RANGES, RANGES, drawn_shape

SEED = 20261201
KERNELS, ALL_KERNELS = 120, 600
RULES = ("wgmma", "local", "vectors", "copies", "barrier", "multiply_adds")
MUCH_MORE = 8  # limit, relative to the multiply-adds of the listed call
FEW_CALLS = 3  # number of calls printed per violation
OURS = {"fused_linear_cross_entropy": "ligerdsl_kernels"}  # provider that runs our matmuls, too


def seed_of(sources):
    """Returns a seed from the commit, or SEED for sources without a commit."""
    try:
        commit = subprocess.run(["git", "-C", str(sources), "rev-parse", "HEAD"], text=True,
                                capture_output=True, check=True).stdout.strip()
        return int(commit[:8], 16)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return SEED


def calls_of(rng, shapes, cases):
    """Yields calls without end: the operations of each pass, separated by ";"."""
    ranges = {**RANGES, **FUSED_RANGES}
    while True:
        for kernel in ranges:
            operation, aligned = shapes.OPERATIONS[kernel], rng.random() < 0.5
            shape = drawn_shape(rng, operation, ranges[kernel], aligned)
            if not shapes.permitted(operation, shape):
                continue
            passes = cases.operations(kernel, shape, "bf16", OURS.get(kernel, operation.ours))
            for name, operations in passes.items():
                if name != "full" or "bwd" not in passes:
                    yield ";".join(operations)


def read_known(text):
    """Returns {(kernel, variant, rule): call} of known_paths.txt."""
    rows = (line.split(" | ") for line in text.splitlines() if line and line[0] != "#")
    return {tuple(key.split()): call for key, call, _ in rows}


def multiply_adds(numbers):
    """Returns the multiply-adds in a report of the rule wgmma, or 0 for other rules."""
    found = re.search(r"for (\d+) multiply-adds", numbers)
    return int(found[1]) if found else 0


def is_listed(key, numbers, known, places):
    """Returns true if known_paths.txt lists the violation. A launch with much more work than the
    listed call is a different violation."""
    if key not in known:
        return False
    listed = max((multiply_adds(each) for each, call in places if call == known[key]), default=0)
    return multiply_adds(numbers) <= MUCH_MORE * listed


def checked(command, calls):
    """Returns ({(kernel, variant, rule): [(numbers, call)]}, {(kernel, variant, rule): number of
    kernels that the rule applies to}, number of kernels, number of calls)."""
    result = subprocess.run(command, input="\n".join(calls) + "\n", text=True, capture_output=True,
                            check=False)
    if result.returncode:
        raise RuntimeError(result.stderr)
    broken, applied, kernels, planned = {}, collections.Counter(), 0, 0
    for line in result.stdout.splitlines():
        kind, *fields = line.split("\t")
        if kind == "broken":
            broken.setdefault(tuple(fields[:3]), []).append(tuple(fields[3:]))
        elif kind == "checked":
            kernels += 1
            applied.update((*fields[:2], rule) for rule in fields[2].split())
        else:
            planned = int(fields[0])
    return broken, applied, kernels, planned


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=pathlib.Path)
    parser.add_argument("program")
    parser.add_argument("compiler")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--kernels", type=int, help="stop after N distinct kernels")
    parser.add_argument("--calls", type=int, default=4000, help="draw at most N calls")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--ptx", help="write the PTX of kernels that break a rule to this folder")
    options = parser.parse_args()
    sys.path.insert(0, str(options.sources / "bench"))
    import continuity_shapes as shapes
    import predicted_cases as cases

    seed = seed_of(options.sources) if options.seed is None else options.seed
    kernels = options.kernels or (ALL_KERNELS if options.all else KERNELS)
    drawn = calls_of(random.Random(seed), shapes, cases)
    command = [options.program, options.compiler, "--kernels", str(kernels)]
    if options.ptx:
        command += ["--ptx", options.ptx]
    print(f"seed {seed}", flush=True)
    known = read_known((pathlib.Path(__file__).parent / "known_paths.txt").read_text())
    calls = [*dict.fromkeys(known.values()), *(next(drawn) for _ in range(options.calls))]
    broken, applied, seen, planned = checked(command, calls)

    faults = 0
    for key, places in sorted(broken.items()):
        others = [each for each in places if not is_listed(key, each[0], known, places)]
        faults += bool(others)
        print(f"{'FAILED' if others else 'known'}: {' '.join(key)}: {len(places)} of "
              f"{applied[key]} kernels")
        for numbers, call in (others or places)[:FEW_CALLS]:
            print(f"    {numbers}\n        {call}")
    for key, call in known.items():
        if not any(each in known.values() for _, each in broken.get(key, ())):
            faults += 1
            print(f"FAILED: {' '.join(key)}: no longer broken: remove it from known_paths.txt, or "
                  f"name another call than\n        {call}")
    for rule in RULES:
        kernels_of = sum(count for key, count in applied.items() if key[2] == rule)
        print(f"{rule}: applies to {kernels_of} kernels")
        if not kernels_of:
            faults += 1
            print(f"FAILED: {rule}: expected a kernel that it applies to, got none")
    print(f"seed {seed}: {planned} calls, {seen} kernels, {faults} faults")
    if faults:
        print(f"repeat: compiled_paths.py SOURCES COMPILED_PATHS COMPILER --seed {seed} --kernels "
              f"{kernels}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

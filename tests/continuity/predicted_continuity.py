"""Finds shapes that are predicted to take much longer per unit of work than adjacent shapes.

Usage: predicted_continuity.py SOURCES PREDICTED_TIMES [--pairs N] [--seed N] [--worst N]

Draws shapes at random, changes one size of each by a small step, and compares the predicted times
(kernels/core/predict.h) of both calls on an H200. No kernel is compiled. The rules are those of
bench/continuity.py: unit times differ by a factor of at most 1.25, or 1.10 if all sizes of both
calls, except numbers of batches and heads, are multiples of 8. Calls under 10 us are left out,
because launches take most of their time.

known.txt lists the share of the pairs that break the rules. The test fails if a share grows. It
also fails if a share shrinks and the list still has the old one. Only a run with the default seed
and number of pairs compares with known.txt; --worst prints the largest cliffs.
"""

import argparse
import math
import pathlib
import random
import subprocess
import sys
from dataclasses import dataclass

from drawn_shapes import RANGES, drawn_shape

LEAST_US, MOST_STEP = 10, 1.25
LIMIT, ALIGNED_LIMIT = 1.25, 1.10
SEED, PAIRS = 20261130, 20000
STEPS = (-1, 1, 2, 4, 8, 64, "line", "prime")
ALIGNED_STEPS = (8, 64, "line")
TOLERANCE = 0.1  # relative: last bits of predictions, and thus shares, depend on the processor


@dataclass(frozen=True)
class Pair:
    kernel: str
    base: tuple
    adjacent: tuple
    aligned: bool
    work: float  # ratio: work of the adjacent call / work of the base call


def work_of(kernel, letters, shape):
    """Returns a number proportional to a call's work, for small changes of one size."""
    size = dict(zip(letters, shape))
    if kernel == "embedding":
        return size["M"] * size["H"]
    if kernel == "rope":
        return size["B"] * size["S"] * (size["A"] + size["K"]) * size["D"]
    if kernel == "attention":
        return size["B"] * size["T"] ** 2 * size["A"] * size["D"]
    return math.prod(shape)


def pair_of(rng, kernel, shapes):
    """Returns a pair of the kernel, or None if its shape is not permitted."""
    operation = shapes.OPERATIONS[kernel]
    aligned = rng.random() < 0.5
    base = drawn_shape(rng, operation, RANGES[kernel], aligned)
    at = rng.randrange(len(base))
    size = shapes.moved(base[at], rng.choice(ALIGNED_STEPS if aligned else STEPS))
    base, adjacent = tuple(base), (*base[:at], size, *base[at + 1:])
    if not (shapes.permitted(operation, base) and shapes.permitted(operation, adjacent)):
        return None
    if max(size, base[at]) > MOST_STEP * min(size, base[at]):  # too large a step for this size
        return None
    work = [work_of(kernel, operation.letters, shape) for shape in (base, adjacent)]
    # Numbers of batches and heads do not affect alignment, so they need not be multiples of 8.
    counts = "" if kernel.startswith("matmul") else "BAK"
    multiples = all(n % shapes.VECTOR == 0 for shape in (base, adjacent)
                    for letter, n in zip(operation.letters, shape) if letter not in counts)
    return Pair(kernel, base, adjacent, multiples, work[1] / work[0])


def predicted(program, calls):
    """Returns the predicted time in us of each call, or None where a loop's length is assumed."""
    result = subprocess.run([program], input="\n".join((*calls, "", "", "")), text=True,
                            capture_output=True, check=False)
    if result.returncode:
        raise RuntimeError(result.stderr)
    assumed, times = (line.split() for line in result.stdout.splitlines()[:2])
    return [None if known == "1" else float(us) for known, us in zip(assumed, times, strict=True)]


def read_known(text):
    """Returns {(kernel, pass, rule): share} of known.txt."""
    rows = (line.split(maxsplit=4) for line in text.splitlines() if line and line[0] != "#")
    return {(kernel, name, rule): float(share) for kernel, name, rule, share, _ in rows}


def faults_of(shares, known):
    """Returns the differences between {key: (share, pairs, worst)} and the known shares."""
    faults = []
    for key, (share, pairs, _) in shares.items():
        allowed, slack = known.get(key, 0.0), 1.5 / pairs
        if share > allowed * (1 + TOLERANCE) + slack:
            faults.append(f"{' '.join(key)}: expected at most {allowed:.3f} of the pairs, got "
                          f"{share:.3f}; run with --worst 5")
        elif share < allowed * (1 - TOLERANCE) - slack:
            faults.append(f"{' '.join(key)}: known.txt has {allowed:.3f}, got {share:.3f}; lower "
                          "the share in known.txt")
    faults += [f"{' '.join(key)}: known.txt has a share, but no pair was drawn; remove it"
               for key in known.keys() - shares]
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=pathlib.Path)
    parser.add_argument("program")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--worst", type=int, default=0,
                        help="print the N largest cliffs of each kernel, pass and rule")
    options = parser.parse_args()
    sys.path.insert(0, str(options.sources / "bench"))
    import continuity_shapes as shapes
    import predicted_cases

    rng = random.Random(options.seed)
    pairs = []
    while len(pairs) < options.pairs:
        pair = pair_of(rng, list(RANGES)[len(pairs) % len(RANGES)], shapes)
        if pair:
            pairs.append(pair)
    calls, passes = [], []
    for pair in pairs:
        wanted = shapes.OPERATIONS[pair.kernel]
        both = [predicted_cases.operations(pair.kernel, shape, "bf16", wanted.ours)
                for shape in (pair.base, pair.adjacent)]
        for name in wanted.passes:
            calls += [";".join(each[name]) for each in both]
            passes.append((pair, name))
    times = predicted(options.program, calls)

    found = {}
    for (pair, name), before, after in zip(passes, times[::2], times[1::2], strict=True):
        if before is None or after is None or min(before, after) < LEAST_US:
            continue
        ratio = after / before / pair.work
        rule = "aligned" if pair.aligned else "any"
        found.setdefault((pair.kernel, name, rule), []).append((max(ratio, 1 / ratio), pair))
    shares = {}
    for key, ratios in sorted(found.items()):
        limit = ALIGNED_LIMIT if key[2] == "aligned" else LIMIT
        broken = sorted((each for each in ratios if each[0] > limit), key=lambda each: -each[0])
        shares[key] = (len(broken) / len(ratios), len(ratios), max(each[0] for each in ratios))
        print(f"{' '.join(key):34s} {shares[key][0]:.3f} of {len(ratios)} pairs, largest "
              f"{shares[key][2]:.2f}")
        for ratio, pair in broken[:options.worst]:
            print(f"    {ratio:.2f}  {'x'.join(map(str, pair.base))}  "
                  f"{'x'.join(map(str, pair.adjacent))}")
    print(f"seed {options.seed}, {len(pairs)} pairs, {sum(t is None for t in times)} of "
          f"{len(times)} calls with an assumed loop")
    if (options.seed, options.pairs) != (SEED, PAIRS):
        return 0
    known = read_known((pathlib.Path(__file__).parent / "known.txt").read_text())
    faults = faults_of(shares, known)
    for fault in faults:
        print(f"FAILED: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

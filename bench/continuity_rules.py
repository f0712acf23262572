#!/usr/bin/env python3
"""The rules of continuity.py over measured rows. Needs no torch.

    python3 bench/continuity_rules.py RESULT.json     # applies them to a stored result

The unit time of a call is its time divided by its floor. The floor is the time of its bytes or of
its flops at the rates of an H200, whichever is longer. The rules:

1. The unit times of a pair differ by a factor of at most 1.25. The limit is 1.10 if both sizes are
   multiples of 8, and addresses and rows are multiples of 16 bytes. If the ratio of the sizes is
   above 1.25, only the larger size can break the rule, because small calls have a fixed cost.
2. A call has at least 0.95 of the speed of the best peer.

A row of a pair: kernel, pass, dtype, base, adjacent (Wanted.call), step, sizes, aligned,
base_us and us (one time per repeat), base_floor_us and floor_us.
A row of peers: kernel, pass, dtype, call, us, floor_us, and peers, {provider: {us, max_error}}.
"""

import datetime
import json
import pathlib
import sys
from dataclasses import dataclass
from statistics import median

from baselines import WRONG

KNOWN = pathlib.Path(__file__).resolve().parent / "known_cliffs.txt"
BYTES_PER_US, FLOPS_PER_US = 4.2e6, 787e6
LIMIT, ALIGNED_LIMIT = 1.25, 1.10
FAR = 1.25  # above this ratio of sizes, only the larger one can break rule 1
LEAST_OF_PEER = 0.95
AGREE = 0.03  # largest relative difference of repeats
GROWN = 1.10  # a known cliff that is this many times as large counts as a new one
PEER = "peer"  # replaces the second call in lines of known_cliffs.txt about rule 2


def floor_us(nbytes, flops=0):
    return max(float(nbytes) / BYTES_PER_US, flops / FLOPS_PER_US)


def agree(ratios):
    """Returns true if the repeats of a ratio differ by AGREE at most."""
    return max(ratios) <= min(ratios) * (1 + AGREE)


def unit_ratios(row):
    """Returns the adjacent call's unit time / the base call's, for each repeat."""
    return [after / row["floor_us"] / (before / row["base_floor_us"])
            for before, after in zip(row["base_us"], row["us"])]


def excess(row):
    """Returns the ratio that rule 1 limits: the larger unit time over the smaller one.

    If the ratio of the sizes is above FAR, it is the larger size's unit time / the smaller size's.
    """
    ratio = median(unit_ratios(row))
    before, after = row["sizes"] or (1, 1)
    if max(before, after) > FAR * min(before, after):
        return ratio if after > before else 1 / ratio
    return max(ratio, 1 / ratio)


def peer_ratios(row, peer):
    """Returns our time divided by the peer's, for each repeat."""
    return [ours / theirs for ours, theirs in zip(row["us"], peer["us"])]


def best_peer(row):
    """Returns (name, ratios) of the fastest peer with a correct result and steady times, or
    None."""
    found = {name: peer_ratios(row, peer) for name, peer in row["peers"].items()
             if peer["max_error"] <= WRONG}
    steady = {name: ratios for name, ratios in found.items() if agree(ratios)}
    return max(steady.items(), key=lambda each: median(each[1]), default=None)


@dataclass(frozen=True)
class Cliff:
    """Two calls that break a rule, and the ratio by which they do. adjacent: a call, or PEER."""
    kernel: str
    pass_name: str
    dtype: str
    base: str
    adjacent: str
    ratio: float
    text: str = ""

    @property
    def key(self):
        return self.kernel, self.pass_name, self.dtype, self.base, self.adjacent

    @property
    def line(self):
        """Returns the first fields of the cliff's line in the list."""
        return f"{' '.join(self.key)} {self.ratio:.4g}"


@dataclass(frozen=True)
class Judged:
    """Result of a rule for a row: a Cliff with its ratio, and the largest permitted ratio."""
    cliff: Cliff
    limit: float

    @property
    def broken(self):
        return self.cliff.ratio > self.limit

    @property
    def clearly_kept(self):
        return self.cliff.ratio * (1 + AGREE) <= self.limit


def judge_pair(row):
    """Applies rule 1 to a row of a pair."""
    limit = ALIGNED_LIMIT if row["aligned"] else LIMIT
    units = [median(row[name]) / row[floor] for name, floor in (("base_us", "base_floor_us"),
                                                               ("us", "floor_us"))]
    slow = row["adjacent"] if units[1] > units[0] else row["base"]
    ratio = excess(row)
    return Judged(Cliff(row["kernel"], row["pass"], row["dtype"], row["base"], row["adjacent"],
                        ratio, f"unit times {units[0]:.2f} and {units[1]:.2f}, limit {limit:.2f}; "
                        f"slow: {slow}"), limit)


def judge_peers(row):
    """Applies rule 2 to a row of peers. Returns None without a peer to compare with."""
    best = best_peer(row)
    if best is None:
        return None
    ratio = median(best[1])
    return Judged(Cliff(row["kernel"], row["pass"], row["dtype"], row["call"], PEER, ratio,
                        f"{1 / ratio:.2f} of the speed of {best[0]}, limit {LEAST_OF_PEER}"),
                  1 / LEAST_OF_PEER)


@dataclass(frozen=True)
class Known:
    """A line of the list: a cliff with its reason and date."""
    cliff: Cliff
    date: str
    reason: str
    line: int


def read_known(text):
    """Returns the lines of a list of known cliffs. Raises ValueError for an invalid line.

    A line has the fields of a cliff, its date and its reason, separated by spaces; # begins a
    comment.
    """
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split(None, 7)
        if not fields or fields[0].startswith("#"):
            continue
        if len(fields) < 8:
            raise ValueError(f"line {number}: expected 8 fields (kernel, pass, dtype, base, "
                             "adjacent, "
                             f"ratio, date, reason), got {len(fields)}: {line}")
        *key, ratio, date, reason = fields
        datetime.date.fromisoformat(date)
        cliff = Cliff(*key, float(ratio))
        if cliff.key in found:
            raise ValueError(f"line {number}: the cliff {' '.join(map(str, cliff.key))} is already "
                             "in "
                             f"line {found[cliff.key].line}; remove one of them")
        found[cliff.key] = Known(cliff, date, reason, number)
    return found


@dataclass
class Verdict:
    """broken: new cliffs, and known cliffs that grew. known: other cliffs of the list. gone: lines
    whose cliff is gone. unsteady: rows without a verdict, because their repeats differ too much."""
    broken: list
    known: list
    gone: list
    unsteady: list

    @property
    def failed(self):
        return bool(self.broken or self.gone)


def judge(pairs, peers, known):
    """Applies the rules to the rows. Ignores listed cliffs without a row."""
    verdict = Verdict([], [], [], [])
    results = []
    for row in pairs:
        if agree(unit_ratios(row)):
            results.append(judge_pair(row))
        else:
            verdict.unsteady.append(row)
    results += filter(None, map(judge_peers, peers))
    for each in results:
        line = known.get(each.cliff.key)
        if each.broken and line is None:
            verdict.broken.append(f"{each.cliff.line}: {each.cliff.text}")
        elif each.broken and each.cliff.ratio > line.cliff.ratio * GROWN:
            verdict.broken.append(f"{each.cliff.line}: {each.cliff.text}; line {line.line} of the "
                                  f"list has the ratio {line.cliff.ratio:.4g}")
        elif each.broken:
            verdict.known.append(f"{each.cliff.line}: {each.cliff.text}; since {line.date}: "
                                 f"{line.reason}")
        elif line is not None and each.clearly_kept:
            verdict.gone.append(f"{each.cliff.line}: {each.cliff.text}; remove line {line.line} "
                                "of the list")
    return verdict


def show(verdict):
    """Prints the results of the rules."""
    for title, texts in (("KNOWN", verdict.known), ("BROKEN", verdict.broken),
                         ("GONE", verdict.gone)):
        for text in texts:
            print(f"{title} {text}")
    for row in verdict.unsteady:
        print(f"UNSTEADY {row['kernel']} {row['pass']} {row['base']} {row['adjacent']}: ratios "
              + ", ".join(f"{ratio:.3f}" for ratio in unit_ratios(row)))


def curves(pairs):
    """Returns {(kernel, pass, dtype, base, letter): {size: unit time}}, for a plot of each size."""
    found = {}
    for row in pairs:
        if row["sizes"] and agree(unit_ratios(row)):
            letter = row["step"][0]
            line = found.setdefault(
                (row["kernel"], row["pass"], row["dtype"], row["base"], letter), {})
            before, after = row["sizes"]
            line.setdefault(before, median(row["base_us"]) / row["base_floor_us"])
            line[after] = median(row["us"]) / row["floor_us"]
    return {key: dict(sorted(line.items())) for key, line in found.items()}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    result = json.loads(pathlib.Path(sys.argv[1]).read_text())
    verdict = judge(result["pairs"], result["peers"], read_known(KNOWN.read_text()))
    show(verdict)
    return int(verdict.failed)


if __name__ == "__main__":
    sys.exit(main())

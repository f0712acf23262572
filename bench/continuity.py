#!/usr/bin/env python3
"""Finds cliffs: sizes, addresses or row pitches at which a call takes much longer per unit of work.
Times base shapes, the calls next to them, and peers.

    python3 bench/continuity.py --library build/release/lib/libligerdsl.so --out continuity.json
    ... --quick                                      60 pairs in 2 minutes; all: 12 minutes
    ... --op rms_norm,matmul_nt                      these kernels
    ... --op matmul_nt --around 4096x4096x4090       one shape in fine steps

Both calls of a pair, and the peers, alternate in one process. A pair counts if its three repeats
agree within 3 %. continuity_shapes.py has the shapes, continuity_rules.py the rules, and
known_cliffs.txt the cliffs that may exist.

The file has the fields of compare.py, and the rows of continuity_rules.py: pairs and peers. The
lists broken, known, gone and unsteady have the results of the rules.

Exit codes:

- 0: no new cliff
- 1: a cliff without a line in known_cliffs.txt, a cliff that has grown, a line without its cliff,
  or a failure of ours
- 4: the GPU's context is lost
- 5: pairs were left out for lack of time
"""

import argparse
import pathlib
import signal
import sys
import time
from dataclasses import dataclass
from statistics import median

import torch

import continuity_shapes as shapes
from cases import Case, build
from compare import about, installed, own_stream
from continuity_rules import (BYTES_PER_US, FLOPS_PER_US, KNOWN, agree, best_peer, excess, floor_us,
                              judge, peer_ratios, read_known, show, unit_ratios)
from ligerdsl_ctypes import Library
from measure import checked
from results import ResultFile
from runner import CUT, FAILED, LOST, OK, Budget, Run, on_alarm
from timing import timer_for

SECONDS, QUICK_SECONDS = 720, 120


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="path of libligerdsl.so")
    parser.add_argument("--out", required=True, help="JSON file to write")
    parser.add_argument("--quick", action="store_true",
                        help=f"measure only {shapes.QUICK} pairs, from the first base shape of "
                             "each "
                             f"kernel, in {QUICK_SECONDS} s")
    parser.add_argument("--op", default="", help="kernels, separated by commas; default: all of "
                                                 + ", ".join(shapes.OPERATIONS))
    parser.add_argument("--around", metavar="SHAPE",
                        help="vary each size of this shape in fine steps; --op must name one "
                             "kernel")
    parser.add_argument("--providers", default="",
                        help="peers, separated by commas; default: those of the kernel")
    parser.add_argument("--known", type=pathlib.Path, default=KNOWN,
                        help="list of known cliffs; default: %(default)s")
    parser.add_argument("--run", type=int, help="number of this run among those of the day; "
                                                "default: seconds since "
                                         "midnight, UTC")
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu")
    parser.add_argument("--smoke", action="store_true",
                        help="run tiny shapes, which a CPU can check, and apply no rule")
    parser.add_argument("--budget-s", type=float, default=None,
                        help=f"time limit in seconds; default: {SECONDS}, with --quick "
                             f"{QUICK_SECONDS}; "
                             "0: no limit")
    parser.add_argument("--contender-s", type=int, default=60,
                        help="seconds after which a call counts as failed; default: %(default)s")
    options = parser.parse_args()
    if options.budget_s is None:
        options.budget_s = QUICK_SECONDS if options.quick else SECONDS
    return options


def wanted_pairs(options):
    """Returns the pairs that the command line selects. Raises KeyError or ValueError for unknown
    kernels or an invalid --around."""
    kernels = list(filter(None, options.op.split(",")))
    bases = shapes.bases_of(kernels, shapes.SMOKE if options.smoke else shapes.BASES)
    if options.around:
        if len(kernels) != 1:
            raise ValueError(f"--around: expected exactly one kernel in --op, got "
                             f"{','.join(kernels) or 'none'}")
        sizes = [int(n) for n in options.around.split("x")]
        bases = (shapes.around(kernels[0], sizes),)
    return shapes.quick(bases) if options.quick else shapes.pairs(bases)


@dataclass
class Call:
    """A built call and its checked contenders, {provider: (Contender, errors)}."""
    wanted: shapes.Wanted
    case: Case
    ours: str
    contenders: dict

    def run(self, provider, pass_name):
        contender = self.contenders[provider][0]
        return contender.passes[pass_name].run, contender.restore

    def peers(self, pass_name):
        return [name for name, (contender, _) in self.contenders.items()
                if name != self.ours and pass_name in contender.passes]

    def floor_us(self, pass_name):
        return floor_us(self.case.bytes[pass_name], self.case.flops.get(pass_name, 0))

    def facts(self, pass_name):
        return {"kernel": self.wanted.kernel, "pass": pass_name, "dtype": self.wanted.dtype}

    def peer_row(self, pass_name, times):
        """Returns the row of peers; times: {provider: us of each repeat}."""
        peers = {name: {"us": times[name],
                        "max_error": max(self.contenders[name][1][pass_name].values())}
                 for name in self.peers(pass_name)}
        return {**self.facts(pass_name), "call": self.wanted.call, "us": times[self.ours],
                "floor_us": self.floor_us(pass_name), "peers": peers}


class Scan(Run):
    """Measures pairs. A base call remains built while its pairs are measured."""

    def __init__(self, context, device, timer, file, budget, contender_s, peers_of):
        """peers_of: function from a kernel to the peers that can be imported."""
        super().__init__(context, device, timer, None, file, budget, contender_s)
        self.peers_of, self.base, self.failed = peers_of, None, set()

    def prepare(self, wanted):
        """Builds a call and checks its contenders. A peer that fails is recorded and left out."""
        operation = shapes.OPERATIONS[wanted.kernel]
        torch.manual_seed(0)
        case = build(self.context, wanted)
        call = Call(wanted, case, operation.ours, {})
        call.contenders[call.ours] = checked(case, wanted, call.ours)
        for peer in self.peers_of(wanted.kernel):
            if peer not in case.make:
                continue
            try:
                call.contenders[peer] = checked(case, wanted, peer)
            except Exception as error:
                self.file.fail(wanted, peer, f"{wanted.call}: {type(error).__name__}: {error}")
        return call

    def times(self, runs, steady):
        """Returns the repeats of runs. Measures them once more if steady(repeats) is false."""
        found = self.timer.repeats(runs)
        return found if steady(found) else self.timer.repeats(runs)

    def base_peers(self, call):
        """Times the peers of a base call, once for all of its pairs."""
        for name in shapes.OPERATIONS[call.wanted.kernel].passes:
            providers = [call.ours, *call.peers(name)]
            if len(providers) > 1:
                found = self.times([call.run(each, name) for each in providers], lambda found: all(
                    agree(peer_ratios({"us": found[0]}, {"us": each})) for each in found[1:]))
                self.file.data["peers"].append(call.peer_row(name, dict(zip(providers, found))))

    def one_pair(self, pair):
        """Times both calls of a pair and the peers of the second one, in alternation."""
        base, call = self.base, self.prepare(pair.adjacent)
        for name in pair.operation.passes:
            row = {**call.facts(name), "base": base.wanted.call, "adjacent": call.wanted.call,
                   "step": pair.step, "sizes": list(pair.sizes), "aligned": pair.aligned,
                   "base_floor_us": base.floor_us(name), "floor_us": call.floor_us(name)}

            def steady(found, row=row):
                row.update(base_us=found[0], us=found[1])
                return agree(unit_ratios(row))

            providers = [call.ours, *call.peers(name)]
            found = self.times(
                [base.run(base.ours, name), *(call.run(each, name) for each in providers)], steady)
            steady(found)
            self.file.data["pairs"].append(row)
            peers = call.peer_row(name, dict(zip(providers, found[1:])))
            if peers["peers"]:
                self.file.data["peers"].append(peers)
            print(text_of(row, peers), flush=True)
        self.file.write()

    def measure(self, pair):
        """Measures a pair. Builds its base call unless the previous pair had the same one."""
        if pair.base in self.failed:
            return
        wanted = pair.base
        try:
            if self.base is None or self.base.wanted != pair.base:
                self.base = None
                self.after()
                self.base = self.limited(lambda: self.prepare(pair.base))
                self.limited(lambda: self.base_peers(self.base))
            wanted = pair.adjacent
            self.limited(lambda: self.one_pair(pair))
        except Exception as error:
            print(f"FAILED {wanted}: {type(error).__name__}: {error}"[:1000], flush=True)
            self.file.fail(wanted, "ligerdsl", f"{wanted.call}: {type(error).__name__}: {error}")
            if wanted == pair.base:
                self.base = None
                self.failed.add(pair.base)
        self.after()

    def scan(self, pairs):
        """Measures the pairs in order; lists those left out for lack of time."""
        for pair in pairs:
            if not self.budget.allows(pair.base.kernel, "pair"):
                self.cut(str(pair))
                continue
            begin = time.monotonic()
            self.measure(pair)
            self.budget.note(pair.base.kernel, "pair", time.monotonic() - begin)
        self.file.write()


def text_of(row, peers):
    """Returns the line that shows a pair."""
    units = (median(row["base_us"]) / row["base_floor_us"], median(row["us"]) / row["floor_us"])
    best = best_peer(peers)
    return (f"{row['kernel']:26s} {row['pass']:4s} {row['base']:18s} {row['step']:10s} "
            f"{row['adjacent']:24s} {median(row['base_us']):9.1f} {median(row['us']):9.1f} us unit "
            f"{units[0]:5.2f} {units[1]:5.2f} ratio {excess(row):5.2f}"
            + (f" {1 / median(best[1]):.2f} of {best[0]}" if best else "")
            + " unsteady" * (not agree(unit_ratios(row))))


def summary(file, known, apply_rules):
    """Applies the rules, writes and prints the results. Returns the exit code."""
    data, code = file.data, OK
    failures = [each for each in data["failures"] if each["provider"] == "ligerdsl"]
    if apply_rules:
        verdict = judge(data["pairs"], data["peers"], known)
        data.update(broken=verdict.broken, known=verdict.known, gone=verdict.gone,
                    unsteady=verdict.unsteady)
        show(verdict)
        code = FAILED if verdict.failed else OK
    file.write()
    for each in failures:
        print(f"FAILED {each['kernel']} {each['dtype']} {each['error'][:300]}")
    print(f"{file.path}: {len(data['pairs'])} rows of pairs, {len(data['peers'])} rows of peers, "
          f"{len(failures)} failures of libligerdsl, {len(data['failures']) - len(failures)} "
          f"failures of peers, {len(data['not_measured'])} not measured")
    return FAILED if failures else code or (CUT if data["not_measured"] else OK)


def main():
    options = parse()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("continuity.py: torch finds no CUDA device; use a machine with a GPU, or check "
                 "the "
                 "script without measurements by --device cpu --smoke")
    try:
        pairs, known = wanted_pairs(options), read_known(options.known.read_text())
    except (KeyError, ValueError) as error:
        sys.exit(f"continuity.py: {error.args[0]}")
    library = Library(options.library)
    file = ResultFile(options.out, about(library, device, options.run, "bench/continuity.py"))
    file.data.update(pairs=[], peers=[],
                     floor={"bytes_per_us": BYTES_PER_US, "flops_per_us": FLOPS_PER_US})
    asked = list(filter(None, options.providers.split(",")))
    present, missing = installed(asked or list(dict.fromkeys(
        peer for pair in pairs for peer in pair.operation.peers)))
    file.data["missing_peers"] = missing
    for text in missing:
        print(f"NO PEER {text}")

    def peers_of(kernel):
        return [peer for peer in asked or shapes.OPERATIONS[kernel].peers if peer in present]

    signal.signal(signal.SIGALRM, on_alarm)
    if device.type == "cpu":
        torch.set_num_threads(1)
    with own_stream(device):
        scan = Scan(library.context(device), device, timer_for(device), file,
                    Budget(options.budget_s), options.contender_s, peers_of)
        try:
            scan.scan(pairs)
        except SystemExit:  # the GPU's context is lost
            file.data["not_measured"].append("everything after the last failure: the GPU's context "
                                             "was lost; measure again")
            summary(file, known, not options.smoke)
            return LOST
    return summary(file, known, not options.smoke)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Applies mutants to the sources, one at a time, and reports those that no test detects.

    tests/mutation/run.py [--record] [--missing] [--work DIR] [--jobs N] [NAME ...]

Works in a copy of the committed sources (a git worktree in DIR) with a build of its own, and keeps
both for the next run. Without names it runs every mutant of mutants.txt. Mutants of the compiler,
which take one to three minutes each, run last.

The recorded test that detected a mutant last time runs first. After each batch of mutants, the
tests that detected them run on the unchanged sources. Only detections by tests that pass there are
recorded.

Exit code 1: a mutant survived, or a test fails on the unchanged sources.
"""
import argparse
import pathlib
import subprocess
import sys
import time

import record
from mutants import parse
from steps import STEPS, noticing_test, run

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BATCH = 4  # mutants per batch, after which the tests that detected them run on unchanged sources
DOES_NOT_COMPILE = "does not compile"


class Workshop:
    def __init__(self, folder, jobs):
        self.tree, self.log, self.jobs = folder / "tree", folder / "log.txt", jobs
        folder.mkdir(parents=True, exist_ok=True)
        self.log.write_text("")
        if not self.tree.exists():
            subprocess.run(["git", "worktree", "add", "-q", "--detach", str(self.tree), "HEAD"],
                           cwd=ROOT, check=True)
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True,
                              capture_output=True, text=True)
        self.commit = head.stdout.strip()
        subprocess.run(["git", "checkout", "-q", "--force", "--detach", self.commit], cwd=self.tree,
                       check=True)
        self.build = self.tree / "build" / "release"
        if not run("cmake --preset release -DLIGERDSL_BUILD_TESTS=ON", self.tree, self.log)[0]:
            sys.exit(f"cmake fails in the copy {self.tree}; see {self.log}")

    def notices(self, name, tests=()):
        """Returns None if the step (or only these of its tests) passes, otherwise the failed test
        or the problem."""
        step = STEPS[name]
        if not run(f"ninja -j{self.jobs} {step.targets}", self.build, self.log)[0]:
            return DOES_NOT_COMPILE
        green, output = run(step.command_of(tests), self.build, self.log)
        return None if green else noticing_test(output)

    def verdict(self, mutant, last):
        """Returns the verdict (killed, survived, or the reason why it is invalid), and the step and
        test that detected it."""
        path = self.tree / mutant.file
        if not mutant.fits(self.tree):
            return "stale", "", ""
        source = path.read_text()
        path.write_text(source.replace(mutant.old, mutant.new))
        with self.log.open("a") as out:
            out.write(f"\n==== {mutant.name}\n")
        attempts = [(step, ()) for step in mutant.steps]
        if last.get("test") and last["step"] in mutant.steps:
            attempts.insert(0, (last["step"], [last["test"]]))
        try:
            for step, tests in attempts:
                if how := self.notices(step, tests):
                    return (how, step, "") if how == DOES_NOT_COMPILE else ("killed", step, how)
            return "survived", "", ""
        finally:
            path.write_text(source)

    def confirm(self, noticed):
        """Ends the run unless the tests that detected mutants, as (step, test), pass on the
        unchanged sources."""
        for step in STEPS:
            tests = sorted({test for of_step, test in noticed if of_step == step})
            if tests and (how := self.notices(step, tests)):
                sys.exit(f"step {step} fails on the unchanged sources ({how}); see {self.log}")


def check(mutants, complete):
    faults = [f"{m.name}: expected its text exactly once in {m.file}; update mutants.txt"
              for m in mutants if not m.fits(ROOT)]
    results = record.Record(record.path(ROOT))
    faults += results.faults(mutants, complete)
    print("\n".join(faults)
          or f"{len(mutants)} mutants fit their sources; {results.file.name}: {results.summary()}")
    return 1 if faults else 0


def tried(workshop, mutant, results):
    start = time.monotonic()
    verdict, step, test = workshop.verdict(mutant, results.of(mutant))
    print(f"{mutant.name:18} {verdict:8} {time.monotonic() - start:5.0f} s  {step} {test}",
          flush=True)
    return verdict, step, test


def run_all(chosen, mutants, options):
    results = record.Record(record.path(ROOT))
    workshop = Workshop(options.work.resolve(), options.jobs)
    killed = 0
    for first in range(0, len(chosen), BATCH):
        batch = [
            (mutant, *tried(workshop, mutant, results)) for mutant in chosen[first: first + BATCH]]
        noticed = [(step, test) for _, verdict, step, test in batch if verdict == "killed"]
        workshop.confirm(noticed)
        killed += len(noticed)
        for mutant, verdict, step, test in batch:
            if verdict in record.VERDICTS:
                results.set(mutant, verdict, step, test, workshop.commit)
        if options.record:
            results.write(mutants)
    print(f"{killed} of {len(chosen)} mutants were detected; log: {workshop.log}")
    return 0 if killed == len(chosen) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "mutation")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--skip", action="append", default=[], metavar="STEP",
                        help="omit this step; may be repeated; not with --record")
    parser.add_argument("--record", action="store_true",
                        help="write the verdicts to the release's results")
    parser.add_argument("--missing", action="store_true",
                        help="run only mutants without a current result")
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    parser.add_argument(
        "--check", action="store_true",
        help="only check that mutants fit their sources and that the results fit the mutants")
    parser.add_argument("--complete", action="store_true",
                        help="with --check: also require that every mutant was run, for a release")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    mutants = parse((HERE / "mutants.txt").read_text())
    if options.check:
        return check(mutants, options.complete)
    if unknown := set(options.names) - {mutant.name for mutant in mutants}:
        sys.exit(f"unknown mutants: {', '.join(sorted(unknown))}; run.py --list prints the names")
    results = record.Record(record.path(ROOT))
    chosen = [m for m in mutants if (not options.names or m.name in options.names)
                                    and not (options.missing and results.is_run(m))]
    if options.list:
        print("\n".join(f"{mutant.name:18} {mutant.why} ({mutant.file})" for mutant in chosen))
        return 0
    if options.skip and options.record:
        sys.exit("--record and --skip: a mutant that only a skipped step detects would be recorded "
                 "as survived; omit one of the two options")
    for mutant in chosen:
        mutant.steps = [step for step in mutant.steps if step not in options.skip]
    chosen.sort(key=lambda mutant: mutant.file.startswith("compiler/"))
    return run_all(chosen, mutants, options)


if __name__ == "__main__":
    sys.exit(main())

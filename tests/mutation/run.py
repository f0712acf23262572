#!/usr/bin/env python3
"""Breaks the sources in ways that a test must notice, one at a time, and says which of them no test noticed.

    tests/mutation/run.py [--work DIR] [--jobs N] [NAME ...]

Works in a copy of the checked-in sources (a git worktree in DIR) with a build of its own, which it keeps for the next run.
Without names, every mutant of mutants.txt. A mutant of the compiler costs one to three minutes. Exit code 1: a mutant
survived, or the tests fail without any.
"""
import argparse
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT = 1200  # seconds of one step; a mutant that hangs is noticed as well

# What may notice a mutant: targets to build, then a command, run in the build folder.
STEPS = {
    "passes": (["ligerdsl-opt"], "ctest -R compiler_passes --output-on-failure"),
    "compiler": (["compiler_tests"], "tests/compiler/compiler_tests --gtest_brief=1 --gtest_fail_fast"),
    "kernels-interpreter": (
        ["kernel_tests"],
        "tests/kernels/kernel_tests --backend=interpreter-nvptx --gtest_fail_fast",
    ),
    "kernels-ptx": (["kernel_tests", "ligerdsl_compiler"], "tests/kernels/kernel_tests --backend=ptx --gtest_fail_fast"),
    "kernels-cluster": (
        ["kernel_tests", "ligerdsl_compiler"],
        "tests/kernels/kernel_tests --backend=ptx-cluster2 --gtest_fail_fast",
    ),
    "kernels-cpu": (["kernel_tests", "ligerdsl_compiler"], "tests/kernels/kernel_tests --backend=cpu --gtest_fail_fast"),
    "fuzz": (["fuzz_tests"], "tests/fuzz/fuzz_tests --gtest_filter=-Compile* --gtest_fail_fast"),
    "abi": (["abi_tests", "ligerdsl_compiler"], "ctest -L abi --stop-on-failure"),
    "runtime": (["runtime_tests", "fake_cuda", "fake_compiler"], "ctest -L runtime --stop-on-failure"),
}


def parse(text):
    """Blocks of mutants.txt as (name, why, file, steps, old, new)."""
    mutants = []
    for block in text.split("\n== ")[1:]:
        head, _, rest = block.partition("\n---\n")
        old, _, new = rest.partition("\n+++\n") if "\n+++\n" in rest else rest.partition("\n+++")
        title, *lines = head.splitlines()
        name, _, why = title.partition(": ")
        fields = dict(line.split(" ", 1) for line in lines)
        mutants.append((name, why, fields["file"], fields["steps"].split(), old.strip("\n"), new.strip("\n")))
    return mutants


def run(command, folder, log):
    """True when the command succeeds in time."""
    with log.open("a") as out:
        out.write(f"\n$ {command}\n")
        out.flush()
        try:
            return subprocess.run(command, shell=True, cwd=folder, stdout=out, stderr=subprocess.STDOUT, timeout=LIMIT).returncode == 0
        except subprocess.TimeoutExpired:
            out.write("\ntimed out\n")
            return False


class Workshop:
    def __init__(self, folder, jobs):
        self.tree, self.log, self.jobs = folder / "tree", folder / "log.txt", jobs
        folder.mkdir(parents=True, exist_ok=True)
        self.log.write_text("")
        if not self.tree.exists():
            subprocess.run(["git", "worktree", "add", "-q", "--detach", str(self.tree), "HEAD"], cwd=ROOT, check=True)
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run(["git", "checkout", "-q", "--force", "--detach", head], cwd=self.tree, check=True)
        self.build = self.tree / "build" / "release"
        if not run("cmake --preset release", self.tree, self.log):
            sys.exit(f"the copy does not configure: {self.log}")

    def notices(self, step):
        """None: still green; otherwise how the step went red."""
        targets, command = STEPS[step]
        if not run(f"ninja -j{self.jobs} " + " ".join(targets), self.build, self.log):
            return "does not compile"
        return None if run(command, self.build, self.log) else step

    def verdict(self, mutant):
        name, _, file, steps, old, new = mutant
        path = self.tree / file
        source = path.read_text()
        if source.count(old) != 1:
            return f"STALE: its text occurs {source.count(old)} times in {file}"
        path.write_text(source.replace(old, new))
        with self.log.open("a") as out:
            out.write(f"\n==== {name}\n")
        try:
            for step in steps:
                if how := self.notices(step):
                    return how
            return "SURVIVED"
        finally:
            path.write_text(source)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "mutation")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--skip", action="append", default=[], metavar="STEP", help="leave a step out")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true", help="only check that every mutant still fits its source")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    mutants = parse((HERE / "mutants.txt").read_text())
    for mutant in mutants:
        mutant[3][:] = [step for step in mutant[3] if step not in options.skip]
    unknown = set(options.names) - {mutant[0] for mutant in mutants}
    if unknown:
        sys.exit(f"no mutants {sorted(unknown)}; --list shows them")
    chosen = [mutant for mutant in mutants if not options.names or mutant[0] in options.names]
    if options.list:
        print("\n".join(f"{name:18} {why} ({file})" for name, why, file, *_ in chosen))
        return 0
    if options.check:
        stale = [(m[0], m[2]) for m in chosen if (ROOT / m[2]).read_text().count(m[4]) != 1]
        print("\n".join(f"{name}: its text is not once in {file}" for name, file in stale) or f"{len(chosen)} mutants fit their sources")
        return 1 if stale else 0
    workshop = Workshop(options.work.resolve(), options.jobs)
    for step in sorted({step for mutant in chosen for step in mutant[3]}):
        if how := workshop.notices(step):
            sys.exit(f"without a mutant, step {step} is red ({how}): {workshop.log}")
    bad = 0
    for mutant in chosen:
        start = time.monotonic()
        verdict = workshop.verdict(mutant)
        bad += verdict.isupper() or verdict.startswith(("STALE", "does not compile"))
        print(f"{mutant[0]:18} {verdict:18} {time.monotonic() - start:5.0f} s  {mutant[1]}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} mutants were noticed; log: {workshop.log}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

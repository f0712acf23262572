"""Shared helpers: run the command in a known environment, and count failed expectations."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

# Flushing a large last-level cache before each sample would take most of the tests' time. The tests
# only check that measuring works, so a flush of 8 MB is enough.
SMALL_FLUSH = {"LIGERDSL_COLD_MEGABYTES": "8"}

failures = 0


def expect(right, text):
    global failures
    if not right:
        failures += 1
        print("FAILED:", text)


def finish():
    """Prints the number of failures and exits with 1 if there is one."""
    print(f"{failures} failures")
    sys.exit(failures != 0)


class Command:
    """The command with its own cache folder and without LIGERDSL variables of the environment."""

    def __init__(self, path, cache):
        self.path = path
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("LIGERDSL_")}
        self.environment |= {"LIGERDSL_CACHE_DIR": str(cache), "LC_ALL": "C"} | SMALL_FLUSH

    def run(self, *arguments, stdin="", before=(), **environment):
        """Returns exit code, stdout and stderr.

        A variable that is None is unset. `before` holds the words of a program that starts the
        command.
        """
        variables = {name: value for name, value in (self.environment | environment).items()
                     if value is not None}
        done = subprocess.run([*before, self.path, *map(str, arguments)], capture_output=True,
                              text=True, input=stdin, env=variables)
        return done.returncode, done.stdout, done.stderr

    def json(self, *arguments, code=0, **environment):
        got, text, errors = self.run(*arguments, "--json", "-", **environment)
        expect(got == code,
               f"{arguments} {environment}: exit {got}, expected {code}\n{text}{errors}")
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            expect(False, f"{arguments}: no JSON in\n{text}{errors}")
            return {}


def default_signals():
    """Restores the default of SIGINT in a child: a shell's background jobs ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def trials(store):
    """Returns the trials in a store of `tune`."""
    return [json.loads(line) for line in store.read_text().splitlines()]


def main(tests):
    """Runs a file's function test_TEST; its arguments are COMMAND KERNELS.so FOLDER TEST.

    CMakeLists.txt registers each function as a test.
    """
    path, kernels, folder, name = (os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]),
                                   pathlib.Path(sys.argv[3]).resolve(), sys.argv[4])
    folder /= name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tests[f"test_{name}"](Command(path, folder / "cache"), kernels, folder)
    sys.exit(1 if failures else 0)


def entries_in(folder):
    return sorted(path for path in pathlib.Path(folder).glob("*")
                  if path.suffix in (".art", ".cubin"))

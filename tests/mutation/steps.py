"""Steps that may detect a mutant: targets to build, and a command for the build folder. A hang
counts as detected."""
import dataclasses
import os
import re
import signal
import subprocess

LIMIT = 1200  # time limit of a command, in seconds
UNKNOWN = "unknown"


@dataclasses.dataclass
class Step:
    targets: str
    command: str
    only: str  # argument that selects tests; {} is replaced by their names
    separator: str

    def command_of(self, tests):
        """Returns the command for these tests, or for all tests if none are given or one is
        unknown."""
        if not tests or UNKNOWN in tests:
            return self.command
        return f"{self.command} {self.only.format(self.separator.join(tests))}"


def gtest(targets, command):
    return Step(targets, command + " --gtest_fail_fast", "--gtest_filter='{}'", ":")


def ctest(targets, command):
    return Step(targets, f"ctest {command} --stop-on-failure --output-on-failure", "-R '^({})$'",
                "|")


def kernels(backend, targets="kernel_tests ligerdsl_compiler"):
    return gtest(targets, "LIGERDSL_TEST_COMBINATIONS=all "
                 f"tests/kernels/kernel_tests --backend={backend}")


# Cheapest first.
STEPS = {
    "passes": ctest("ligerdsl-opt", "-L passes"),
    "layout": ctest("layout_tests", "-L layout"),
    "fuzz": gtest("fuzz_tests", "tests/fuzz/fuzz_tests --gtest_filter=-Compile*"),
    "runtime": ctest("runtime_tests fake_cuda fake_cublaslt fake_compiler foreign_compiler "
                     "ligerdsl_compile_worker",
                     "-L runtime"),
    "abi": ctest("abi_tests abi_allocation_tests ligerdsl_compiler", "-L abi -E '^abi_recorded$'"),
    "compiler": gtest("compiler_tests", "tests/compiler/compiler_tests"),
    "kernels-interpreter": kernels("interpreter-nvptx", "kernel_tests"),
    "kernels-cpu": kernels("cpu"),
    "kernels-ptx": kernels("ptx"),
    "kernels-cluster": kernels("ptx-cluster2"),
}


def noticing_test(output):
    """Returns the last test in the output of a failed command that failed, or that ran when the
    program died.

    Returns UNKNOWN if the output names none.
    """
    failed = re.findall(r"^\[  FAILED  \] ([\w./]+)", output, re.M) or re.findall(
        r"^\[ RUN      \] ([\w./]+)", output, re.M)
    listed = re.findall(r"^\s*\d+ - (\S+) \(", output, re.M)  # ctest's summary
    return (listed or failed or [UNKNOWN])[-1]


def run(command, folder, log, limit=LIMIT):
    """Returns whether the command succeeds in time, and its output."""
    with log.open("a+") as out:
        out.write(f"\n$ {command}\n")
        out.flush()
        begin = out.tell()
        process = subprocess.Popen(command, shell=True, cwd=folder, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)  # also kills the shell's children
            process.wait()
        out.seek(begin)
        return code == 0, out.read() + ("timed out\n" if code is None else "")

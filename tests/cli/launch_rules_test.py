"""launch_rules_test.py COMMAND KERNELS.so FOLDER: a loaded kernel is compiled as its own launch rule says."""

import pathlib
import shutil
import sys

import command as shared
from command import Command, expect

path, kernels, folder = *sys.argv[1:3], pathlib.Path(sys.argv[3])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
ligerdsl = Command(path, folder / "cache")


def ptx_of(arguments):
    got, text, errors = ligerdsl.run("--load", kernels, "compile", *arguments.split(), "--emit", "ptx", "--target", "sm_90a")
    expect(got == 0, f"{arguments}: exit {got}\n{errors}")
    return text


def asks_for(arguments, *directives):
    text = ptx_of(arguments)
    missing = [directive for directive in directives if directive not in text]
    expect(not missing, f"{arguments}: missing {missing} in\n{text[:1500]}")


def refused(arguments, *words):
    got, text, errors = ligerdsl.run("--load", kernels, "compile", *arguments.split(), "--target", "sm_90a")
    missing = [word for word in words if word not in errors]
    expect(got == 2 and not missing, f"{arguments}: exit {got}; missing {missing} in\n{text}{errors}")


# The rule, and what is set beside it.
asks_for("twice", ".reqntid 256", ".minnctapersm 3", ".maxnreg 72")
asks_for("twice num_warps=2 max_registers=40", ".reqntid 64", ".minnctapersm 3", ".maxnreg 40")
asks_for("twice min_ctas_per_sm=1", ".reqntid 256", ".minnctapersm 1")

# A rule that looks at sizes must be given some.
refused("sized", "launch rule of sized depends on its arguments", "x=...")
asks_for("sized x=200000 y=x", ".reqntid 512")
asks_for("sized x=2000 y=x", ".reqntid 64")
asks_for("sized x=2000", ".reqntid 64")  # y changes nothing
refused("sized y=2000", "depends on its arguments", "x=...")
refused("sized x=20x30", "x: expected 1 dimensions, got 2")
refused("twice num_warp=2", "did you mean 'num_warps'?")
refused("twice num_warps=3", "num_warps", "a power of two")

# A store that may change what the loop reads next keeps it behind barriers, and from reading ahead; either promise lets it.
expect("bar.sync" in ptx_of("twice"), "stores are not kept in order")
expect(ptx_of("twice").count("ld.global") == 1, "a loop that may write what it reads is read ahead")
for promise in ("apart=true", "no_alias=1", "read_only=true"):
    ptx = ptx_of(f"twice {promise}")
    expect("bar.sync" not in ptx and ptx.count("ld.global") > 1, f"{promise} has no effect")

sys.exit(shared.failures != 0)

"""launch_rules_test.py COMMAND KERNELS.so FOLDER: a loaded kernel is compiled by its own launch
rule."""

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
    got, text, errors = ligerdsl.run("--load", kernels, "compile", *arguments.split(), "--emit",
                                     "ptx", "--target", "sm_90a")
    expect(got == 0, f"{arguments}: exit {got}\n{errors}")
    return text


def asks_for(arguments, *directives):
    text = ptx_of(arguments)
    missing = [directive for directive in directives if directive not in text]
    expect(not missing, f"{arguments}: missing {missing} in\n{text[:1500]}")


def refused(arguments, *words):
    got, text, errors = ligerdsl.run("--load", kernels, "compile", *arguments.split(), "--target",
                                     "sm_90a")
    missing = [word for word in words if word not in errors]
    expect(got == 2 and not missing,
           f"{arguments}: exit {got}; missing {missing} in\n{text}{errors}")


# `compile` applies the launch rule. Settings on the command line override it.
asks_for("twice", ".reqntid 256", ".minnctapersm 3", ".maxnreg 72")
asks_for("twice num_warps=2 max_registers=40", ".reqntid 64", ".minnctapersm 3", ".maxnreg 40")
asks_for("twice min_ctas_per_sm=1", ".reqntid 256", ".minnctapersm 1")

# If a launch rule reads sizes, `compile` needs the sizes of these arguments.
refused("sized", "launch rule of sized depends on its arguments", "x=...")
asks_for("sized x=200000 y=x", ".reqntid 512")
asks_for("sized x=2000 y=x", ".reqntid 64")
asks_for("sized x=2000", ".reqntid 64")  # the launch rule does not read y
refused("sized y=2000", "depends on its arguments", "x=...")
refused("sized x=20x30", "x: expected 1 dimensions, got 2")
refused("twice num_warp=2", "did you mean 'num_warps'?")
refused("twice num_warps=3", "num_warps", "a power of two")

# An invalid or ambiguous launch setting fails `compile` and `run` with one line that names the
# kernel.
for settings, *words in (
        ("warps=3", "its launch rule gives num_warps = 3, expected a power of two from 1 to 32"),
        ("ctas=32", "num_ctas = 32"), ("stages=-5", "num_stages = -5"), ("programs=-1", "-1"),
        ("fails=true", "the rule's own words"),
        ("asks_a_view=true", "argument 'y' is a view of rank 1"),
        ("clashes=true", "an argument has the name 'warps' of a meta-parameter")):
    refused(f"said y=4 {settings}", "kernel 'said'", *words)
    for target in ("compile --target cpu", "run"):
        command = ["--load", kernels, *target.split(), "said", "y=4", settings]
        got, text, errors = ligerdsl.run(*command)
        expect(got == 2 and "kernel 'said'" in errors and words[0] in errors
               and errors.count("\n") == 1,
               f"{command}: exit {got}\n{text}{errors}")

# A setting must not be given twice.
refused("said warps=4 warps=8", "warps: given twice; the second time as 'warps=8'")
refused("said num_warps=4 num_warps=8", "num_warps: given twice")
refused("said y=4 y=8", "y: given twice")
refused("said max_registers=23", "max_registers: expected 0 or an integer from 24 to 255, got '23'")
refused("said max_registers=256",
        "max_registers: expected 0 or an integer from 24 to 255, got '256'")
asks_for("said y=4 max_registers=24", ".maxnreg 24")
expect(".maxnreg" not in ptx_of("twice max_registers=0"), "0 is no cap")

# Without a promise, a store may change the next iteration's input: the loop needs barriers and
# cannot prefetch. Each promise alone removes both restrictions.
expect("bar.sync" in ptx_of("twice"), "stores are not kept in order")
expect(ptx_of("twice").count("ld.global") == 1, "a loop that may write what it reads is read ahead")
for promise in ("disjoint=true", "no_alias=1", "read_only=true"):
    ptx = ptx_of(f"twice {promise}")
    expect("bar.sync" not in ptx and ptx.count("ld.global") > 1, f"{promise} has no effect")

sys.exit(shared.failures != 0)

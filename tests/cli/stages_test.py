"""stages_test.py COMMAND KERNELS.so FOLDER: a run dumps the stages of its kernels and runs edited
stages."""

import json
import pathlib
import shutil
import struct
import sys

import command as shared
from command import Command, entries_in, expect

path, kernels, folder = *sys.argv[1:3], pathlib.Path(sys.argv[3])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
ligerdsl = Command(path, folder / "cache")
dumps, edited = folder / "dumps", folder / "edited"
ELEMENTS = 256
STAGES = ["01-program.txt", "02-tile.mlir", "03-loops.mlir", "04-llvm.ll", "05-kernel.s",
          "06-kernel.o", "07-resources.txt", "08-remarks.txt"]


def run(code, words=(), **environment):
    """Runs floor(x / step + 1/2) as int8; returns the computed values."""
    got, text, errors = ligerdsl.run(
        "--load", kernels,
        *f"run quantise out={ELEMENTS} x=out:0..50 step=1 --check --out-dir {folder}".split(),
        **environment)
    missing = [word for word in words if word not in text + errors]
    expect(got == code and not missing,
           f"{environment}: exit {got}, expected {code}; missing {missing} in\n{text}{errors}")
    return struct.unpack(f"<{ELEMENTS}b", (folder / "out.npy").read_bytes()[-ELEMENTS:])


def dump(to, **environment):
    run(0, ["right"], LIGERDSL_DUMP="all", LIGERDSL_DUMP_DIR=str(to), **environment)
    [one] = to.glob("ligerdsl_quantise*")
    expect(sorted(file.name for file in one.iterdir()) == STAGES, sorted(one.iterdir()))
    return one


def edit(change):
    """Puts a changed copy of the dumped tile IR where the command looks for it."""
    file = edited / kernel.name / "02-tile.mlir"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(change((kernel / "02-tile.mlir").read_text()))
    return file


kernel = dump(dumps)
right = run(0, ["right"])
override = {"LIGERDSL_OVERRIDE_DIR": str(edited)}


def every_stage_says_what_it_is():
    for name, words in (("01-program.txt", "quantise"), ("02-tile.mlir", "tile.kernel"),
                        ("03-loops.mlir", "scf.for"), ("04-llvm.ll", "define "),
                        ("05-kernel.s", "ligerdsl_quantise"), ("07-resources.txt", "bytes")):
        expect(words in (kernel / name).read_text(), f"{words} is not in {name}")
    expect((kernel / "06-kernel.o").read_bytes()[:4] == b"\x7fELF", "an object")


def wherever_compiles_run():
    for where in ("thread", "process"):
        again = dump(folder / where, LIGERDSL_COMPILE=where)
        expect(again.name == kernel.name, f"{again.name} is the variant {kernel.name}")
        for name in STAGES:
            expect((again / name).read_bytes() == (kernel / name).read_bytes(),
                   f"{name} of {where}")


def an_edited_constant_changes_the_result():
    entries = entries_in(folder / "cache")
    expect(len(entries) > 0, "the unedited kernel is in the cache")
    expect((kernel / "02-tile.mlir").read_text().count("5.000000e-01") == 1, "one constant to edit")
    file = edit(lambda text: text.replace("5.000000e-01", "5.500000e+00"))
    for where in ("thread", "process"):
        values = run(1, ["WRONG", f"{kernel.name} is made from \"{file}\""], LIGERDSL_COMPILE=where,
                     **override)
        expect(values == tuple(value + 5 for value in right), f"{values[:4]} is {right[:4]} and 5")
    expect(entries_in(folder / "cache") == entries, "nothing that was edited is cached")
    expect(run(0, ["right"]) == right, "without the edit")


def an_unedited_copy_changes_nothing():
    edit(lambda text: text)
    expect(run(0, ["right"], **override) == right, "the same values")
    again = dump(folder / "copied", **override)
    expect((again / "05-kernel.s").read_text() == (kernel / "05-kernel.s").read_text(),
           "the same code")


def a_bad_edit_is_an_error_of_its_line():
    file = edit(lambda text: text.replace("5.000000e-01", "5.000000e-01 +"))
    line = 1 + next(i for i, text in enumerate(file.read_text().split("\n"))
                    if "5.000000e-01 +" in text)
    run(4, [f"{file}:{line}:", "error: "], **override)
    edit(lambda text: text.replace("@quantise", "@other"))
    run(4, [f"{file}:", "error: expected the kernel @quantise", "got @other"], **override)
    edit(lambda text: text + "module {}\n")
    run(4, [f"{file}:", "error: expected one function"], **override)
    broken = file.parent / "06-kernel.o"
    file.unlink()
    broken.write_text("no object")
    run(4, [f'"{broken}" (edited)'], **override)
    broken.unlink()


def a_failed_compile_is_dumped_as_far_as_it_came():
    file = edit(lambda text: text.replace("5.000000e-01", "5.000000e-01 +"))
    run(4, LIGERDSL_DUMP="all", LIGERDSL_DUMP_DIR=str(folder / "failed"), **override)
    [one] = (folder / "failed").glob("ligerdsl_quantise*")
    expect([file.name for file in one.iterdir()] == ["01-program.txt"], list(one.iterdir()))
    file.unlink()


def distorted_times_are_not_kept():
    """`tune` and `table import` refuse to run if a variable distorts times. They write nothing."""
    table, store, trace = folder / "table.json", folder / "trials.jsonl", folder / "trace.json"
    table.write_text('{"ligerdsl_tuned_kernels": 1, "entries": {\n"": {}}}\n')
    for variable, why in (({"LIGERDSL_OVERRIDE_DIR": str(edited)}, "edited files replace stages"),
                          ({"LIGERDSL_VALIDATE": "1"}, "the library waits for every call"),
                          ({"LIGERDSL_TRACE": str(trace)}, "the library records every call")):
        [name] = variable
        for command in (f"tune softmax_forward n_cols=64 --store {store}",
                        f"table import {table} -o {folder / 'imported.json'}"):
            got, text, errors = ligerdsl.run(*command.split(), **variable)
            expect(got == 2 and f"{name} is set: {why}" in errors and "unset it" in errors,
                   f"{command} under {name}: exit {got}\n{text}{errors}")
        expect(
            not store.exists() and not (folder / "imported.json").exists() and not trace.exists(),
            "nothing began")


def distorted_times_say_so():
    bench = (
        "bench softmax_forward N=8 n_cols=64 --warm --budget-ms 1 --copy-bytes 4096 --json".split())
    plain, distorted = folder / "plain.json", folder / "distorted.json"
    set_here = {"LIGERDSL_VALIDATE": "1", "LIGERDSL_TRACE": str(folder / "bench.json")}
    got, text, errors = ligerdsl.run(*bench, distorted, **set_here)
    expect(got == 0 and all(f"bench: {name} is set: " in errors for name in set_here),
           f"exit {got}\n{text}{errors}")
    expect(json.loads(distorted.read_text())["distorted_by"] == list(set_here),
           distorted.read_text())
    got, text, errors = ligerdsl.run(*bench, plain, "--vs", distorted, "--tolerance", "1000")
    expect(got == 0 and ", under LIGERDSL_VALIDATE, under LIGERDSL_TRACE" in text
           and "is set" not in errors,
           f"exit {got}\n{text}{errors}")
    expect(json.loads(plain.read_text())["distorted_by"] == [], plain.read_text())


def a_later_stage_is_taken_alone():
    """If an object file is present too, even an invalid tile stage is ignored."""
    edit(lambda text: "no tile IR")
    (edited / kernel.name / "06-kernel.o").write_bytes((kernel / "06-kernel.o").read_bytes())
    expect(run(0, ["right", "ignored files: 02-tile.mlir"], **override) == right,
           "the values of the object")
    shutil.rmtree(edited / kernel.name)


every_stage_says_what_it_is()
wherever_compiles_run()
an_edited_constant_changes_the_result()
an_unedited_copy_changes_nothing()
a_bad_edit_is_an_error_of_its_line()
a_failed_compile_is_dumped_as_far_as_it_came()
a_later_stage_is_taken_alone()
distorted_times_are_not_kept()
distorted_times_say_so()
shared.finish()

"""Tests the ranges that a profiler and LIGERDSL_TRACE receive from a run on the CPU.

Usage: ranges_test.py COMMAND NVTX_TOOL.so KERNELS.so AUTHOR FOLDER
"""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys

import command as shared
from command import Command, expect

path, tool, kernels, author, folder = *sys.argv[1:5], pathlib.Path(sys.argv[5])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
ligerdsl = Command(path, folder / "cache")
RUN = "run softmax_forward N=6 n_cols=640".split()
KINDS = ["plan", "record", "compile", "load", "execute", "launch"]


def run(words=(), absent=(), **environment):
    got, text, errors = ligerdsl.run(*RUN, **({"LIGERDSL_CACHE": "off"} | environment))
    wrong = [word for word in words if word not in errors] + [
        f"not {word}" for word in absent if word in errors]
    expect(got == 0 and not wrong, f"{environment}: exit {got}, {wrong} in\n{text}{errors}")


def recorded_lines(name, **environment):
    """Returns the lines that a tool recorded."""
    record = folder / name
    run(NVTX_INJECTION64_PATH=tool, NVTX_TOOL_RECORD=str(record), **environment)
    return record.read_text().splitlines() if record.exists() else []


def nested(lines):
    """Returns (depth, category, payload, message) of every range; checks that ranges nest on each
    thread."""
    stacks, ranges = collections.defaultdict(list), []
    for line in lines:
        what, domain, thread, *rest = line.split(" ", 5)
        expect(domain == "ligerdsl", line)
        if what == "push":
            ranges.append((len(stacks[thread]), rest[0], rest[1], rest[2]))
            stacks[thread].append(line)
        else:
            expect(what == "pop" and stacks[thread], f"{line} without its push")
            stacks[thread].pop()
    expect(not any(stacks.values()), f"never popped: {dict(stacks)}")
    return ranges


def a_profiler_sees_ranges_in_our_domain():
    lines = recorded_lines("record")
    expect(lines[0] == "domain ligerdsl", lines[:1])
    expect(lines[1:7] == [f"category ligerdsl {i + 1} {kind}" for i, kind in enumerate(KINDS)],
           lines[1:7])
    ranges = nested(lines[7:])
    shape = [(depth, message.split()[0]) for depth, _, _, message in ranges]
    expect(shape == [(0, "plan"), (1, "record"), (1, "compile"), (1, "load"), (0, "execute"),
                     (1, "launch")],
           ranges)
    for depth, category, payload, message in ranges:
        expect(category == str(KINDS.index(message.split()[0]) + 1), message)
    messages = {message.split()[0]: (payload, message) for _, _, payload, message in ranges}
    expect(messages["plan"] == ("none", "plan softmax_forward n_cols=640 dtype=f32"),
           messages["plan"])
    expect(messages["execute"] == ("6", "execute softmax_forward n_cols=640 dtype=f32 rows=6"),
           messages["execute"])
    expect(messages["compile"][1].startswith("compile ligerdsl_softmax_forward"),
           messages["compile"])
    expect(messages["launch"][1].startswith("launch ligerdsl_softmax_forward")
           and int(messages["launch"][0]) > 0,
           messages["launch"])


def tools_that_do_not_listen():
    expect(recorded_lines("declined", NVTX_TOOL_DECLINES="1") == [],
           "a tool that declines records nothing")
    run(["NVTX_INJECTION64_PATH: no ranges are reported", "declines"], NVTX_INJECTION64_PATH=tool,
        NVTX_TOOL_DECLINES="1")
    run(["NVTX_INJECTION64_PATH: no ranges are reported", "/nowhere/tool.so"],
        NVTX_INJECTION64_PATH="/nowhere/tool.so")
    run(["has no function InitializeInjectionNvtx2"], NVTX_INJECTION64_PATH="libm.so.6")
    run(absent=["NVTX"])


def author_kernels_are_recorded_and_logged():
    """Covers kernels loaded with --load, and a program that records a kernel."""
    loaded = [path, "--load", kernels, *"run quantise out=8 x=out:0..50 step=1".split()]
    for name, command, kind, entry in (("loaded", loaded, ["record", "plan"], "ligerdsl_quantise"),
                                       ("author", [author], ["plan"], "ligerdsl_squared_relu")):
        cache = {"LIGERDSL_CACHE_DIR": str(folder / f"cache-{name}"), "LIGERDSL_LOG": "debug"}
        for log, inner in (([f"cache miss: {entry} for cpu", f"compiled {entry} for cpu"],
                            ["compile", "load"]),
                           ([f"cache hit on disk: {entry} for cpu"], ["load"])):
            record = folder / f"record-{name}-{len(inner)}"
            variables = ligerdsl.environment | cache | {"NVTX_INJECTION64_PATH": tool,
                                                        "NVTX_TOOL_RECORD": str(record)}
            done = subprocess.run(command, capture_output=True, text=True, env=variables)
            missing = [line for line in log if line not in done.stderr]
            expect(done.returncode == 0 and not missing,
                   f"{name}: exit {done.returncode}, no {missing} in\n{done.stdout}{done.stderr}")
            ranges = nested(record.read_text().splitlines()[7:])
            names = [f"{one} {entry.removeprefix('ligerdsl_')}" for one in kind] + [
                f"{one} {entry}" for one in [*inner, "launch"]]
            expect([message for *_, message in ranges] == names, f"{names}, got {ranges}")
            expect([depth for depth, *_ in ranges] == [0] * len(kind) + [1] * len(inner) + [0],
                   ranges)


def events(file):
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        expect(False, f"{file}: {error}")
        return []


def expect_nested(spans):
    """On each thread, two spans are nested or disjoint. The profiler's clock counts
    microseconds."""
    threads = collections.defaultdict(list)
    for event in spans:
        expect(event["ph"] == "X" and event["dur"] >= 0 and event["ts"] > 0, event)
        threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"],
                                                    event["name"]))
    for all_of_thread in threads.values():
        open_spans = []
        for begin, end, name in sorted(all_of_thread, key=lambda span: (span[0], -span[1])):
            while open_spans and open_spans[-1][1] <= begin + 2:
                open_spans.pop()
            expect(not open_spans or end <= open_spans[-1][1] + 3,
                   f"{name} ends after {open_spans[-1:]}")
            open_spans.append((begin, end, name))


def of(spans, category):
    return [event for event in spans if event["cat"] == category]


def inside(event, other):
    return (event["ts"] >= other["ts"] - 2
            and event["ts"] + event["dur"] <= other["ts"] + other["dur"] + 3)


def a_trace_shows_stages_and_passes():
    for where in ("thread", "process"):
        file = folder / f"{where}.json"
        run(LIGERDSL_TRACE=str(file), LIGERDSL_COMPILE=where)
        spans = events(file)
        expect_nested(spans)
        for kind in KINDS:
            expect(len(of(spans, kind)) == 1, f"{kind}: {of(spans, kind)}")
        [plan], [compile], [load] = of(spans, "plan"), of(spans, "compile"), of(spans, "load")
        expect(
            inside(compile, plan) and inside(load, plan) and inside(of(spans, "record")[0], plan),
            "a plan records, compiles and loads")
        passes = of(spans, "compiler")
        names = (
            {event["name"] for event in passes} | {event["args"].get("detail") for event in passes})
        for name in ("import", "codegen", "canonicalize", "cse", "InstCombinePass",
                     "X86 DAG->DAG Instruction Selection"):
            expect(any(name in str(one) for one in names),
                   f"no {name} among {sorted(map(str, names))}")
        expect(all(inside(event, compile) for event in passes), "passes run while it compiles")
        phases = [
            event for event in passes
            if not any(inside(event, other) and other["dur"] > event["dur"] for other in passes)]
        spent = sum(event["dur"] for event in phases)
        least = 0.2 if where == "thread" else 0  # a worker process must start first
        expect(least * compile["dur"] < spent <= 1.01 * compile["dur"],
               f"{spent} us in phases of a compile of {compile['dur']} us")
        expect(any(event["name"] == "link" and inside(event, load) for event in of(spans, "phase")),
               of(spans, "phase"))
        expect(of(spans, "execute")[0]["args"] == {"payload": 6}, of(spans, "execute"))


def a_compile_that_runs_nothing_is_traced():
    file = folder / "compile.json"
    got, text, errors = ligerdsl.run(
        *"compile softmax_forward n_cols=640 --target sm_90a --emit ptx".split(),
        LIGERDSL_TRACE=str(file))
    names = {event["name"] for event in events(file)}
    expect(got == 0 and {"tile-assign-layouts", "tgpu-insert-barriers", "ptx"} <= names,
           f"exit {got}, {names}\n{errors}")


def tracing_does_not_change_code():
    """Tracing does not change the code, and the cache never holds timings."""
    stage = lambda **environment: ligerdsl.run(
        *"compile softmax_forward n_cols=640 --emit asm".split(), **environment)[1]
    expect(stage() == stage(LIGERDSL_TRACE=str(folder / "same.json")), "the same code")
    run(LIGERDSL_TRACE=str(folder / "kept.json"), LIGERDSL_CACHE="rw")
    run(LIGERDSL_TRACE=str(folder / "found.json"), LIGERDSL_CACHE="rw")
    found = events(folder / "found.json")
    expect(
        not of(found, "compile") and not of(found, "compiler") and len(of(found, "execute")) == 1,
        found)


def processes_share_a_file():
    file = folder / "shared.json"
    variables = ligerdsl.environment | {"LIGERDSL_TRACE": str(file), "LIGERDSL_CACHE": "off"}
    processes = [
        subprocess.Popen([path, *RUN], env=variables, stdout=subprocess.DEVNULL) for _ in range(3)]
    expect(all(process.wait() == 0 for process in processes), "they run")
    spans = events(file)
    expect_nested(spans)
    expect(len({event["pid"] for event in of(spans, "execute")}) == 3
           and len(of(spans, "execute")) == 3,
           "each tells its own")


def files_that_cannot_be_written():
    foreign = folder / "foreign"
    foreign.write_text("mine\n")
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    for file, why in ((folder, "Is a directory"), (pipe, "not a regular file"),
                      ("/dev/full", "not a regular file"), ("/dev/null", "not a regular file"),
                      (foreign, "it does not end like a trace"),
                      (folder / "none" / "x.json", "No such file or directory")):
        run(["LIGERDSL_TRACE", f'"{file}"' if file != "/dev/null" else "/dev/null", why],
            LIGERDSL_TRACE=str(file))
    expect(foreign.read_text() == "mine\n", "what is not ours stays")
    got, text, errors = ligerdsl.run(*RUN, LIGERDSL_TRACE=str(foreign))
    expect(errors.count("LIGERDSL_TRACE") == 1, f"said once:\n{errors}")


a_profiler_sees_ranges_in_our_domain()
author_kernels_are_recorded_and_logged()
tools_that_do_not_listen()
a_trace_shows_stages_and_passes()
a_compile_that_runs_nothing_is_traced()
tracing_does_not_change_code()
processes_share_a_file()
files_that_cannot_be_written()
shared.finish()

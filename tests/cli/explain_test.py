"""Tests that `ligerdsl explain` agrees with `compile` and names the source of each choice.

Usage: explain_test.py COMMAND KERNELS.so FOLDER
"""

import os
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from command import Command, expect
import command

FAKE_PTXAS = """#!/bin/sh
echo "ptxas info: 64 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads"
echo "ptxas info: Used ${FAKE_REGISTERS:-64} registers"
"""


def fields_of(configuration, key="value"):
    return {field["name"]: field[key] for field in configuration["fields"]}


def emitted(ligerdsl, *arguments):
    configs = ligerdsl.json("compile", *arguments, "--emit", "config")
    return [{field["name"]: field["value"] for field in one["config"]} for one in configs]


def test_configuration(ligerdsl):
    for arguments in (["softmax_forward", "H=512", "N=64"], ["layer_norm_backward", "H=4096"]):
        for target in ([], ["--target", "sm_90a"]):
            said = ligerdsl.json("explain", *arguments, *target, "--no-run")
            expect([fields_of(one) for one in said["configuration"]] == emitted(
                       ligerdsl, *arguments, *target),
                   f"{arguments} {target}")
            for one in said["configuration"]:
                expect(one["from"] == "heuristic"
                       and set(fields_of(one, "from").values()) == {"heuristic"},
                       f"{one}")
                expect(fields_of(one) == fields_of(one, "heuristic"), f"{one}")
    given = ["rms_norm_forward", "dtype=bf16", "H=8192", "config.num_warps=8", "--target", "sm_90a"]
    said = ligerdsl.json("explain", *given)["configuration"][0]
    expect(fields_of(said) == emitted(ligerdsl, *given)[0], f"{said}")
    expect(fields_of(said, "from")["num_warps"] == "setting"
           and fields_of(said, "from")["keep"] == "heuristic",
           f"{said}")
    expect(fields_of(said, "heuristic")["num_warps"] == "16"
           and fields_of(said, "changes")["num_warps"] == "row",
           f"{said}")
    expect(said["fields"][2]["choices"] == ["1", "2", "4", "8", "16", "32"], f"{said['fields'][2]}")
    code, out, errors = ligerdsl.run("explain", "target_counts", "--no-run")
    expect(code == 0 and "there is no schedule to choose" in out, out + errors)


def write_table(path, key, config):
    path.write_text('{"ligerdsl_tuned_kernels": 1, "entries": {\n'
                    + f'"{key}": {{"config": "{config}"}},\n' + '"": {}}}\n')


def test_table(ligerdsl, folder):
    table = folder / "table.json"
    for target in ([], ["--target", "sm_90a"]):
        arguments = ["explain", "softmax_forward", "H=512", "N=64", "--no-run", *target]
        before = ligerdsl.json(*arguments)["configuration"][0]
        expect("no table" in before["why"] and before["table"] is None, f"{before}")
        field = next(f for f in before["fields"] if f["name"] == "num_warps")
        other = next(choice for choice in ("4", "2") if choice != field["value"])
        write_table(table, before["key"], f"num_warps={other}")
        with_table = {"LIGERDSL_TABLE": str(table)}
        after = ligerdsl.json(*arguments, **with_table)["configuration"][0]
        expect(after["from"] == "table" and after["table"] == str(table), f"{after}")
        expect(fields_of(after) == {**fields_of(before), "num_warps": other}, f"{after}")
        expect(fields_of(after, "from")["num_warps"] == "table"
               and fields_of(after, "heuristic") == fields_of(before),
               f"{after}")
        code, out, errors = ligerdsl.run(*arguments, **with_table)
        expect(code == 0 and "configuration of softmax_forward: the table's" in out
               and str(table) in out,
               out + errors)
        off = ligerdsl.json(*arguments, **with_table, LIGERDSL_TUNING="off")["configuration"][0]
        expect(fields_of(off) == fields_of(before) and "LIGERDSL_TUNING=off" in off["why"],
               f"{off}")
        write_table(table, before["key"], "rows=99999")
        passed = ligerdsl.json(*arguments, **with_table)["configuration"][0]
        expect(fields_of(passed) == fields_of(before) and "99999" in passed["passed_over"][0],
               f"{passed}")
        write_table(table, before["key"].replace("softmax", "other"), f"num_warps={other}")
        missed = ligerdsl.json(*arguments, **with_table)["configuration"][0]
        expect(missed["why"] == "no table has an entry for this kernel"
               and not missed["passed_over"], f"{missed}")


def test_resources(ligerdsl, folder):
    """Resources for an absent GPU: the report of ptxas, and the resource that limits occupancy."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "ptxas").write_text(FAKE_PTXAS)
    (tools / "ptxas").chmod(0o755)
    here = {"PATH": f"{tools}:{os.environ['PATH']}"}
    arguments = ["rms_norm_forward", "dtype=bf16", "H=8192", "config.num_warps=8",
                 "config.min_ctas_per_sm=0", "--target", "sm_90a"]
    # An SM has 64 Ki registers, 2,048 threads and 32 CTAs. Each of its four partitions holds 8
    # warps of 64 registers per thread.
    for registers, ctas, limiter in (("64", 4, "registers"), ("16", 8, "threads"),
                                     ("255", 1, "registers")):
        environment = {**here, "FAKE_REGISTERS": registers}
        kernel = ligerdsl.json("explain", *arguments, **environment)["kernels"][0]
        report = ligerdsl.run("compile", *arguments, "--emit", "resources", **environment)[1]
        expect(f"Used {kernel['resources']['registers']} registers" in report
               and kernel["resources"]["registers"] == int(registers),
               report)
        expect(kernel["resources"]["spill_bytes"] == 40 and kernel["resources"]["threads"] == 256,
               f"{kernel}")
        occupancy = kernel["occupancy"]
        expect((occupancy["ctas_per_sm"], occupancy["limited_by"]) == (ctas, limiter),
               f"{registers}: {occupancy}")
        expect(min(occupancy["limits"].values()) == ctas
               and occupancy["percent"] == ctas * 256 / 20.48,
               f"{occupancy}")
        remarks = ligerdsl.json("compile", *arguments, "--emit", "remarks",
                                **environment)[0]["remarks"]
        expect(kernel["remarks"] == remarks
               and any("spills 40 bytes" in remark["text"] for remark in remarks),
               f"{kernel['remarks']}")
    kept = ligerdsl.json("explain", "rms_norm_forward", "dtype=bf16", "H=32768",
                         "config.keep=shared", "config.num_warps=8", "config.num_ctas=1",
                         "config.min_ctas_per_sm=0", "--target", "sm_90a",
                         **{**here, "FAKE_REGISTERS": "16"})["kernels"][0]
    expect(kept["occupancy"]["limited_by"] == "shared memory", f"{kept}")
    expect(kept["occupancy"]["ctas_per_sm"]
           == 228 * 1024 // (kept["resources"]["shared_bytes"] + 1024),
           f"{kept}")
    code, out, errors = ligerdsl.run("explain", *arguments, **here)
    for words in ("occupancy: 4 CTAs per SM, 1024 of 2048 threads (50 %), limited by registers",
                  "64 registers per thread, 40 B spilled"):
        expect(code == 0 and words in out, f"no '{words}' in {out}{errors}")
    without = ligerdsl.json("explain", *arguments, PATH="/nowhere")
    expect("occupancy" not in without["kernels"][0]
           and "registers" not in without["kernels"][0]["resources"],
           f"{without}")
    expect(without["kernels"][0]["resources"]["threads"] == 256
           and any("ptxas" in what for what in without["left_out"]),
           f"{without}")


def head(ligerdsl, *settings, op=""):
    said = ligerdsl.json("explain", "fused_linear_cross_entropy" + op, "dtype=bf16", *settings,
                         "--target", "sm_90a")
    return said["call"]["facts"], said["call"]["workspace_bytes"]


def test_call(ligerdsl):
    """Facts of a call: chunks, logits and d_weight of the lm_head, depending on the workspace
    limit."""
    size = ["H=512", "V=8192"]
    facts, default = head(ligerdsl, *size, "N=1024", "products=kernels", "d_weight_dtype=f32")
    expect(facts["chunks"] == "one, of 1024 rows" and facts["d_weight"] == "one matmul"
           and "6.00 N H V flop" in facts["products"],
           f"{facts}")
    expect("library's own kernels" in facts["products"]
           and "their exponentials in bf16, 1024 x 8192 of them" in facts["logits"],
           f"{facts}")
    expect(default > 1024 * 8192 * 2, f"{default}")
    # rows of bf16 exponentials (V columns) that fit in the memory of d_weight [V, H]
    for dtype, rows in (("bf16", 512), ("f32", 1024)):
        facts, small = head(ligerdsl, *size, f"N={rows}", f"d_weight_dtype={dtype}",
                            "max_workspace_bytes=4000000")
        expect(facts["chunks"] == f"one, of {rows} rows" and "6.00 N H V flop" in facts["products"],
               f"{facts}")
        expect("in d_weight's memory" in facts["logits"]
               and "from the last to the first" in facts["d_weight"],
               f"{facts}")
        expect("again" not in facts["d_weight"] and small <= 4000000, f"{facts} {small}")
    facts, _ = head(ligerdsl, *size, "N=2048", "d_weight_dtype=bf16", "max_workspace_bytes=4000000")
    expect(
        "1536 rows computed again" in facts["d_weight"] and "7.50 N H V flop" in facts["products"],
        f"{facts}")
    facts, small = head(ligerdsl, *size, "N=4096", "d_weight_dtype=f32",
                        "max_workspace_bytes=16000000")
    expect(facts["chunks"].startswith("one of 1024 rows, then ")
           and "6.00 N H V flop" in facts["products"] and small <= 16000000,
           f"{facts} {small}")
    expect("most of the first chunk in d_weight's memory" in facts["logits"]
           and "other chunks are added" in facts["d_weight"],
           f"{facts}")
    facts, _ = head(ligerdsl, *size, "N=2048", "d_weight_dtype=bf16", "products=library",
                    "max_workspace_bytes=60000000")
    expect("stored in bf16" in facts["logits"] and "are computed again" in facts["d_weight"]
           and "8.00 N H V flop" in facts["products"],
           f"{facts}")
    facts, _ = head(ligerdsl, *size, "N=2048", "d_weight_dtype=0", "with_d_x=0", "products=kernels")
    expect(facts["ignored rows"] == "skipped in tiles of 128 rows without a counted row",
           f"{facts}")
    expect(facts["logits"].startswith("not stored, nor") and "2.00 N H V flop" in facts["products"]
           and "d_weight" not in facts,
           f"{facts}")
    facts, _ = head(ligerdsl, *size, "N=2048", "with_d_x=0", "d_weight_dtype=bf16",
                    "max_workspace_bytes=60000000", "products=library", op="_backward")
    expect("none" in facts["chunks"] and facts["products"].endswith("4.00 N H V flop")
           and " once" in facts["d_weight"],
           f"{facts}")
    # With AUTO, a call that writes an lse and the call that reads it must use the same matmul
    # library. The choice therefore ignores the other outputs.
    for limit in ([], ["max_workspace_bytes=60000000"]):
        facts, _ = head(ligerdsl, *size, "N=2048", "with_d_x=0", "d_weight_dtype=0", *limit)
        expect("library's own kernels" in facts["products"], f"{facts}")
        for settings, op in ((["with_d_x=0", "d_weight_dtype=0", "with_lse=1"], ""),
                             (["d_weight_dtype=bf16", "with_lse=1"], ""),
                             (["d_weight_dtype=bf16"], "_backward")):
            facts, _ = head(ligerdsl, *size, "N=2048", *settings, *limit, op=op)
            expect(facts["products"].startswith("by a matrix library"),
                   f"{settings} {limit} {facts}")
    # cuBLASLt is slow if V or H is not a multiple of 8. Our kernels use TMA for any V. If H is no
    # multiple of 8, they read aligned copies of x and weight.
    for op, settings in (("", []), ("", ["with_lse=1"]), ("_backward", [])):
        for hidden in ("H=512", "H=514"):
            facts, _ = head(ligerdsl, hidden, "V=8193", "N=1024", "d_weight_dtype=bf16", *settings,
                            op=op)
            expect("by the library's own kernels" in facts["products"],
                   f"{op} {hidden} {settings} {facts}")
    facts = ligerdsl.json("explain", "fused_linear_jsd", "dtype=bf16", "N=512", "H=512", "T=1024",
                          "V=4097", "with_d_x=1", "--target", "sm_90a")["call"]["facts"]
    expect("by the library's own kernels" in facts["products"], f"{facts}")
    facts = ligerdsl.json("explain", "fused_linear_jsd", "dtype=bf16", "N=512", "H=512", "T=1024",
                          "V=4096", "with_d_x=1", "--target", "sm_90a")["call"]["facts"]
    expect("ignored rows" not in facts, f"{facts}")
    expect("stored in f32, two times 512 x 4096" in facts["logits"]
           and "N H V flop" in facts["products"],
           f"{facts}")
    few = ligerdsl.json("explain", "matmul_nt", "dtype=bf16", "M=16", "N=4096", "K=4096",
                        "--target", "sm_90a")["call"]["facts"]
    many = ligerdsl.json("explain", "matmul_nt", "dtype=bf16", "M=4096", "N=4096", "K=4096",
                         "--target", "sm_90a")["call"]["facts"]
    expect(few["schedule"] == "for up to 64 rows"
           and many["schedule"] == "for any number of rows",
           f"{few} {many}")
    # M = 1025 is one row more than eight tiles of 128 rows. The schedule takes tiles of less than
    # 256 columns, in a single launch.
    middle = ligerdsl.json("explain", "matmul_nt", "dtype=bf16", "M=1025", "N=4096", "K=4096",
                           "--target", "sm_90a")["call"]
    expect(middle["facts"]["schedule"] == "for tiles of 128 x 160"
           and [row["kernel"] for row in middle["launches"]] == ["matmul_bf16"],
           f"{middle}")
    # Two launches compute exponentials: one for the first block of a chunk, one for its other
    # blocks.
    launches = {row.get("kernel"): row for row in ligerdsl.json(
        "explain", "fused_linear_cross_entropy", "dtype=bf16", *size, "N=512",
        "d_weight_dtype=bf16", "max_workspace_bytes=4000000", "--target",
        "sm_90a")["call"]["launches"]}
    expect(launches["linear_exponentials_bf16"]["launches"] == 2
           and launches["linear_exponentials_bf16"]["variant"] == "aligned",
           f"{launches}")
    odd = ligerdsl.json("explain", "matmul_nt", "dtype=bf16", "M=4001", "N=4099", "K=4093",
                        "--target", "sm_90a")
    expect([(row["kernel"], row["variant"]) for row in odd["call"]["launches"]]
           == [("aligned_copy_a_bf16", "generic"), ("aligned_copy_b_bf16", "generic"),
               ("matmul_bf16", "operands")],
           f"{odd['call']}")
    expect(odd["call"]["facts"]["schedule"] == "for operands with unaligned rows",
           f"{odd['call']}")
    expect(len(odd["kernels"]) == 3 and all(kernel["remarks"] for kernel in odd["kernels"]),
           "explain shows each kernel that runs and why it is slower")
    code, out, errors = ligerdsl.run("explain", "matmul_nt", "dtype=bf16", "M=4001", "N=4099",
                                     "K=4093", "--target", "sm_90a")
    expect(code == 0 and "1 launch of matmul_bf16, operands variant" in out, out + errors)
    code, out, errors = ligerdsl.run("explain", "fused_linear_cross_entropy", "dtype=f32", *size,
                                     "N=64", "d_weight_dtype=f32", "--target", "cpu")
    expect(code == 0 and "workspace of this call:" in out and "chunks: one, of 64 rows" in out,
           out + errors)


def test_time(ligerdsl):
    said = ligerdsl.json("explain", "softmax_forward", "H=512", "N=64")
    bytes_moved = ligerdsl.json("bench", "softmax_forward", "H=512", "N=64",
                                "--list")["cases"][0]["bytes"]
    time = said["time"]
    expect(said["bytes"] == bytes_moved and not said["left_out"] and time["distorted_by"] == [],
           f"{said}")
    expect(abs(time["floor_ms"] * time["copy_gb_per_s"] * 1e6 / bytes_moved - 1) < 1e-6, f"{time}")
    expect(abs(time["median_ms"] / time["floor_ms"] / time["times_the_floor"] - 1) < 1e-6
           and time["median_ms"] > 0,
           f"{time}")
    for arguments in (["--no-run"], ["--target", "cpu"], ["--target", "sm_90a"]):
        said = ligerdsl.json("explain", "softmax_forward", "H=512", "N=64", *arguments)
        expect("time" not in said and said["bytes"] == bytes_moved, f"{said}")
        expect(any(what.startswith("floor and measured time") for what in said["left_out"]),
               f"{said['left_out']}")


def test_prediction(ligerdsl, kernels):
    """Predicted times for an absent GPU: of a call's launches and of a loaded kernel."""
    gpu = ["--target", "sm_90a"]
    said = ligerdsl.json("explain", "rms_norm_backward", "dtype=bf16", "N=16384", "H=8192", *gpu)
    launches, predicted = said["call"]["launches"], said["predicted"]
    expect(len(launches) == 2 and all(row["predicted_us"] > 0 for row in launches), f"{launches}")
    expect(launches[0]["bound"] == "memory" and predicted["iterations_known"]
           and predicted["rates"] == "H200",
           f"{said['call']} {predicted}")
    expect(sum(row["predicted_us"] for row in launches) < predicted["us"] < 250, f"{predicted}")
    code, out, errors = ligerdsl.run("explain", "rms_norm_backward", "dtype=bf16", "N=16384",
                                     "H=8192", *gpu)
    expect(code == 0 and "bound by memory" in out and "from the rates of an H200" in out,
           out + errors)
    small = ligerdsl.json("explain", "rms_norm_backward", "dtype=bf16", "N=1024", "H=8192", *gpu)
    expect(small["predicted"]["us"] < predicted["us"] / 4, f"{small['predicted']}")
    # The number of tiles depends on the group offsets, which `explain` does not know.
    grouped = ["explain", "grouped_matmul_nt", "dtype=bf16", "E=8", "M=4096", "N=512", "K=512"]
    expect(not ligerdsl.json(*grouped, *gpu)["predicted"]["iterations_known"], "data decides")
    code, out, errors = ligerdsl.run(*grouped, *gpu)
    expect(code == 0 and "predicted: at least " in out, out + errors)
    for target, words in ((["--target", "sm_80"], "only H100 and H200"), (["--no-run"], "")):
        other = ligerdsl.json("explain", "softmax_forward", "H=512", "N=64", *target)
        expect("predicted" not in other, f"{other}")
        expect(not words or any(words in what for what in other["left_out"]), f"{other}")
    sizes = ["y=5000000", "x=5000000"]
    loaded = ligerdsl.json("--load", kernels, "explain", "faulty", "block=1024", *sizes, *gpu)
    expect(loaded["bytes"] / 4450e3 < loaded["predicted"]["us"] < 100, f"{loaded}")
    without = ligerdsl.json("--load", kernels, "explain", "faulty", *gpu)
    expect("predicted" not in without, "sizes are missing")


def test_interrupt(ligerdsl, kernels):
    """Ctrl-C during a measurement leaves out the times; a second one ends a kernel that hangs."""
    process = subprocess.Popen([ligerdsl.path, "explain", "softmax_forward", "H=16384", "N=16384"],
                               env=ligerdsl.environment | {"LIGERDSL_LOG": "debug"},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # waits for the line about the compile; the measurement follows it
    while "softmax" not in (line := process.stderr.readline()) and line:
        pass
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    expect(process.returncode == -signal.SIGINT, f"ended with {process.returncode}")
    expect(
        "configuration of softmax_forward" in out and "floor and measured time: interrupted" in out,
        out + errors)

    process = subprocess.Popen(
        [ligerdsl.path, "--load", kernels, "explain", "faulty", "fault=endless", "y=64", "x=64"],
        env=ligerdsl.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(3)
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    process.communicate(timeout=60)
    expect(process.returncode == -signal.SIGTERM, f"ended with {process.returncode}")


def test_loaded(ligerdsl, kernels):
    sizes = ["y=5000", "x=5000"]
    said = ligerdsl.json("--load", kernels, "explain", "faulty", "block=1024", *sizes)
    fields = {field["name"]: (field["value"], field["from"])
              for field in said["configuration"][0]["fields"]}
    expect(fields == {"scale": ("3", "default"), "fault": ("none", "default"),
                      "block": ("1024", "setting")},
           f"{fields}")
    expect(said["bytes"] == 2 * 4 * 5000 and said["time"]["median_ms"] > 0, f"{said}")
    said = ligerdsl.json("--load", kernels, "explain", "faulty", "--target", "sm_90a")
    expect(said["kernels"][0]["resources"]["threads"] == 64, f"{said['kernels']}")
    expect("bytes" not in said
           and any(what == "bytes: faulty: 2 arguments are missing" for what in said["left_out"]),
           f"{said['left_out']}")


def test_loaded_table(ligerdsl, kernels, folder):
    """Every command builds an author's kernel like a program that calls ligerdsl::tuned."""
    table = folder / "loaded.json"
    for target in ([], ["--target", "sm_90a"]):
        arguments = ["--threads", "1", "--load", kernels, "explain", "lazy", "x=5000", "y=x",
                     *(target or ["--no-run"])]
        before = ligerdsl.json(*arguments)["configuration"][0]
        expect(before["from"] == "default" and "no table" in before["why"], f"{before}")
        expect(before["key"].startswith("lazy/1 x=5000 y=x scale=0.1 @ "), before["key"])
        write_table(table, before["key"], "rounds=100")
        with_table = {"LIGERDSL_TABLE": str(table)}

        def said(*more, **environment):
            return ligerdsl.json(*arguments, *more, **with_table, **environment)["configuration"][0]

        after = said()
        expect(after["from"] == "table" and after["table"] == str(table)
               and "has an entry" in after["why"],
               f"{after}")
        expect(fields_of(after)["rounds"] == "100", f"{after}")
        expect(fields_of(after, "from") == {"scale": "default", "rounds": "table"}
               and fields_of(after, "default")["rounds"] == "1000",
               f"{after}")
        expect(fields_of(said("scale=0.10"))["rounds"] == "100", "0.10 is 0.1")
        given = said("rounds=1")
        expect(fields_of(given)["rounds"] == "1" and fields_of(given, "from")["rounds"] == "setting"
               and given["from"] == "table",
               f"{given}")
        for more, environment, why in [(["scale=0.2"], {}, "no table has an entry"),
                                       ([], {"LIGERDSL_TUNING": "off"}, "LIGERDSL_TUNING=off"),
                                       ([], {"LIGERDSL_TUNING": "same"}, "LIGERDSL_TUNING=same")]:
            other = said(*more, **environment)
            expect(other["from"] == "default" and fields_of(other)["rounds"] == "1000"
                   and why in other["why"],
                   f"{more} {environment}: {other}")
        code, out, errors = ligerdsl.run(*arguments, **with_table)
        expect(code == 0
               and f"configuration of lazy: the table's, because the table \"{table}\"" in out,
               out + errors)
        # `compile` applies the same table entry as `explain`.
        compiled = [ligerdsl.run("--threads", "1", "--load", kernels, "compile", "lazy", "x=5000",
                                 "y=x", *more, "--emit", "program", *target, **environment)[1]
                    for more, environment in (([], with_table), (["rounds=100"], {}), ([], {}))]
        expect(compiled[0] == compiled[1] != compiled[2], "compile takes the entry")
        for config, words in [("rounds=7", "expected one of 1, 100, 1000"),
                              ("scale=3", "no choice of its schedule"), ("round=1", "no choice"),
                              ("rounds", "expected")]:
            write_table(table, before["key"], config)
            passed = said()
            expect(passed["from"] == "default" and fields_of(passed)["rounds"] == "1000"
                   and words in passed["passed_over"][0],
                   f"{config}: {passed}")
            code, out, errors = ligerdsl.run("--threads", "1", "--load", kernels, "compile", "lazy",
                                             "x=5000", "y=x", "--emit", "program", *target,
                                             **with_table)
            expect(code == 2 and "ligerdsl::tuned rejects" in errors and words in errors,
                   f"{config}: exit {code}: {errors}")
    write_table(table,
                ligerdsl.json("--threads", "1", "--load", kernels, "explain", "lazy", "x=2000",
                              "y=x", "--no-run")["configuration"][0]["key"],
                "rounds=1")
    for arguments in (["run", "lazy", "x=2000", "y=x", "--check"],
                      ["bench", "lazy", "x=2000", "y=x"], ["explain", "lazy", "x=2000", "y=x"]):
        code, out, errors = ligerdsl.run("--threads", "1", "--load", kernels, *arguments,
                                         LIGERDSL_TABLE=str(table))
        expect(code == 0, f"{arguments}: {out}{errors}")
    slow, fast = (ligerdsl.json("--threads", "1", "--load", kernels, "explain", "lazy", "x=2000",
                                "y=x", **environment)["time"]["median_ms"]
                  for environment in ({}, {"LIGERDSL_TABLE": str(table)}))
    expect(fast < 0.8 * slow, f"the table's entry takes {fast} ms, the default {slow}")


def test_bad_requests(ligerdsl, kernels):
    for arguments, code, words in [
            (["explain", "softmx_forward"], 2, ["did you mean", "softmax_forward"]),
            (["explain", "softmax_forward", "Q=3"], 2, ["no setting 'Q'"]),
            (["explain", "softmax_forward", "config.num_warps=3"], 2,
             ["config.num_warps: expected one of"]),
            (["explain", "softmax_forward", "--target", "sm_90b"], 2,
             ["unknown target 'sm_90b'", "did you mean"]),
            (["--load", kernels, "explain", "faulty"], 2, ["y"]),
            (["--load", kernels, "explain", "faulty", "blok=64", "--target", "sm_90a"], 2,
             ["no setting 'blok'", "block"]),
            (["explain"], 2, ["kernel"]),
    ]:
        got, out, errors = ligerdsl.run(*arguments)
        expect(got == code and not out, f"{arguments}: exit {got}\n{out}{errors}")
        for word in words:
            expect(word in errors, f"{arguments}: no '{word}' in {errors}")
    code, out, errors = ligerdsl.run("--device", "cuda:0", "explain", "softmax_forward",
                                     LIGERDSL_LIBCUDA="/nowhere.so")
    expect(code == 3, f"no device: exit {code}\n{errors}")


def test_shipped_tables(ligerdsl):
    """Each entry names a problem whose kernel still accepts and uses the entry."""
    for path in (pathlib.Path(__file__).parents[2] / "kernels/tuned").glob("*.json"):
        entries = json.loads(path.read_text())["entries"]
        expect(len(entries) > 1, f"{path} is empty")
        for key, entry in entries.items():
            if not key:
                continue
            arguments = ["explain", entry["operation"], *entry["problems"][0].split(), "--target",
                         key.split(" @ ")[1].split("/")[0], "--no-run"]
            configured = ligerdsl.json(*arguments)["configuration"][0]
            fields = " ".join(f"{field['name']}={field['value']}" for field in configured["fields"])
            expect(configured["from"] == "table" and not configured["passed_over"]
                   and fields == entry["config"],
                   f"{path}: {key}: {configured['why']} {configured['passed_over']} {fields}")


def main():
    path, kernels, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ligerdsl = Command(path, folder / "cache")
    test_configuration(ligerdsl)
    test_table(ligerdsl, folder)
    test_resources(ligerdsl, folder)
    test_call(ligerdsl)
    test_time(ligerdsl)
    test_prediction(ligerdsl, kernels)
    test_interrupt(ligerdsl, kernels)
    test_loaded(ligerdsl, kernels)
    test_loaded_table(ligerdsl, kernels, folder)
    test_shipped_tables(ligerdsl)
    test_bad_requests(ligerdsl, kernels)
    sys.exit(1 if command.failures else 0)


if __name__ == "__main__":
    main()

"""Tests `ligerdsl cache`: plans and authors' kernels find what `cache warm` compiled.

Usage: cache_test.py COMMAND NO_JIT FAKE_CUDA FAKE_CUBLASLT AUTHOR AUTHOR_KERNELS FOLDER
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import command as shared
from command import Command, entries_in, expect

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib/codegen"))
from ops import OPS  # noqa: E402
from table import LOSSES  # noqa: E402

path, no_jit, fake_cuda, fake_cublaslt, author, author_kernels = sys.argv[1:7]
folder = pathlib.Path(sys.argv[7])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
cache = folder / "cache"
ligerdsl = Command(path, cache)

# Small sizes for attention. Its compiled code serves any number of queries and keys.
FEW_TOKENS = {
    "attention_forward": ["B=1", "S=2", "T=2"], "attention_backward": ["B=1", "S=2", "T=2"],
    "attention_varlen_forward": ["S=2", "T=2", "U=2"],
    "attention_varlen_backward": ["S=2", "T=2", "U=2"]
}


def two_rows(op):
    """Returns settings for two rows: the first tensor's sizes that no descriptor field holds."""
    held = {field.symbol for field in op.fields if field.role == "dim"}
    letters = [op.row_letter, *(spec.rstrip("*") for spec in op.tensors[0].shape.split())]
    return FEW_TOKENS.get(op.name) or [
        f"{letter}=2" for letter in dict.fromkeys(letters)
        if letter.isalpha() and letter not in held and letter not in LOSSES
    ]


def no_jit_process(device, **environment):
    variables = ligerdsl.environment | {"LIGERDSL_LOG": "debug"} | environment
    done = subprocess.run([no_jit, device], capture_output=True, text=True, env=variables)
    return done.returncode, done.stdout, done.stderr


def warms_lines_of_no_jit_errors(device, **environment):
    """Each error of a NO_JIT plan holds the line that `cache warm` needs; after all lines, the
    process runs."""
    shutil.rmtree(cache, ignore_errors=True)
    for attempt in range(8):
        code, text, log = no_jit_process(device, **environment)
        if code != 1:
            break
        marker = "The line of FILE for this plan: "
        expect("NO_JIT" in text and "ligerdsl cache warm FILE" in text and marker in text, text)
        line = text[text.index(marker) + len(marker):]
        got, output, errors = ligerdsl.run("cache", "warm", "-", stdin=line)
        expect(got == 0 and "compiled" in output, f"warm on {line}: exit {got}\n{output}{errors}")
    expect(code == 0, f"{device}: exit {code}\n{text}{log}")
    expect(attempt == 4, f"{device}: {attempt} descriptions were asked for, expected 4")
    expect("cache hit on disk" in log and "compiled" not in log, log)


def every_operation_runs_without_a_compile():
    shutil.rmtree(cache, ignore_errors=True)
    names = [op.name for op in OPS]
    lines = [{"operation": name} for name in names
             ] + [{"operation": "rms_norm_forward", "dtype": "bf16", "with_rstd": False}]
    (folder / "operations.json").write_text(json.dumps(lines))
    report = ligerdsl.json("cache", "warm", folder / "operations.json")
    expect(
        len(report["lines"]) == len(lines) and report["compiled"] == report["kernels"] > len(names),
        report)
    again = ligerdsl.json("cache", "warm", folder / "operations.json")
    expect(again["compiled"] == 0 and again["kernels"] == report["kernels"], again)
    expect(
        all(kernel["from"] in ("disk", "memory")
            for line in again["lines"]
            for kernel in line["kernels"]), again)
    rows = {op.name: two_rows(op) for op in OPS}
    for line in lines:
        name = line["operation"]
        settings = [
            f"{key}={int(value) if isinstance(value, bool) else value}"
            for key, value in line.items()
            if key != "operation"
        ]
        code, output, log = ligerdsl.run("run",
                                         name,
                                         *settings,
                                         *rows[name],
                                         LIGERDSL_NO_JIT="1",
                                         LIGERDSL_LOG="debug")
        expect(code == 0 and "cache hit on disk" in log and "compiled" not in log,
               f"{name}: exit {code}\n{output}{log[-2000:]}")
    code, output, _ = ligerdsl.run("run", "vector_add", "dtype=f16", "N=2", LIGERDSL_NO_JIT="1")
    expect(code == 4, f"what was not warmed is an error: exit {code}\n{output}")


def remarks_are_logged():
    """The debug log holds the compiler's remarks, both after a compile and after a disk cache hit.

    It also reports calls that use the generic variant of a kernel.
    """
    shutil.rmtree(cache, ignore_errors=True)
    for level, origin in (("debug", "compiled"), ("debug", "cache hit on disk"), ("info", "")):
        code, output, log = ligerdsl.run("run", "softmax_forward", "N=2", "H=1000000", "--device",
                                         "cuda:0", LIGERDSL_LIBCUDA=fake_cuda,
                                         LIGERDSL_LIBCUBLASLT=fake_cublaslt, LIGERDSL_LOG=level)
        kept = log.count("softmax_forward_f32: ") and log.count("remark: [tile-keep-residents] "
                                                                "resident row: cached in part")
        expect(code == 0 and origin in log and kept == (level == "debug"),
               f"{level}, {origin}: exit {code}\n{output}{log}")
    for width, generic in ((1000, 0), (1001, 1)):
        code, output, log = ligerdsl.run("run", "softmax_forward", "N=2", f"H={width}", "--device",
                                         "cuda:0", LIGERDSL_LIBCUDA=fake_cuda,
                                         LIGERDSL_LIBCUBLASLT=fake_cublaslt, LIGERDSL_LOG="debug")
        said = log.count("the call uses the slower generic variant: argument y: the stride ")
        expect(code == 0 and said == generic and log.count("[argument-not-aligned]") >= generic,
               f"{width} columns: exit {code}\n{output}{log}")


def an_authors_kernel_runs_without_a_compile():
    shutil.rmtree(cache, ignore_errors=True)
    run = lambda: subprocess.run([author], capture_output=True, text=True,
                                 env=ligerdsl.environment | {"LIGERDSL_NO_JIT": "1"})
    expect(run().returncode != 0, "nothing is in the cache yet")
    code, output, errors = ligerdsl.run("cache", "warm", "-", "--load", author_kernels,
                                        stdin='{"operation": "squared_relu"}')
    expect(code == 0 and "1 kernel is in" in output, f"exit {code}\n{output}{errors}")
    done = run()
    expect(done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}")


def files_of_descriptions():
    (folder / "lines").write_text(
        '\n{"operation": "vector_add", "dtype": "bf16", "target": "cpu"}\n\n'
        '{"operation": "vector_add", "dtype": "bf16", "target": "sm_90a"}\r\n'
        '{"operation": "vector_add", "dtype": "bf16", "target": "sm_90a", "ptx": "8.0", '
        '"multiprocessors": 100}')
    shutil.rmtree(cache, ignore_errors=True)
    report = ligerdsl.json("cache", "warm", folder / "lines")
    targets = [
        kernel["target"].split(" (")[0] for line in report["lines"] for kernel in line["kernels"]]
    expect(targets == ["cpu"] + 2 * ["sm_90a, PTX 9.0"] + 2 * ["sm_90a, PTX 8.0"], targets)
    expect(len(entries_in(cache)) == 5, entries_in(cache))
    # the target in a line of the file takes precedence over --target
    report = ligerdsl.json("cache", "warm", folder / "lines", "--target", "sm_80")
    expect(report["compiled"] == 0, report)
    (folder / "plain").write_text('[{"operation": "vector_add"}]')
    report = ligerdsl.json("cache", "warm", folder / "plain", "--target", "sm_80", "--target",
                           "sm_100a", "--ptx", "8.7")
    targets = [kernel["target"] for line in report["lines"] for kernel in line["kernels"]]
    expect(targets == 2 * ["sm_80, PTX 8.7"] + 2 * ["sm_100a, PTX 8.7"], targets)
    for text, words in (("", ["one or more descriptions"]), ("[]", ["one or more descriptions"]),
                        ("{", [":1", "JSON"]),
                        ("[1]", ["element 1", '"operation"']),
                        ('{"dtype": "f32"}', [":1", '"operation"']),
                        ('{"operation": "nonsense"}', [":1", "nonsense", "ligerdsl list"]),
                        ('\n{"operation": "vector_add", "what": 1}', [":2", "'what'", "in_place"]),
                        ('{"operation": "vector_add", "dtype": "i64"}', [":1", "`dtype`"]),
                        ('{"operation": "vector_add", "dtype": ["f32"]}', [":1", '"dtype"']),
                        ('{"operation": "vector_add", "target": "z80"}', ["z80"]),
                        ('{"operation": "vector_add", "target": "sm_90a", "ptx": "ninety"}',
                         [":1", "ninety", "9.0"]),
                        ('{"operation": "vector_add", "target": "sm_90a", "multiprocessors": 0}',
                         [":1", "65536"])):
        code, output, errors = ligerdsl.run("cache", "warm", "-", stdin=text)
        expect(code == 2 and all(word in errors for word in words),
               f"{text}: exit {code}, {words}\n{output}{errors}")
    code, _, errors = ligerdsl.run("cache", "warm", folder / "missing")
    expect(code == 2 and "No such file" in errors, errors)


def warm_is_honest():
    line = '{"operation": "vector_add"}\n{"operation": "softmax_forward"}'
    ligerdsl.run("cache", "warm", "-", stdin=line, LIGERDSL_CACHE_DIR=str(folder / "both"))
    # a cache limit that holds one of the two entries, but not both
    one = str(max(file.stat().st_size for file in entries_in(folder / "both")))
    for environment, words in (
            ({"LIGERDSL_CACHE": "off"}, ["CACHE is off"]),
            ({"LIGERDSL_CACHE": "ro"}, ["CACHE is ro"]),
            ({"LIGERDSL_NO_JIT": "1"}, ["LIGERDSL_NO_JIT"]),
            ({"LIGERDSL_CACHE_DIR": str(folder / "plain")}, ["not a folder"]),
            ({"LIGERDSL_CACHE_DIR": str(folder / "tiny"), "LIGERDSL_CACHE_SIZE": "100"},
             ["LIGERDSL_CACHE_SIZE"]),
            ({"LIGERDSL_CACHE_DIR": str(folder / "small"), "LIGERDSL_CACHE_SIZE": one},
             ["LIGERDSL_CACHE_SIZE"]),
            ({"LIGERDSL_CACHE_DIR": str(folder / "fresh"), "LIGERDSL_COMPILE_WORKER": "/bin/false",
              "LIGERDSL_REPRODUCER_DIR": str(folder)}, [":1", ":2", "2 descriptions"])):
        code, output, errors = ligerdsl.run("cache", "warm", "-", stdin=line, **environment)
        expect(code == 4 and all(word in errors for word in words),
               f"{environment}: exit {code}, {words}\n{output}{errors}")


def look_at_it_and_make_it_smaller():
    shutil.rmtree(cache, ignore_errors=True)
    for action in ("ls", "verify", "trim", "clear"):
        code, output, errors = ligerdsl.run("cache", action)
        expect(code == 4 and "No such file" in errors and not cache.exists(),
               f"{action} without a cache: {code}\n{output}{errors}")
    ligerdsl.run(
        "cache", "warm", "-",
        stdin='{"operation": "vector_add"}\n{"operation": "softmax_forward", "target": "sm_90a"}')
    code, output, _ = ligerdsl.run("cache", "ls")
    expect(code == 0 and all(word in output for word in (
               "ligerdsl_vector_add_f32", "cpu (", "sm_90a, PTX 9.0", "KiB", "(this)", "1.00 GiB")),
           output)
    listing = ligerdsl.json("cache", "ls")
    entries = listing["entries"]
    expect(len(entries) == 3
           and listing["bytes"] == sum(file.stat().st_size for file in entries_in(cache)),
           listing)
    expect(all(entry["state"] == "good" and 0 <= entry["unused_s"] < 600 and entry["build"]
               for entry in entries),
           listing)
    expect(ligerdsl.json("cache", "verify")["damaged"] == 0, "a whole cache")

    cpu = next(cache / entry["file"] for entry in entries if entry["target"].startswith("cpu"))
    whole = cpu.read_bytes()
    cpu.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    code, output, _ = ligerdsl.run("cache", "verify")
    expect(code == 1 and "damaged" in output and cpu.name in output and "digest" in output, output)
    expect(ligerdsl.json("cache", "verify", code=1)["damaged"] == 1, "JSON of a damaged entry")
    build = entries[0]["build"].encode()
    cpu.write_bytes(whole[:8] + b"\x09" + whole[9:])
    code, output, _ = ligerdsl.run("cache", "verify")
    expect(code == 0 and "other release" in output, output)
    cpu.write_bytes(b"not an entry" * 1000)
    code, output, _ = ligerdsl.run("cache", "verify")
    expect(code == 1 and cpu.name in output and "remove it by hand" in output, output)
    expect(build in whole, "the build is readable in the entry")
    cpu.write_bytes(whole)

    (cache / "notes.txt").write_text("mine")
    (cache / ("0" * 64 + ".art")).symlink_to(folder / "lines")
    os.utime(cpu, (1000, 1000))
    for dry in (True, False):
        report = ligerdsl.json("cache", "trim", "--to", listing["bytes"] - 1,
                               *(["--dry-run"] if dry else []))
        expect(
            report["removed_entries"] == 1 and report["entries"] == 2 and report["dry_run"] == dry,
            report)
        expect(cpu.exists() == dry and len(entries_in(cache)) == (4 if dry else 3),
               entries_in(cache))
    expect(ligerdsl.json("cache", "trim", "--to", "1G")["removed_entries"] == 0, "below the limit")
    code, output, _ = ligerdsl.run("cache", "trim", "--to",
                                   ligerdsl.json("cache", "ls")["bytes"] - 1, "--dry-run")
    expect(code == 0 and "would remove 1 entry (" in output and "; 1 entry (" in output, output)
    for wrong in ("much", ""):
        code, _, errors = ligerdsl.run("cache", "trim", "--to", wrong)
        expect(code == 2 and f"got '{wrong}'" in errors, errors)
    code, _, errors = ligerdsl.run("cache", "clear", LIGERDSL_CACHE="ro")
    expect(code == 4 and "ro" in errors, errors)
    expect(ligerdsl.json("cache", "clear", "--dry-run")["removed_entries"] == 2
           and len(entries_in(cache)) == 3,
           "a dry run")
    code, output, _ = ligerdsl.run("cache", "clear", LIGERDSL_CACHE="off")
    expect(code == 0 and "removed 2 entries" in output, output)
    expect(sorted(file.name for file in cache.iterdir()) == ["0" * 64 + ".art", "notes.txt"],
           list(cache.iterdir()))
    expect((folder / "lines").exists() and len(ligerdsl.json("cache", "ls")["other_files"]) == 2,
           "what is not the cache's")
    for arguments in ((), ("frobnicate",), ("warm",)):
        expect(ligerdsl.run("cache", *arguments)[0] == 2, f"cache {arguments}")


warms_lines_of_no_jit_errors("cpu")
warms_lines_of_no_jit_errors("cuda", LIGERDSL_LIBCUDA=fake_cuda, LIGERDSL_LIBCUBLASLT=fake_cublaslt)
every_operation_runs_without_a_compile()
remarks_are_logged()
an_authors_kernel_runs_without_a_compile()
files_of_descriptions()
warm_is_honest()
look_at_it_and_make_it_smaller()
shared.finish()

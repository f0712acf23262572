"""surroundings_test.py COMMAND plain|compiled FOLDER: the command and its environment.

Full disks, terminals, text that is not UTF-8, temporary folders, the tools that it starts, and
signals.
"""

import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import time

from command import expect, finish

command, part, folder = (os.path.abspath(sys.argv[1]), sys.argv[2],
                         pathlib.Path(sys.argv[3]).resolve())


def run(arguments, stdout=subprocess.PIPE, **options):
    """Returns exit code, stdout and stderr as bytes."""
    environment = {**os.environ, "LIGERDSL_CACHE_DIR": str(folder / "cache"),
                   **options.pop("env", {})}
    result = subprocess.run([command, *arguments], stdout=stdout, stderr=subprocess.PIPE,
                            env=environment, **options)
    return result.returncode, result.stdout, result.stderr


FULL = ["list", "list -v", "list --json -", "--help", "run --help", "--version", "bench --list",
        "bench --list --json -", "compile vector_add --emit program",
        "compile vector_add --emit program --json -", "doctor", "doctor --json -", "cache ls",
        "cache ls --json -", "cache verify", "cache trim --dry-run", "cache clear --dry-run"]
FULL_COMPILED = ["run vector_add N=10", "run vector_add N=10 --json -",
                 "compile vector_add --emit llvm --target cpu",
                 "bench vector_add N=10 --budget-ms 1 --copy-bytes 1000"]


def full_disks():
    for line in FULL + (FULL_COMPILED if part == "compiled" else []):
        with open("/dev/full", "w") as full:
            code, _, errors = run(line.split(), stdout=full)
        expect(
            code != 0 and b"standard output cannot be written: No space left on device" in errors,
            f"{line} > /dev/full: {code}\n{errors}")
    (folder / "file").write_text("")
    for path, reason in (("/dev/full", b"No space left"),
                         (str(folder / "missing/x"), b"No such file"),
                         (str(folder / "file/x"), b"Not a directory")):
        (folder / "full.svg").unlink(missing_ok=True)
        (folder / "full.svg").symlink_to("/dev/full")
        picture = str(folder / "full.svg") if path == "/dev/full" else path + ".svg"
        lines = [f"list --json {path}", f"compile vector_add --emit program -o {path}",
                 f"bench --list --json {path}"]
        if path != "/dev/full":  # these must fail before they measure
            lines += [f"bench --json {path} --budget-ms 3600000",
                      f"bench --plot {picture} --budget-ms 3600000"]
        elif part == "compiled":
            lines += [f"bench vector_add N=10 --budget-ms 1 --copy-bytes 1000 --{what}"
                      for what in (f"plot {picture}", f"json {path}")]
        for line in lines:
            code, _, errors = run(line.split(), timeout=60)
            expect(code == 4 and b"cannot write " in errors and reason in errors,
                   f"{line}: {code}\n{errors}")


def the_file_of_standard_output():
    """Results for stdout's own file go through the descriptor, because reopening would truncate
    it."""
    lines = [("list --json /dev/stdout", b'"operations"'), ("list --json {file}", b'"operations"'),
             ("bench --list --json /proc/self/fd/1", b'"cases"'),
             ("compile vector_add --emit program -o /dev/stdout", b"program ")]
    for line, words in lines:
        path = folder / "output"
        path.write_bytes(b"before\n")
        with open(path, "ab") as file:
            code, _, errors = run(line.format(file=path).split(), stdout=file)
        text = path.read_bytes()
        expect(code == 0 and text.startswith(b"before\n") and text.count(words) >= 1,
               f"{line}: {code}\n{text[:200]}\n{errors}")
        if "--json" in line:
            json.loads(text[len(b"before\n"):])


def no_stderr():
    for arguments in (["frob"], ["list", "--frob"], ["compile", "frob"]):
        with open("/dev/full", "w") as full:
            code = subprocess.run([command, *arguments], stderr=full).returncode
        expect(code == 2, f"{arguments} 2> /dev/full: {code}")


def colored(arguments, terminal, **environment):
    """Returns true if the output contains an escape sequence."""
    cleared = {name: environment.get(name, "") for name in ("NO_COLOR", "TERM")}
    if not terminal:
        return b"\x1b[" in run(arguments, env=cleared)[1]
    master, slave = pty.openpty()
    result = subprocess.Popen([command, *arguments], stdout=slave, env={**os.environ, **cleared})
    os.close(slave)
    output = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the command closed the terminal
            break
        if not piece:
            break
        output += piece
    os.close(master)
    expect(result.wait() == 0, f"{arguments} on a terminal")
    return b"\x1b[" in output


def terminals():
    for arguments, terminal, environment, wanted in (
            ([], True, {"TERM": "xterm"}, True), ([], True, {"TERM": "dumb"}, False),
            ([], True, {}, False), ([], True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
            ([], True, {"TERM": "xterm", "NO_COLOR": ""}, True),
            ([], False, {"TERM": "xterm"}, False),
            (["--color", "always"], False, {"TERM": "dumb"}, True),
            (["--color", "always"], True, {"TERM": "xterm", "NO_COLOR": "1"}, True),
            (["--color", "never"], True, {"TERM": "xterm"}, False)):
        got = colored(["list", *arguments], terminal, **environment)
        expect(got == wanted,
               f"list {arguments}, terminal: {terminal}, {environment}: coloured {got}")


def any_bytes():
    strange = b"x\xff\xfe\x1b[31m"
    for arguments in ([b"compile", strange], [b"run", strange], [b"list", strange],
                      [b"list", b"--" + strange], [strange],
                      [b"compile", b"vector_add", strange + b"=1", b"--emit", b"program"],
                      [b"list", b"--load", b"/" + strange],
                      [b"run", b"vector_add", b"--in", b"a=/" + strange],
                      [b"compile", b"vector_add", b"--target", strange],
                      [b"list", b"--json", b"/nowhere/" + strange]):
        code, output, errors = run(arguments)
        expect(
            code in (2, 4) and b"\\xff\\xfe\\x1b[31m" in errors and b"\x1b" not in errors + output,
            f"{arguments}: {code}\n{errors}")
        errors.decode()
    code, output, errors = run(["doctor", "--json", "-"], env={b"LIGERDSL_DUMP_DIR": b"/tmp/\xff"})
    expect(code in (0, 1) and "\ufffd" in json.loads(output.decode())["environment"].__repr__(),
           f"doctor: {code}\n{errors}")


FAKE_PTXAS = """#!/bin/sh
[ -n "$FAKE_EXIT" ] && { echo "fatal: no"; exit "$FAKE_EXIT"; }
[ -n "$FAKE_SLEEPS" ] && { echo $$ > "$FAKE_LOG"; exec sleep 60; }
for word; do
  case "$word" in *.ptx) stat -c '%a %U %F' "$(dirname "$word")" "$word" > "$FAKE_LOG"; grep -c '.entry' "$word" >> "$FAKE_LOG";; esac
  [ "$last" = -o ] && printf 'a cubin\\0of bytes' > "$word"
  last="$word"
done
echo "ptxas info: ${FAKE_REPORT:-Used 7 registers}"
"""
FAKE_CUOBJDUMP = """#!/bin/sh
echo "dump of"; cat "$2"
"""


def tools():
    tools_folder, temporary, log = folder / "tools", folder / "temporary", folder / "log"
    tools_folder.mkdir()
    temporary.mkdir()
    for name, text in (("ptxas", FAKE_PTXAS), ("cuobjdump", FAKE_CUOBJDUMP)):
        (tools_folder / name).write_text(text)
        (tools_folder / name).chmod(0o755)
    fakes = {"PATH": f"{tools_folder}:{os.environ['PATH']}",
             "FAKE_LOG": str(log),
             "TMPDIR": str(temporary)}
    compile_to = ["compile", "vector_add", "--target", "sm_90a", "--emit"]

    def emit(stage, **environment):
        return run([*compile_to, stage], env={**fakes, **environment}, cwd=folder)

    def is_empty(path):
        return not list(path.iterdir())

    for stage, wanted in (("cubin", b"a cubin\0of bytes"),
                          ("resources", b"ptxas info: Used 7 registers\n"),
                          ("sass", b"dump of\na cubin\0of bytes")):
        code, output, errors = emit(stage)
        expect(code == 0 and output == wanted and is_empty(temporary),
               f"{stage}: {code} {output}\n{errors}")
    lines = log.read_text().splitlines()
    expect(lines[0].startswith("700 ") and lines[0].endswith(" directory")
           and lines[1].startswith("600 ") and lines[2] == "1",
           f"{lines}")
    code, _, errors = run(["compile", "vector_add", "--target", "sm_90a", "--emit", "cubin"],
                          env=fakes, preexec_fn=lambda: os.umask(0o777))
    expect(code == 0 and is_empty(temporary), f"umask 777: {code}\n{errors}")

    # A remark reports spills if ptxas is in PATH to count them.
    spills = ("64 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads ptxas info : Used "
              "255 registers")
    code, output, errors = emit("remarks", FAKE_REPORT=spills)
    expect(code == 0 and b"remark: [resources] each thread spills 40 bytes" in output
           and b"255 registers" in output,
           f"{code} {output}\n{errors}")
    for without in ({}, {"FAKE_REPORT": spills, "PATH": "/nowhere"}):
        code, output, errors = emit("remarks", **without)
        expect(code == 0 and b"[resources]" not in output, f"{without}: {code} {output}\n{errors}")

    # TMPDIR may contain characters that are special in a shell.
    (folder / "x;touch pwned;").mkdir()
    for name in ("x;touch pwned;", str(folder / "x;touch pwned;")):
        code, output, errors = emit("resources", TMPDIR=name)
        expect(code == 0 and b"7 registers" in output and not (folder / "pwned").exists(),
               f"TMPDIR={name}: {code}\n{errors}")
    expect(is_empty(folder / "x;touch pwned;"), "the folder is empty again")
    for name, reason in ((str(folder / "missing"), b"No such file"),
                         (str(folder / "file"), b"Not a directory")):
        code, _, errors = emit("cubin", TMPDIR=name)
        expect(code == 4 and name.encode() in errors and reason in errors and b"TMPDIR" in errors,
               f"TMPDIR={name}: {code}\n{errors}")

    # Another user may create files at a predictable temporary name. The command must neither write
    # nor remove them.
    (folder / "victim").write_text("mine")
    planted = "ligerdsl-compile-$$"
    code = subprocess.run(["sh", "-c",
                           f'mkdir "$TMPDIR/{planted}"; ln -s "$PWD/victim" '
                           f'"$TMPDIR/{planted}/kernel.ptx"; exec "$0" "$@" > /dev/null',
                           command, *compile_to, "cubin"],
                          env={**os.environ, **fakes}, cwd=folder).returncode
    expect(code == 0 and (folder / "victim").read_text() == "mine"
           and len(list(temporary.iterdir())) == 1,
           "a planted link is left alone")
    shutil.rmtree(temporary)
    temporary.mkdir()

    code, _, errors = emit("cubin", FAKE_EXIT="3")
    expect(code == 4 and b"exit status 3" in errors and b"fatal: no" in errors
           and b"ptxas -v -arch=sm_90a" in errors,
           f"{code}\n{errors}")
    nothing = folder / "nothing"
    nothing.mkdir()
    code, _, errors = emit("cubin", PATH=str(nothing))
    expect(code == 4 and b'"ptxas" cannot be started: No such file' in errors
           and b"CUDA toolkit" in errors,
           f"{code}\n{errors}")
    expect(is_empty(temporary), "failures leave nothing")

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        log.unlink(missing_ok=True)
        process = subprocess.Popen([command, *compile_to, "cubin"],
                                   env={**os.environ, **fakes, "FAKE_SLEEPS": "1"},
                                   stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (log.exists() and log.read_text().endswith("\n")) and time.monotonic() < deadline:
            time.sleep(0.02)
        expect(not is_empty(temporary), "a folder while the tool runs")
        process.send_signal(number)
        code = process.wait(30)
        expect(code == -number and is_empty(temporary),
               f"{number}: {code}, {list(temporary.iterdir())}")
        tool = int(log.read_text())
        expect(not pathlib.Path(f"/proc/{tool}").exists(), f"{number}: the tool ended too")


def interrupted_benchmarks():
    """Ctrl-C prints and writes the results so far, then the command dies by the signal."""
    for arguments, sign in (
            (["--rows", "4", "--budget-ms", "1", "--json", str(folder / "part.json")], b"[2/"),
            (["vector_add", "N=10", "--budget-ms", "3600000"], b"[1/1] vector_add N=10")):
        process = subprocess.Popen([command, "bench", "-v", *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE,
                                   env={**os.environ, "LIGERDSL_CACHE_DIR": str(folder / "cache")})
        seen = b""
        while sign not in seen and (line := process.stderr.readline()):
            seen += line
        expect(sign in seen, f"progress: {seen}")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
        expect(process.returncode == -signal.SIGINT and b"interrupted: " in errors
               and b"median" in output,
               f"{arguments}: {process.returncode}\n{output}{errors}")
    result = json.loads((folder / "part.json").read_text())
    expect(result["interrupted"] and result["results"] and not result["failures"], result)


def progress():
    """A terminal shows one line of progress, which disappears before the table."""
    arguments = ["bench", "vector_add", "N=10", "--budget-ms", "1"]
    master, slave = pty.openpty()
    result = subprocess.Popen([command, *arguments], stdout=subprocess.DEVNULL, stderr=slave,
                              env={**os.environ, "LIGERDSL_CACHE_DIR": str(folder / "cache")})
    os.close(slave)
    output = b""
    try:
        while piece := os.read(master, 65536):
            output += piece
    except OSError:  # the command closed the terminal
        pass
    os.close(master)
    expect(
        result.wait() == 0 and b"[1/1] vector_add N=10" in output and output.endswith(b"\r\033[K"),
        output)


shutil.rmtree(folder, ignore_errors=True)
(folder / "cache").mkdir(parents=True)
full_disks()
the_file_of_standard_output()
no_stderr()
terminals()
any_bytes()
if part == "compiled":
    tools()
    interrupted_benchmarks()
    progress()
finish()

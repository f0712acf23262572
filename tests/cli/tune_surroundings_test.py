"""Tests `ligerdsl tune` in its environment: signals, disabled caches, another locale, two tuners.

Usage: tune_surroundings_test.py COMMAND KERNELS.so FOLDER TEST
"""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import time

from command import expect, trials
import command

# A compile worker that hangs, except if its parent is the tune-worker process, which runs kernels.
ENDLESS_COMPILER = """#!/bin/sh
grep -q tune-worker "/proc/$PPID/cmdline" && exec "{real}" "$@"
touch "{started}"
exec sleep 600
"""


def wait_for(condition, what, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            expect(False, f"waited {seconds} s for {what}")
            return
        time.sleep(0.02)


def processes_of(mark):
    """Returns command lines of live processes whose environment contains the mark."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (mark.encode() in (process / "environ").read_bytes()
                and "\nState:\tZ" not in (process / "status").read_text()):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:  # the process has ended, or belongs to another user
            pass
    return found


def interrupted(ligerdsl, arguments, store, number, begun, what, **environment):
    """Sends a signal after `begun()`: the command dies by it within seconds, with all its
    processes."""
    mark = f"LIGERDSL_TEST_MARK={what}-{number}-{os.getpid()}"
    variables = ligerdsl.environment | environment | dict([mark.split("=")])
    process = subprocess.Popen(
        [ligerdsl.path, *map(str, arguments), "--store", str(store), "--budget", "10m"],
        env=variables, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        preexec_fn=command.default_signals)
    wait_for(lambda: begun() or process.poll() is not None, what)
    time.sleep(0.1)
    sent = time.monotonic()
    process.send_signal(number)
    out, errors = process.communicate(timeout=120)
    expect(time.monotonic() - sent < 10, f"{what}: the end took {time.monotonic() - sent:.1f} s")
    expect(process.returncode == -number, f"{what}: ended with {process.returncode}\n{out}{errors}")
    expect("interrupted: the trials so far are in" in errors and str(store) in errors,
           f"{what}: {errors}")
    wait_for(lambda: not processes_of(mark), f"{what}: {processes_of(mark)} to end", 10)
    return trials(store)


def test_signals(ligerdsl, kernels, folder):
    norm = ["tune", "softmax_forward", "H=512", "N=64"]
    for number in (signal.SIGINT, signal.SIGTERM):
        store, started = folder / f"signal_{number}.jsonl", folder / f"started_{number}"
        saved = interrupted(ligerdsl, ["--load", kernels, "tune", "steps", "y=64", "x=64"], store,
                            number, started.exists, "opening the device",
                            TUNED_KERNELS_SLOW_WORKER=str(started))
        expect(saved == [], f"{saved}")

        real = pathlib.Path(ligerdsl.path).parent / "../lib/ligerdsl/compile-worker"
        started.unlink()
        endless = folder / "compile-worker"
        endless.write_text(ENDLESS_COMPILER.format(real=real, started=started))
        endless.chmod(0o755)
        saved = interrupted(ligerdsl, [*norm, "--timeout", "300"], store, number, started.exists,
                            "compiling", LIGERDSL_COMPILE_WORKER=str(endless), LIGERDSL_CACHE="off",
                            LIGERDSL_REPRODUCER_DIR=str(folder))
        expect(saved == [], f"what was stopped is no trial: {saved}")
        expect(not list(folder.glob("*.reproducer")),
               "what was stopped is no fault of the compiler")

        # The search measures one configuration. The finals follow and take seconds each.
        saved = interrupted(ligerdsl,
                            ["tune", "softmax_forward", "H=4096", "N=8192", "--max-evals", "1"],
                            store, number, lambda: store.read_text().count("\n") == 1, "the finals")
        expect(len(saved) == 1 and saved[0]["samples"] < 15, f"{saved}")


def test_caches(ligerdsl, kernels, folder):
    """Without a disk cache, the process that runs kernels compiles them again, with the same
    results."""
    (folder / "read_only").mkdir(mode=0o700)
    for name, environment in (
            ("off", {"LIGERDSL_CACHE": "off"}),
            ("ro", {"LIGERDSL_CACHE": "ro", "LIGERDSL_CACHE_DIR": str(folder / "read_only")})):
        store, table = folder / f"cache_{name}.jsonl", folder / f"cache_{name}.json"
        result = ligerdsl.json("tune", "softmax_forward", "H=512", "N=64", "--max-evals", "3",
                               "--store", store, "--export", table, "-q", **environment)
        expect(result["results"][0]["tried"] == 3
               and {t["fate"] for t in trials(store)} <= {"ok", "slow"},
               f"{name}: {trials(store)}")
        expect('"ligerdsl_tuned_kernels": 1' in table.read_text(), table.read_text())
    expect(not list((folder / "read_only").iterdir()), "a cache that is read only stays as it is")


def test_locale(ligerdsl, kernels, folder):
    """Arguments, stores and tables use decimal points, even if a loaded library sets another
    locale."""
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], check=True)
    store, table = folder / "locale.jsonl", folder / "locale.json"
    german = {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8", "TUNED_KERNELS_LOCALE": "1"}
    arguments = ["--load", kernels, "tune", "steps", "y=5000", "x=5000", "--timeout", "20.5",
                 "--budget", "1.5m", "--store", store, "-q"]
    code, out, errors = ligerdsl.run(*arguments, "--export", table, **german)
    expect(code == 0 and "locale with commas" in errors, f"exit {code}: {out}{errors}")
    expect(all(isinstance(t["ratio"], float) for t in trials(store)), f"{trials(store)}")
    json.loads(table.read_text())
    count = len(trials(store))
    result = ligerdsl.json(*arguments, "--resume", **german)
    expect(len(trials(store)) == count
           and isinstance(result["results"][0]["winner"]["ratio"], (int, float)),
           f"{result}")
    code, out, errors = ligerdsl.run(*arguments[:6], "--budget", "1,5m", **german)
    expect(code == 2 and "expected a time" in errors, errors)


def test_two_tuners(ligerdsl, kernels, folder):
    store = folder / "shared.jsonl"
    arguments = [ligerdsl.path, "tune", "softmax_forward", "H=512", "N=64", "--max-evals", "4",
                 "--store", str(store), "-q", "--json"]
    both = [subprocess.Popen([*arguments, str(folder / f"tuner{i}.json"), "--seed", str(i)],
                             env=ligerdsl.environment) for i in range(2)]
    expect([process.wait(300) for process in both] == [0, 0], "both finish")
    expect(all(json.loads((folder / f"tuner{i}.json").read_text())["results"][0]["tried"] == 4
               for i in range(2)),
           "both tried four")
    configs = [t["config"] for t in trials(store)]  # fails on an incomplete line
    expect(len(configs) >= 10, f"{len(configs)} trials of two tuners")


def test_standard_output(ligerdsl, kernels, folder):
    """- means standard output, also for tables; no file has that name afterwards."""
    place = folder / "place"
    place.mkdir()
    store = folder / "stdout.jsonl"
    tune = ["tune", "softmax_forward", "H=512", "N=64", "--max-evals", "1", "--store", store, "-q"]

    def run(*arguments):
        done = subprocess.run([ligerdsl.path, *map(str, arguments)], capture_output=True, text=True,
                              env=ligerdsl.environment, cwd=place)
        return done.returncode, done.stdout, done.stderr

    code, text, errors = run(*tune, "--export", "-")
    expect(code == 0 and "ligerdsl_tuned_kernels" in json.loads(text),
           f"exit {code}: {text}{errors}")
    table = folder / "stdout.json"
    table.write_text(text)
    for arguments in (["table", "merge", table, "-o", "-"], ["table", "import", table, "-o", "-"]):
        code, text, errors = run(*arguments)
        expect(code == 0 and "ligerdsl_tuned_kernels" in json.loads(text),
               f"{arguments}: exit {code}: {text}{errors}")
    code, text, errors = run("compile", "softmax_forward", "--emit", "program", "-o", "-")
    expect(code == 0 and "program softmax" in text, f"exit {code}: {text}{errors}")
    code, text, errors = run(*tune, "--export", "-", "--json", "-")
    expect(code == 2 and "both for standard output" in errors, errors)
    code, text, errors = run("tune", "softmax_forward", "--store", "-")
    expect(code == 2 and "--store" in errors, errors)
    expect(not list(place.iterdir()), f"{list(place.iterdir())}")


def seconds_of(ligerdsl, *arguments, **environment):
    begin = time.monotonic()
    code, out, errors = ligerdsl.run(*arguments, **environment)
    return time.monotonic() - begin, code, out + errors


def test_hanging_kernel(ligerdsl, kernels, folder):
    """A kernel that hangs in its default configuration costs ten times --timeout, or the rest of
    --budget."""
    tune = ["--load", kernels, "tune", "faulty", "fault=endless", "y=64", "x=64", "--store",
            folder / "hangs.jsonl"]
    seconds, code, output = seconds_of(ligerdsl, *tune, "--timeout", "0.5")
    expect(code == 4 and "had not opened faulty" in output and "--timeout" in output,
           f"exit {code}: {output}")
    expect(seconds < 60, f"--timeout 0.5: {seconds:.0f} s")
    seconds, code, output = seconds_of(ligerdsl, *tune, "--timeout", "100", "--budget", "3s")
    expect(code == 4 and "the budget of 3 s" in output, f"exit {code}: {output}")
    expect(seconds < 30, f"--budget 3s: {seconds:.0f} s")


def test_finals_are_part_of_the_budget(ligerdsl, kernels, folder):
    """The final measurements of a kernel with samples of half a second would take minutes."""
    store = folder / "finals.jsonl"
    seconds, code, output = seconds_of(ligerdsl, "--load", kernels, "tune", "lazy", "y=6000000",
                                       "x=6000000", "--check-with", "y=512 x=512", "--budget",
                                       "15s", "--store", store)
    expect(code in (0, 4), f"exit {code}: {output}")
    expect(seconds < 40, f"a budget of 15 s took {seconds:.0f} s: {output}")


def test_killed_worker(ligerdsl, kernels, folder):
    """A worker killed or stopped while it opens a problem is replaced once; a second failure ends
    the search."""
    tune = ["--load", kernels, "tune", "steps", "y=5000", "x=5000", "--max-evals", "1", "-q",
            "--timeout"]
    for number in (signal.SIGKILL, signal.SIGSTOP):
        store = folder / f"once_{number}.jsonl"
        code, out, errors = ligerdsl.run(
            *tune, "20" if number == signal.SIGKILL else "3", "--store", store,
            TUNED_KERNELS_SIGNAL=f"{number:d}:{folder / f'sent_{number:d}'}")
        expect(code == 0 and trials(store)[0]["fate"] == "ok",
               f"{number}: exit {code}: {out}{errors}")
    seconds, code, output = seconds_of(ligerdsl, *tune, "20", "--store", folder / "always.jsonl",
                                       TUNED_KERNELS_SIGNAL=f"{signal.SIGKILL:d}")
    expect(code == 4 and "two worker processes ended before they had opened steps y=5000" in output
           and "SIGKILL" in output,
           f"exit {code}: {output}")
    expect(seconds < 60, f"{seconds:.0f} s")


def test_locked_store(ligerdsl, kernels, folder):
    """A tuner that waits for a locked store names the owner, and ends after a while or by a
    signal."""
    tune = [ligerdsl.path, "tune", "softmax_forward", "H=512", "N=64", "--max-evals", "1",
            "--store"]
    waiting = []
    for name in ("bound", "signal"):
        store = (folder / name).open("w")
        fcntl.flock(store, fcntl.LOCK_EX)
        waiting.append((store,
                        subprocess.Popen([*tune, store.name], env=ligerdsl.environment, text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         preexec_fn=command.default_signals)))
    time.sleep(15)
    waiting[1][1].send_signal(signal.SIGINT)
    sent = time.monotonic()
    waiting[1][1].communicate(timeout=60)
    expect(time.monotonic() - sent < 15 and waiting[1][1].returncode == -signal.SIGINT,
           f"a signal: {waiting[1][1].returncode}")
    out, errors = waiting[0][1].communicate(timeout=120)
    expect(waiting[0][1].returncode == 2 and f"process {os.getpid()} (" in errors
           and "--store" in errors,
           f"{waiting[0][1].returncode}: {errors}")


def test_links_of_other_users_are_not_followed(ligerdsl, kernels, folder):
    """In a world-writable folder, nothing is written through links of other users."""
    if os.geteuid() != 0:
        return print("skipped: only root can make links of another user")
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    victims = folder / "victims"
    victims.mkdir()

    def link(name):
        (victims / name).write_text("mine")
        (shared / name).symlink_to(victims / name)
        os.lchown(shared / name, 12345, 12345)
        return shared / name

    (shared / "dump").symlink_to(victims)
    os.lchown(shared / "dump", 12345, 12345)
    tune = ["tune", "softmax_forward", "H=512", "N=64", "--max-evals", "1", "-q", "--store",
            folder / "store.jsonl"]
    for arguments in (["tune", "softmax_forward", "H=512", "--store", link("store")],
                      [*tune, "--export", link("table")], ["list", "--json", link("json")],
                      ["compile", "softmax_forward", "--emit", "program", "-o", link("output")]):
        code, out, errors = ligerdsl.run(*arguments)
        expect(code in (2, 4) and "symbolic link of another user (uid 12345)" in errors,
               f"{arguments}: exit {code}: {errors}")
    for variables in ({"LIGERDSL_TRACE": str(link("trace"))},
                      {"LIGERDSL_DUMP": "all", "LIGERDSL_DUMP_DIR": str(shared / "dump")}):
        code, out, errors = ligerdsl.run("run", "softmax_forward", "H=64", "N=4", **variables)
        expect(code == 0 and "symbolic link of another user (uid 12345)" in errors,
               f"{variables}: exit {code}: {errors}")
    expect(all(path.is_file() and path.read_text() == "mine" for path in victims.iterdir()),
           f"{list(victims.iterdir())}")


if __name__ == "__main__":
    command.main(globals())

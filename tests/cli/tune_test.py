"""Tests `ligerdsl tune`: faulty kernels cost one trial; stores can be resumed; tables take effect.

Usage: tune_test.py COMMAND KERNELS.so FOLDER TEST

No test may depend on which configuration is faster or given up as slow: the machine may be busy.
"""

import json
import os
import signal
import subprocess
import time

from command import expect, trials
import command


def test_faults(ligerdsl, kernels, folder):
    store, table, page = folder / "faults.jsonl", folder / "faults.json", folder / "faults.html"
    result = ligerdsl.json("--load", kernels, "tune", "faulty", "y=5000", "x=5000", "--strategy",
                           "exhaustive", "--timeout", "10", "--store", store, "--export", table,
                           "--report", page, "-q")
    fates = {}
    for trial in trials(store):
        fates.setdefault(trial["config"].split()[0], set()).add(trial["fate"])
    fates["fault=none"].discard("slow")
    expected = {"fault=none": {"ok"}, "fault=wrong": {"wrong"}, "fault=again": {"wrong"},
                "fault=outside": {"guard"}, "fault=endless": {"timeout"},
                "fault=deadly": {"crash"}}
    expect(fates == expected, f"fates {fates}")
    winner = result["results"][0]["winner"]
    expect(winner["fate"] == "ok" and winner["config"].startswith("fault=none"), f"winner {winner}")
    expect(result["results"][0]["tried"] == 11, f"{result['results'][0]['tried']} tried")
    reasons = {trial["fate"]: trial["reason"] for trial in trials(store)}
    expect("expected" in reasons["wrong"], reasons["wrong"])
    expect("outside of y" in reasons["guard"], reasons["guard"])
    expect("SIGSEGV" in reasons["crash"], reasons["crash"])
    html = page.read_text()
    expect(all(reason.split(";")[0] in html for fate, reason in reasons.items()
               if fate in ("guard", "crash", "timeout")),
           "reasons are reported")
    seconds = [trial["elapsed"] for trial in trials(store)]
    expect(0 < seconds[0] and seconds == sorted(seconds), f"seconds of the search {seconds}")
    expect(all(t["ceiling"]["bytes"] == [40000]
               and t["ceiling"]["copy_us"][0] > 0 < t["ceiling"]["copy_gb_per_s"]
               for t in trials(store)),
           f"ceiling of each trial: {trials(store)[0]['ceiling']}")


def test_rounded_floats_are_accepted(ligerdsl, kernels, folder):
    """A device rounds, so the exact floor of a product is not the only right result."""
    result = ligerdsl.json("--load", kernels, "tune", "steps", "y=5000", "x=5000", "--store",
                           folder / "steps.jsonl", "-q")
    expect(result["results"][0]["winner"]["fate"] == "ok", f"{result}")


def test_too_little_memory(ligerdsl, kernels, folder):
    """A task's memory, workspaces included, is summed before allocation; other tasks continue."""
    store = folder / "large.jsonl"
    code, out, errors = ligerdsl.run("tune", "softmax_forward", "H=4096", "N=100000000,150000000",
                                     "--store", store, "-q")
    expect(code == 4
           and "tune: 2 problems of softmax_forward take 7.45 TiB of memory at a time" in errors
           and " free of " in errors and "tune fewer or smaller problems (fewer rows)" in errors,
           f"exit {code}\n{out}{errors}")
    code, out, errors = ligerdsl.run("tune", "rms_norm_backward", "H=1024", "N=1000000000",
                                     "--store", store, "-q")
    expect(code == 4 and "1 problem of rms_norm_backward takes 11.18 TiB" in errors,
           f"exit {code}\n{out}{errors}")
    code, out, errors = ligerdsl.run("--load", kernels, "tune", "steps", "y=100000000000",
                                     "x=100000000000", "--check-with", "y=77 x=77", "--store",
                                     store, "-q")
    expect(code == 4 and "1 problem of steps takes 1.46 TiB" in errors,
           f"exit {code}\n{out}{errors}")
    expect(trials(store) == [], "nothing was tried")
    results = ligerdsl.json("tune", "softmax_forward", "H=256,1000000000", "N=1024", "--max-evals",
                            "2", "--store", store, "-q", code=1)["results"]
    expect(results[0]["tried"] >= 1 and "take" in results[1]["error"], f"{results}")


def test_library_that_prints(ligerdsl, kernels, folder):
    code, out, errors = ligerdsl.run("--load", kernels, "tune", "faulty", "y=64", "x=64",
                                     "--max-evals", "1", "--store", folder / "talk.jsonl", "-q",
                                     TUNED_KERNELS_TALK="1")
    fates = [trial["fate"] for trial in trials(folder / "talk.jsonl")]
    expect(code == 0 and "ok" in fates and "crash" not in fates,
           f"exit {code}, {fates}\n{out}{errors}")


def test_store_is_resumed(ligerdsl, kernels, folder):
    store = folder / "norm.jsonl"
    # One compile job: with several jobs, the order in which compiles end decides what is tried
    # next.
    arguments = ["tune", "softmax_forward", "H=512", "N=64,128", "--max-evals", "3", "--jobs", "1",
                 "--store", store, "-q"]
    first = ligerdsl.json(*arguments)
    expect(len(first["results"]) == 1, "both numbers of rows are one task")
    lines = trials(store)
    expect(all(len(t["us"]) == 2 for t in lines if t["fate"] == "ok"), "a time for each problem")
    expect(len({t["options"] for t in lines}) == 1, "equal options")
    with store.open("a") as file:
        file.write(json.dumps(lines[0])[:40])  # a line cut off in the middle
    again = ligerdsl.json(*arguments, "--resume", "--report", folder / "norm.html")
    expect(len(trials_but_torn(store)) == len(lines), "nothing was measured again")
    expect(again["results"][0]["tried"] == first["results"][0]["tried"], "and all of it counts")
    expect(f"{first['results'][0]['tried']} configurations tried" in (
               folder / "norm.html").read_text(),
           "in the report, too")
    ligerdsl.json(*arguments)
    expect(len(trials_but_torn(store)) > len(lines), "without --resume all is measured")


def test_few_rows_of_a_matmul(ligerdsl, kernels, folder):
    """Calls with few rows have their own schedule: it is tuned, and its entry does not apply to
    more rows."""
    store = folder / "product.jsonl"
    results = ligerdsl.json("tune", "matmul_nt", "dtype=f32", "N=16", "K=32", "M=8,12,300",
                            "--max-evals", "1", "--bits", "batch", "--store", store,
                            "-q")["results"]
    found = {
        "most_rows=16" in t["options"]: len(t["us"]) for t in trials(store) if t["fate"] == "ok"}
    expect(len(results) == 2 and found == {True: 2, False: 1}, f"{found} of {results}")


def trials_but_torn(store):
    found = []
    for line in store.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            pass
    return found


def test_resume_repeats_a_changed_check(ligerdsl, kernels, folder):
    """A configuration that was checked on another call is checked again."""
    store = folder / "checked.jsonl"
    arguments = ["--load", kernels, "tune", "steps", "y=5000", "x=5000", "--store", store, "-q"]
    ligerdsl.json(*arguments)
    first = trials(store)
    ligerdsl.json(*arguments, "--resume")
    expect(trials(store) == first, "the same question is answered by the store")
    ligerdsl.json(*arguments, "--resume", "--check-with", "y=77 x=77")
    new = trials(store)[len(first):]
    expect({t["config"] for t in new} == {t["config"] for t in first}
           and not {t["key"] for t in new} & {t["key"] for t in first},
           f"{new} after {first}")


def bytes_of_sums(ligerdsl, kernels, folder, config):
    code, out, errors = ligerdsl.run("--load", kernels, "run", "sums", "y=64", "x=64x1000",
                                     *config.split(), "--out-dir", folder)
    expect(code == 0, f"{config}: {out}{errors}")
    return (folder / "y.npy").read_bytes()


def test_bits_same_keeps_bits(ligerdsl, kernels, folder):
    """With --bits same, no tried configuration changes a bit; without it, a winner may."""
    (folder / "sums").mkdir()
    for bits, same in (("same", True), ("row", False)):
        store = folder / f"bits_{bits}.jsonl"
        ligerdsl.json("--load", kernels, "tune", "sums", "y=64", "x=64x1000", "--strategy",
                      "exhaustive", "--bits", bits, "--store", store, "-q")
        tried = {t["config"] for t in trials(store) if t["fate"] in ("ok", "slow")}
        results = {bytes_of_sums(ligerdsl, kernels, folder / "sums", config) for config in tried}
        expect(len(tried) == (3 if same else 9), f"--bits {bits}: tried {tried}")
        expect((len(results) == 1) == same,
               f"--bits {bits}: {len(results)} different results of {len(tried)} configurations")


def test_lists_of_ranges(ligerdsl, kernels, folder):
    """Each value of a list is complete: a shape with its range of contents."""
    result = ligerdsl.json("--load", kernels, "tune", "steps", "y=64", "x=64:0..1,64:0..3",
                           "--store", folder / "ranges.jsonl", "-q")
    problems = [r["winner"]["problems"] for r in result["results"]]
    expect(problems == [["y=64 x=64:0..1"], ["y=64 x=64:0..3"]], f"{problems}")


def test_interrupt(ligerdsl, kernels, folder):
    store = folder / "interrupted.jsonl"
    process = subprocess.Popen([ligerdsl.path, "tune", "softmax_forward", "H=512", "N=64",
                                "--max-evals", "100000", "--budget", "10m", "--store", store],
                               env=ligerdsl.environment, stderr=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True,
                               preexec_fn=command.default_signals)
    until = time.monotonic() + 120
    while time.monotonic() < until and (not store.exists() or not store.read_text().count("\n")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    expect(process.returncode in (-signal.SIGINT, 130), f"exit {process.returncode}")
    expect("--resume to continue" in errors, errors)
    expect(len(trials(store)) >= 1, "trials are kept")


def test_table_is_used(ligerdsl, kernels, folder):
    """A table with one entry changes the plan on the device that it names, and on no other."""
    store, table = folder / "table.jsonl", folder / "table.json"
    ligerdsl.json("tune", "softmax_forward", "H=512", "N=64", "--max-evals", "2", "--store", store,
                  "--export", table, "-q")
    trial = next(t for t in trials(store) if not t["heuristic"] and t["fate"] in ("ok", "slow"))
    device = trial["device"]
    key = (f"softmax_forward/1 {trial['options']} @ "
           f"{device['arch']}/{device['units']}/{device['model']}")

    def write(name, config):
        table.write_text('{"ligerdsl_tuned_kernels": 1, "entries": {\n'
                         + f'"{name}": {{"config": "{config}"}},\n' + '"": {}}}\n')

    arguments = ["run", "softmax_forward", "H=512", "N=64", "--check"]
    log = {"LIGERDSL_LOG": "info", "LIGERDSL_TABLE": str(table)}
    write(key, trial["config"])
    # `compile` and `explain`, which do not run the kernel, report the configuration of the table.
    compiled = ligerdsl.json("compile", "softmax_forward", "H=512", "--emit", "config",
                             **log)[0]["config"]
    explained = ligerdsl.json("explain", "softmax_forward", "H=512", "--no-run",
                              **log)["configuration"][0]["fields"]
    values = {field["name"]: field["value"] for field in compiled}
    expect(values == {field["name"]: field["value"] for field in explained},
           f"compile: {compiled}\nexplain: {explained}")
    expect(all(values[name] == value
               for name, value in (one.split("=") for one in trial["config"].split())),
           f"{values}, not {trial['config']}")
    code, out, errors = ligerdsl.run(*arguments, **log)
    expect(code == 0 and "right" in out, out + errors)
    expect("configured by table" in errors, errors)
    code, out, errors = ligerdsl.run(*arguments, **log, LIGERDSL_TUNING="off")
    expect(code == 0 and "configured by table" not in errors, errors)
    write(key, "rows=99999")
    code, out, errors = ligerdsl.run(*arguments, **log)
    expect(code == 0 and "not used" in errors and "99999" in errors, errors)
    write(key.replace(device["arch"], "sm_80"), trial["config"])
    code, out, errors = ligerdsl.run(*arguments, **log)
    expect(code == 0 and "configured by table" not in errors, errors)
    table.write_text("{}\n")
    code, out, errors = ligerdsl.run(*arguments, **log)
    expect(code != 0 and "expected a table of tuned kernels" in errors, errors)


def test_tables(ligerdsl, kernels, folder):
    store, table, merged, mine = (
        folder / name for name in ("t.jsonl", "a.json", "merged.json", "mine.json"))
    ligerdsl.json("tune", "softmax_forward", "H=512", "N=64", "--max-evals", "1", "--store", store,
                  "-q")
    trial = next(t for t in trials(store) if not t["heuristic"])

    def key(arch):
        return f"softmax_forward/1 {trial['options']} @ {arch}/7/somewhere"

    def write(path, entries):
        lines = "".join(f'"{name}": {json.dumps(entry)},\n'
                        for name, entry in sorted(entries.items()))
        path.write_text('{"ligerdsl_tuned_kernels": 1, "entries": {\n' + lines + '"": {}}}\n')

    heuristic = next(t for t in trials(store) if t["heuristic"])["config"]
    # An entry is refused if its problems do not match its key, or if it has no problems.
    for problems, words in ((["H=256 N=64"], "belongs to the key softmax_forward/1 cols=256"),
                            ([], "no \"problems\""), (["H=512 N=64", "H=512 dtype=bf16"], "bf16"),
                            (["H=512 Q=1"], "no setting")):
        write(table, {key("a"): {"config": heuristic, "ratio": 0.5, "problems": problems}})
        result = ligerdsl.json("table", "import", table, "-o", mine)
        expect(result["taken"] == 0 and words in result["refused"][0]["reason"],
               f"{problems}: {result}")
    good = {"config": heuristic, "ratio": 0.5, "problems": ["H=512 N=64"]}
    bad = {"config": "rows=99999", "ratio": 0.4, "problems": ["H=512 N=64"]}
    write(table, {key("a"): good, key("b"): bad})
    write(folder / "b.json", {key("a"): {**good, "ratio": 0.3}})
    listed = ligerdsl.json("table", "ls", table)["entries"]
    expect([e["kernel"] for e in listed] == ["softmax_forward"] * 2
           and listed[0]["device"] == "a/7/somewhere",
           f"{listed}")
    ligerdsl.json("table", "merge", table, folder / "b.json", "-o", merged)
    expect(json.loads(merged.read_text())["entries"][key("a")]["ratio"] == 0.3, "more gain stays")
    result = ligerdsl.json("table", "import", table, "-o", mine)
    expect([r["key"] for r in result["refused"] if "99999" in r["reason"]] == [key("b")],
           f"{result}")
    entries = {
        name: entry for name, entry in json.loads(mine.read_text())["entries"].items() if name}
    expect(len(entries) == result["taken"], f"{entries}")
    for name, entry in entries.items():
        expect(
            name.endswith(
                f"{trial['device']['arch']}/{trial['device']['units']}/{trial['device']['model']}"),
            name)
        expect(entry["imported_from"] == "a/7/somewhere" and entry["ratio"] <= 1, f"{entry}")


def test_failed_export_keeps_tables(ligerdsl, kernels, folder):
    """A search without time keeps the entry; files that are not tables are refused and stay
    unchanged."""
    store, table = folder / "stay.jsonl", folder / "stay.json"
    arguments = ["tune", "softmax_forward", "H=512", "N=64", "--max-evals", "1", "--jobs", "8",
                 "--store", store, "--export", table, "-q"]
    result = ligerdsl.json(*arguments)["results"][0]
    expect(result["tried"] == 1, f"--max-evals 1 with 8 compilers: {result['tried']} tried")
    winner = result["winner"]
    device = winner["device"]
    key = (f"softmax_forward/1 {winner['options']} @ "
           f"{device['arch']}/{device['units']}/{device['model']}")
    before = ('{"ligerdsl_tuned_kernels": 1, "entries": {\n'
              + f'"{key}": {{"config": "{winner["config"]}"}},\n' + '"": {}}}\n')
    table.write_text(before)
    code, out, errors = ligerdsl.run(*arguments, "--budget", "0.001s")
    expect(code == 4 and "the budget of 0.001 s" in errors, f"exit {code}: {out}{errors}")
    expect(key in json.loads(table.read_text())["entries"], table.read_text())
    table.write_text("{}")
    lines = len(trials(store))
    code, out, errors = ligerdsl.run(*arguments)
    expect(code != 0 and "expected a table" in errors and table.read_text() == "{}", errors)
    expect(len(trials(store)) == lines, "it searched before it read the table")


def test_sets_and_parts(ligerdsl, kernels, folder):
    """A kernel is tuned under its own name, not its operation's. Sets may contain operations
    without choices."""
    store, table = folder / "sets.jsonl", folder / "sets.json"
    result = ligerdsl.json("tune", "adamw_step", "N=4096", "--max-evals", "2", "--store", store,
                           "--export", table, "-q")["results"][0]
    winner = result["winner"]
    expect((winner["operation"], winner["kernel"]) == ("adamw_step", "adamw"), f"{winner}")
    # Exit code 4: within 30 s, a busy machine may find no winner.
    code, text, errors = ligerdsl.run("tune", "--set", "standard", "--rows", "8,16", "--max-evals",
                                      "1", "--budget", "30s", "--store", store, "-q", "--json", "-")
    expect(code in (0, 4), f"exit {code}: {text}{errors}")
    results = json.loads(text)["results"]
    names = {r["operation"] for r in results}
    expect(
        "cross_entropy_backward" in names and "adamw_step" in names and "global_norm" not in names,
        f"{names}")
    norm = next(r for r in results if r["operation"] == "rms_norm_forward")
    expect([p.split()[1] for p in norm["problems"]] == ["N=8", "N=16"], f"{norm}")
    expect(all("winner" in r or r["tried"] == 0 for r in results),
           "a search without time is listed")
    expect((code == 0) == any("winner" in r for r in results), f"exit {code}: {results}")


def checked(ligerdsl, kernel, *problems):
    """Returns the problems that a worker checks, each a list of its settings."""
    question = {"open": {"kernel": kernel, "settings": problems, "check_with": []}}
    result = subprocess.run([ligerdsl.path, "tune-worker"], input=json.dumps(question) + "\n",
                            env=ligerdsl.environment, stdout=subprocess.PIPE, text=True,
                            timeout=120)
    return [text.split() for text in json.loads(result.stdout)["checked"]]


def test_checked_rows(ligerdsl, kernels, folder):
    """Checked row counts come from the problem with most rows, and the operation accepts them."""
    rows = checked(ligerdsl, "softmax_forward", ["H=64", "N=1"], ["H=64", "N=100"])
    expect(any("N=3" in settings for settings in rows)
           and any("N=100" in settings for settings in rows),
           f"{rows}")
    rows = checked(ligerdsl, "modulated_rms_norm_forward", ["H=64", "N=48", "K=4"])
    expect("N=4" in rows[0] and "N=48" in rows[1], f"{rows}")
    rows = checked(ligerdsl, "vocab_parallel_cross_entropy",
                   ["V=64", "N=32", "M=64", "total_classes=128"])
    expect("N=3" in rows[0] and "M=6" in rows[0] and "M=64" in rows[1], f"{rows}")
    code, out, errors = ligerdsl.run("run", "modulated_rms_norm_forward", "H=64", "N=3", "K=4",
                                     "--check")
    expect(code == 2 and "multiple of n_modulations = 4" in errors, f"exit {code}: {errors}")


def test_odd_tables(ligerdsl, kernels, folder):
    table = folder / "odd.json"
    head, last = '{"ligerdsl_tuned_kernels": 1, "entries": {\n', '"": {}}}\n'
    for entry, words in [('"ratio": "fast"', 'expected "ratio" to be a number above 0, got "fast"'),
                         ("broken", "expected a JSON object"), ('"ratio": -1', 'expected "ratio"'),
                         ('"problems": [[]]', 'expected "problems"'),
                         ('"operation": {}', 'expected "operation"'), ('"config": "e=2"', "twice"),
                         ('"a": ' + "[" * 100000 + "]" * 100000, "levels deep")]:
        table.write_text(head + f'"a/1 b=1 @ c/1/d": {{"config": "e=1", {entry}}},\n' + last)
        for arguments in (["ls", table], ["merge", table, "-o", folder / "odd_merged.json"],
                          ["import", table, "-o", folder / "odd_merged.json"]):
            code, out, errors = ligerdsl.run("table", *arguments)
            expect(code == 2 and "line 2: " in errors and words in errors,
                   f"{arguments}: exit {code}: {errors}")
    expect(not (folder / "odd_merged.json").exists(), "nothing is made of it")
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    code, out, errors = ligerdsl.run("run", "softmax_forward", "H=64", "N=4",
                                     LIGERDSL_TABLE=str(pipe))
    expect(code != 0 and "pipe" in errors, errors)


def test_bad_requests(ligerdsl, kernels, folder):
    store = ["--store", folder / "bad.jsonl"]
    for arguments, words in [
        (["tune", "softmx_forward"], ["did you mean", "softmax_forward"]),
        (["tune", "softmax_forward", "Q=3"], ["no setting 'Q'"]),
        (["tune", "global_norm"], ["no schedule to choose"]),
        (["tune", "fused_linear_cross_entropy"], ["tune that"]),
        (["tune", "softmax_forward", "N=64,0"], ["nothing to measure"]),
        (["tune", "softmax_forward", "config.rows=2"], ["omit it"]),
        (["tune", "softmax_forward", "--strategy", "clever"], ["guided"]),
        (["tune", "softmax_forward", "--budget", "soon"], ["10m"]),
        (["--load", kernels, "tune", "plain", "y=64"], ["no schedule to choose", "choices"]),
        (["--load", kernels, "tune", "faulty", "y=90000000", "x=90000000"], ["--check-with"]),
        (["tune"], ["expected a kernel"]),
    ]:
        code, out, errors = ligerdsl.run(*arguments, *store)
        expect(code == 2, f"{arguments}: exit {code}\n{out}{errors}")
        for word in words:
            expect(word in errors, f"{arguments}: no '{word}' in {errors}")
    code, out, errors = ligerdsl.run("--device", "cuda:0", "tune", "softmax_forward", *store,
                                     LIGERDSL_LIBCUDA="/nowhere.so")
    expect(code == 3, f"no device: exit {code}\n{errors}")
    code, out, errors = ligerdsl.run("tune", "softmax_forward", "--store", "/proc/none/trials")
    expect(code != 0 and "/proc/none" in errors, errors)


if __name__ == "__main__":
    command.main(globals())

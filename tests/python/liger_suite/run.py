"""Runs Liger-Kernel's own tests with LIGER_KERNEL_IMPL=ligerdsl and writes a table of them as JSON.

    python tests/python/liger_suite/run.py LIGER --out RESULT.json \\
        [--groups operations,more,models] [--workers 12]

LIGER is the folder of Liger-Kernel's sources that contains `test`; Python must find liger-kernel
and ligerdsl. Tests that fail next to other workers run again alone. The result is written after
each group, so an interrupted run keeps the groups before it.
"""

import argparse
import collections
import datetime
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# Liger's test files per group, and a filter for pytest's -k. `operations` and `more` test
# operations of the library, `models` runs short trainings.
GROUPS = {
    "operations": ([f"transformers/test_{name}.py" for name in (
                       "cross_entropy", "fused_linear_cross_entropy", "rope", "qwen2vl_mrope",
                       "rms_norm", "swiglu", "fused_add_rms_norm", "softmax", "llama4_rope",
                       "layer_norm", "geglu", "embedding", "monkey_patch")] + ["megatron"],
                   None),
    "more": ([f"transformers/test_{name}.py" for name in (
        "kl_div", "jsd", "tvd", "fused_linear_jsd", "dyt", "poly_norm", "group_norm",
        "relu_squared", "sparsemax", "modulated_rms_norm")], None),
    "models": ([f"convergence/{dtype}/test_mini_models{kind}.py" for kind in ("", "_with_logits")
                for dtype in ("fp32", "bf16")],
               "llama3 or qwen2 or qwen3 or phi3 or mistral or gemma1 or gemma2 or gemma3_text"),
}
# A filter for model families that ligerdsl.hf does not patch; their tests are excluded.
WITHOUT = "vl or moe or qwen3_5 or next or ministral"


def pytest_command(options, tests, selection, workers):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "liger_counts",
               "-p", "modulated_gradients", "-o", "log_cli=false", "-o", "pythonpath=.", "-W",
               "ignore", "--no-header", "--tb=short", *tests]
    if selection:
        command += ["-k", f"({selection}) and not ({WITHOUT})"]
    if importlib.util.find_spec("pytest_timeout"):
        command += ["--timeout", str(options.test_s)]
    if workers > 1 and importlib.util.find_spec("xdist"):
        command += ["-n", str(workers)]
    return command


def run(options, tests, selection, workers, seconds, log):
    """Returns the rows of all tests that ended in time, and pytest's exit code or "time"."""
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "rows"
        environment = {
            **os.environ,
            "LIGER_KERNEL_IMPL": "ligerdsl",
            "LIGER_COUNTS": str(rows),
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))}
        if workers > 1:
            environment["OMP_NUM_THREADS"] = "1"
        process = subprocess.Popen(pytest_command(options, tests, selection, workers),
                                   cwd=options.liger, env=environment, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            code = "time"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
        found = {}
        for line in rows.read_text().splitlines() if rows.exists() else ():
            row = json.loads(line)
            found[row["test"]] = row
        return list(found.values()), code


def summary(rows):
    """Returns {file: counts, the library's operations, Liger's kernels}."""
    files = {}
    for row in rows:
        file = files.setdefault(row["test"].split("::")[0],
                                {"counts": collections.Counter(), "calls": collections.Counter(),
                                 "triton": collections.Counter(), "tests_with_our_calls": 0})
        file["counts"][row["outcome"]] += 1
        file["calls"].update(row["calls"])
        file["triton"].update(row["triton"])
        file["tests_with_our_calls"] += bool(row["calls"])
    return files


def versions():
    import liger_kernel  # noqa: F401
    import torch
    import transformers
    from importlib.metadata import version

    import ligerdsl
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return {"library": ligerdsl.build_info(), "liger": version("liger-kernel"),
            "torch": torch.__version__, "transformers": transformers.__version__,
            "python": sys.version.split()[0], "device": device}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("liger", type=pathlib.Path)
    parser.add_argument("--groups", type=lambda text: text.split(","), default=list(GROUPS),
                        help="of " + ", ".join(GROUPS))
    parser.add_argument("--files", type=lambda text: text.split(","),
                        help="instead of groups: files under test")
    parser.add_argument("--select", help="as pytest's -k")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget-s", type=float, default=3600,
                        help="of the whole run; what is left for a group is its limit")
    parser.add_argument("--test-s", type=int, default=300, help="of one test")
    parser.add_argument("--ours", action="store_true",
                        help="a file in which no operation of the library ran, or one of Liger's "
                             "kernels, is a failure")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--log", type=pathlib.Path, help="pytest's output")
    options = parser.parse_args()
    if not (options.liger / "test").is_dir():
        parser.error(f"{options.liger} has no folder test: expected Liger-Kernel's sources")
    options.out = options.out.resolve()
    groups = {"files": (options.files, options.select)} if options.files else {
        name: GROUPS[name] for name in options.groups}
    deadline = time.monotonic() + options.budget_s
    result = {"what": "Liger-Kernel's own tests with LIGER_KERNEL_IMPL=ligerdsl",
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
              **versions(),
              "workers": options.workers,
              "groups": {}}
    bad = False
    log = open(options.log or os.devnull, "w")
    for name, (files, selection) in groups.items():
        begin, tests = time.monotonic(), [f"test/{file}" for file in files]
        rows, code = run(options, tests, selection, options.workers, deadline - begin, log)
        failed = [row["test"] for row in rows if row["outcome"] == "failed"]
        group = result["groups"][name] = {"exit": code,
                                          "seconds": 0,
                                          "files": summary(rows),
                                          "failed": {row["test"]: {"why": row["why"]}
                                                     for row in rows if row["outcome"] == "failed"}}

        def write():
            group["seconds"] = round(time.monotonic() - begin, 1)
            options.out.write_text(json.dumps(result, indent=1) + "\n")

        write()
        if (failed and options.workers > 1 and len(failed) <= 60
            and deadline - time.monotonic() > 10):
            again, _ = run(options, failed, None, 1, min(60.0, deadline - time.monotonic()), log)
            for row in again:
                group["failed"].setdefault(row["test"], {})["alone"] = row["outcome"]
            write()
        counts = sum((file["counts"] for file in group["files"].values()), collections.Counter())
        print(f"{name}: {dict(counts)}, exit {code}, {group['seconds']} s", flush=True)
        if options.ours and len(group["files"]) < len(files):
            print(f"  expected tests of {len(files)} files, got {len(group['files'])}", flush=True)
            bad = True
        for file, each in group["files"].items():
            print(f"  {file}: {dict(each['counts'])}, ours in {each['tests_with_our_calls']}, "
                  f"Triton {dict(each['triton'])}",
                  flush=True)
            if options.ours and (each["triton"] or not each["tests_with_our_calls"]):
                print(f"  {file}: expected the library's operations and none of Liger's kernels",
                      flush=True)
                bad = True
        for test, each in group["failed"].items():
            print(f"  FAILED {test} alone: {each.get('alone', '?')}: "
                  f"{(each.get('why') or '').strip().splitlines()[-1:]}"[:330],
                  flush=True)
        bad |= bool(failed) or code not in (0, 5)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

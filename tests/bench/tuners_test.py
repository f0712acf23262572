"""tuners_test.py ROOT COMMAND FOLDER: tests bench/tuners.py without a GPU: its counts, and our side
on the CPU."""

import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT, COMMAND, FOLDER = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
sys.path.insert(0, str(ROOT / "bench"))

import tuners  # noqa: E402
import tuners_triton  # noqa: E402


class Tuners(unittest.TestCase):
    def test_every_file_parses(self):
        for name in ("tuners.py", "tuners_triton.py", "tuners_kernels.py"):
            ast.parse((ROOT / "bench" / name).read_text())

    def test_both_sides_try_equally_many_configurations(self):
        self.assertEqual(len(tuners_triton.fields()), tuners.CONFIGURATIONS)
        for count in (1, 7, 24, tuners.CONFIGURATIONS):
            chosen = tuners_triton.chosen(count)
            self.assertEqual((len(chosen), len(set(chosen))), (count, count))
        self.assertEqual(len(tuners_triton.chosen(1000)), tuners.CONFIGURATIONS)
        for one in tuners_triton.fields():
            self.assertEqual(tuners_triton.config_numbers(tuners_triton.config_text(*one)), one)

    def test_timed_launches_are_counted(self):
        trials = [
            {"fate": "ok", "samples": 5, "us": [1.0]}, {"fate": "slow", "samples": 5, "us": [9.0]},
            {"fate": "compile", "samples": 0, "us": []}, {"fate": "ok", "samples": 45, "us": [1.0]}]
        launches = tuners.timed_launches(trials)
        self.assertEqual(launches, 2 * (8 + 3 + 48))
        for configurations in (1, 5, 48):
            self.assertGreaterEqual(tuners.samples_each(launches, configurations) * configurations,
                                    launches)
        source = (ROOT / "lib/cli/tune/tune_worker.cpp").read_text()
        self.assertIn(f"constexpr int kFirstSamples = {tuners.FIRST_SAMPLES};", source)

    def test_our_side_runs(self):
        out = FOLDER / "tuners.json"
        done = subprocess.run(
            [sys.executable, "-B", ROOT / "bench/tuners.py", "--command", COMMAND, "--device",
             "cpu", "--out", out, "--operations", "softmax_forward", "--shapes", "64x512", "8x64",
             "--repetitions", "1", "--configurations", "3"],
            env={name: value for name, value in os.environ.items()
                 if not name.startswith("LIGERDSL_")} | {"LIGERDSL_COLD_MEGABYTES": "8"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        result = json.loads(out.read_text())
        self.assertEqual(set(result["modes"]), {"triton", "triton_own_samples", "triton_as_it_is"})
        self.assertIn("process_seconds", result["method"])
        self.assertEqual([row["shape"] for row in result["rows"]], [[64, 512], [8, 64]])
        for row in result["rows"]:
            self.assertEqual(len(row["repetitions"]), 1)
            for one in row["repetitions"]:
                ours = one["ligerdsl"]
                self.assertLess(0, ours["search_seconds"])
                self.assertLess(ours["search_seconds"], ours["process_seconds"])
                self.assertIn(ours["configurations"], (1, 2, 3))
                self.assertLessEqual(2 * 8, ours["timed_launches"])
                self.assertEqual({one[mode]["error"] for mode in result["modes"]},
                                 {"not run: Triton needs a GPU; use --device cuda:0"})
            self.assertEqual(set(row["medians"]), {"ligerdsl"})

    def test_failed_command_is_reported(self):
        out = FOLDER / "failed.json"
        done = subprocess.run([sys.executable, "-B", ROOT / "bench/tuners.py", "--command", COMMAND,
                               "--device", "cpu", "--out", out, "--operations", "no_such_operation",
                               "--shapes", "64x512", "--repetitions", "1"],
                              stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no_such_operation",
                      json.loads(out.read_text())["rows"][0]["repetitions"][0]["ligerdsl"]["error"])


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    unittest.main(argv=sys.argv[:1])

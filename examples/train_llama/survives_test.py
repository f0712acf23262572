"""survives_test.py TRAIN_LLAMA FOLDER: runs with diverging losses, full disks, signals and wrong
arguments."""

import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
import unittest

program, folder = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).absolute()
here = pathlib.Path(__file__).parent
SMALL = ["--layers", "1", "--width", "32", "--heads", "4", "--kv-heads", "2", "--ffn", "48",
         "--context", "32", "--batch", "4", "--eval-batches", "2", "--warmup", "2", "--sample", "0",
         "--no-table"]
TEXT = ["--text", str(here / "model.cpp"), str(here / "ops.cpp")]
NO_PICTURE = ["--no-loss-svg"]
FOREVER = ["--steps", "1000000", "--eval-every", "5"]
LIMIT = 20000  # limit of a file's bytes: smaller than a checkpoint, larger than the other results


class Survives(unittest.TestCase):
    def setUp(self):
        self.work = folder / self.id().split(".")[-1]
        self.work.mkdir(parents=True)
        self.checkpoint = self.work / "run.ckpt"
        self.environment = dict(os.environ, LIGERDSL_CACHE_DIR=str(folder / "cache"))

    def start(self, *arguments, stdout=subprocess.PIPE, **options):
        text = [] if {"--text", "--source-dir"} & set(arguments) else TEXT
        return subprocess.Popen([program, *SMALL, *text, *map(str, arguments)], cwd=self.work,
                                env=self.environment, stdout=stdout, stderr=subprocess.PIPE,
                                text=True, **options)

    def finish(self, process, status):
        output, errors = process.communicate(timeout=240)
        output = output or ""
        self.assertEqual(process.returncode, status, output + errors)
        return output, errors

    def train(self, *arguments, status=0, **options):
        return self.finish(self.start(*arguments, **options), status)

    def files(self):
        return sorted(path.name for path in self.work.iterdir())

    def results(self, name):
        return json.loads((self.work / name).read_text())

    # ---- Values that are not finite

    def test_a_diverging_run_keeps_the_good_checkpoint(self):
        self.train("--steps", 40, "--stop-after", 10, "--checkpoint", "run.ckpt", *NO_PICTURE)
        good = self.checkpoint.read_bytes()
        _, errors = self.train("--steps", 40, "--eval-every", 1, "--lr", 1e30, "--resume",
                               "run.ckpt", "--checkpoint", "run.ckpt", "--json", "out.json",
                               *NO_PICTURE, status=1)
        self.assertRegex(errors, r"step 1\d.* is (infinite|not a number)")
        self.assertIn("Nothing was saved.\nThe last good state, step 10, is in run.ckpt.", errors)
        self.assertIn("--lr 3.33e+29", errors)
        self.assertEqual(self.checkpoint.read_bytes(), good)
        self.assertEqual(self.files(), ["run.ckpt"])

    def test_weights_that_overflow_are_never_saved(self):
        # The first gradient is finite, but the large learning rate makes the weights overflow.
        _, errors = self.train("--steps", 5, "--warmup", 0, "--eval-every", 1, "--lr", 3e38,
                               "--checkpoint", "run.ckpt", *NO_PICTURE, status=1)
        self.assertIn("Nothing was saved", errors)
        self.assertIn(
            "No earlier state of this run was saved. Start again with a lower learning rate",
            errors)
        self.assertEqual(self.files(), [])

    def test_a_diverging_run_keeps_another_runs_checkpoint(self):
        self.train("--steps", 3, "--checkpoint", "run.ckpt", *NO_PICTURE)
        good = self.checkpoint.read_bytes()
        _, errors = self.train("--steps", 5, "--warmup", 0, "--lr", 3e38, "--checkpoint",
                               "run.ckpt", *NO_PICTURE, status=1)
        self.assertIn("run.ckpt still holds step 3 of another run", errors)
        self.assertEqual(self.checkpoint.read_bytes(), good)

    # ---- The disk

    def limited(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, resource.RLIM_INFINITY))

    def test_a_full_disk_does_not_end_the_training(self):
        self.train("--steps", 40, "--stop-after", 4, "--checkpoint", "run.ckpt", *NO_PICTURE)
        good = self.checkpoint.read_bytes()
        self.assertGreater(len(good), LIMIT)
        output, errors = self.train("--steps", 40, "--resume", "run.ckpt", "--checkpoint",
                                    "run.ckpt", "--json", "out.json", *NO_PICTURE, status=1,
                                    preexec_fn=self.limited)
        self.assertIn("step     40/40", output)
        self.assertIn("run.ckpt, step 4\n", output)
        self.assertEqual(errors.count("warning:"), 1, errors)
        self.assertRegex(
            errors,
            "warning: step 8 could not be saved: .*run.ckpt: File too large; run.ckpt keeps step 4")
        self.assertRegex(errors, "the last state, step 40, could not be saved: .*File too large")
        self.assertEqual(self.checkpoint.read_bytes(), good)
        self.assertEqual(self.files(), ["out.json", "run.ckpt"])
        self.assertFalse(self.results("out.json")["saved"])

    def test_saving_is_tried_again(self):
        process = self.start("--steps", 60, "--eval-every", 1, "--checkpoint", "run.ckpt",
                             *NO_PICTURE, preexec_fn=self.limited)
        self.assertIn("warning: step 1 could not be saved", process.stderr.readline())
        process.send_signal(signal.SIGSTOP)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE,
                         (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        process.send_signal(signal.SIGCONT)
        output, _ = self.finish(process, 0)
        self.assertIn("checkpoint: run.ckpt, step 60\n", output)
        self.assertEqual(self.files(), ["run.ckpt"])

    def test_full_standard_output_does_not_end_the_training(self):
        with open("/dev/full", "w") as full:
            _, errors = self.train("--steps", 20, "--json", "out.json", *NO_PICTURE, status=1,
                                   stdout=full)
        self.assertIn("standard output could not be written", errors)
        self.assertEqual(self.results("out.json")["steps"], 20)

    # ---- Signals

    def stop(self, number, *arguments):
        process = self.start(*FOREVER, *arguments, *NO_PICTURE)
        for line in process.stdout:
            if line.startswith("step"):
                break
        process.send_signal(number)
        return self.finish(process, 128 + number)[0]

    def test_signals_save_and_print_the_resume_command(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            name = f"{number.name}.ckpt"
            output = self.stop(number, "--checkpoint", name)
            step = int(re.search(rf"stopped by {number.name} after step (\d+) of 1000000\n",
                                 output)[1])
            self.assertIn(f"step {step} is saved in {name}; to continue from it:\n", output)
        self.assertEqual(len(self.files()), 3)

        # The command that the run printed continues the run with the same bits.
        command = output.split("to continue from it:\n")[1].splitlines()[0].strip()
        self.assertIn("--resume", shlex.split(command))
        last = step + 7
        subprocess.run(f"{command} --stop-after {last} --json resumed.json", shell=True, check=True,
                       cwd=self.work, env=self.environment, stdout=subprocess.DEVNULL)
        self.train(*FOREVER, "--stop-after", last, "--json", "whole.json", *NO_PICTURE)
        whole, resumed = self.results("whole.json"), self.results("resumed.json")
        self.assertEqual([point[0] for point in resumed["training"]], list(range(1, last + 1)))
        self.assertEqual(resumed["training"], whole["training"])
        self.assertEqual(resumed["held_out"], whole["held_out"])
        self.assertEqual(resumed["held_out_bits"], whole["held_out_bits"])

    def test_signal_without_a_checkpoint(self):
        output = self.stop(signal.SIGINT)
        self.assertRegex(output, r"stopped by SIGINT after step \d+")
        self.assertRegex(output,
                         r"the \d+ steps of this run were not saved: pass --checkpoint FILE")
        self.assertEqual(self.files(), [])

    def test_a_signal_before_the_first_step(self):
        process = self.start(*FOREVER, "--checkpoint", "run.ckpt", *NO_PICTURE)
        self.assertIn("text:", process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        output, _ = self.finish(process, 143)
        self.assertRegex(output, "no step was done, nothing was saved|is saved in run.ckpt")

    def test_a_second_signal_ends_at_once(self):
        slow = ["--batch", "1024", "--context", "64", "--steps", "3"]
        # an empty kernel cache, so compiling takes seconds before the first step
        self.environment["LIGERDSL_CACHE_DIR"] = str(self.work / "cache")
        process = self.start(*slow, *NO_PICTURE)
        self.assertIn("text:", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        self.finish(process, -signal.SIGTERM)

    def test_nohup_is_respected(self):
        process = self.start("--steps", 60, *NO_PICTURE,
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertIn("text:", process.stdout.readline())
        process.send_signal(signal.SIGHUP)
        self.finish(process, 0)

    # ---- A run in two parts

    def test_two_halves_equal_one_run(self):
        self.train("--steps", 20, "--checkpoint", "whole", "--json", "whole.json", "--loss-svg",
                   "whole.svg")
        self.train("--steps", 20, "--checkpoint", "half", "--stop-after", 10, "--loss-svg",
                   "half.svg")
        output, errors = self.train("--steps", 20, "--checkpoint", "half", "--resume", "half",
                                    "--json", "resumed.json", "--loss-svg", "resumed.svg")
        self.assertEqual(errors, "")
        whole, resumed = self.results("whole.json"), self.results("resumed.json")
        for key in ("training", "held_out", "held_out_bits", "steps"):
            self.assertEqual(resumed[key], whole[key], key)
        self.assertEqual([point[0] for point in resumed["training"]], list(range(1, 21)))
        self.assertEqual(resumed["first_step"], 11)
        self.assertEqual((self.work / "half").read_bytes(), (self.work / "whole").read_bytes())
        picture = (self.work / "whole.svg").read_text()
        self.assertEqual((self.work / "resumed.svg").read_text(), picture)
        self.assertNotEqual((self.work / "half.svg").read_text(), picture)
        # Resuming a finished run does not train, but still reports.
        output, _ = self.train("--steps", 20, "--resume", "half", "--json", "again.json",
                               *NO_PICTURE)
        self.assertIn("nothing to train: 20 of 20 steps are done", output)
        self.assertEqual(self.results("again.json")["training"], whole["training"])

    def test_changed_settings_are_named(self):
        self.train("--steps", 20, "--stop-after", 2, "--checkpoint", "run.ckpt", *NO_PICTURE)
        _, errors = self.train("--steps", 20, "--stop-after", 3, "--batch", 2, "--lr", 1e-3,
                               "--resume", "run.ckpt", *NO_PICTURE)
        self.assertIn("note: this run continues with --batch 2 (was 4), --lr 0.001 (was 0.003)",
                      errors)
        _, errors = self.train("--steps", 20, "--layers", 2, "--resume", "run.ckpt", *NO_PICTURE,
                               status=1)
        self.assertIn("another model: layers 1 (this run: 2); to continue from it, pass --layers 1"
                      "\n", errors)

    # ---- The command line

    def refuse(self, *arguments, status=1):
        output, errors = self.train(*arguments, status=status)
        self.assertNotIn("kernels ready", output, "found only after the training began")
        return errors

    def test_unwritable_results_are_found_at_the_start(self):
        (self.work / "file").write_text("good")
        for option in ("--checkpoint", "--json", "--loss-svg"):
            for path, reason in (("none/x", "No such file or directory"),
                                 ("file/x", "Not a directory"), (".", "it is a folder")):
                errors = self.refuse(option, path)
                self.assertRegex(
                    errors, rf"train_llama: {option}: cannot write {re.escape(path)}.*: {reason}")
            if os.geteuid() != 0:
                (self.work / "closed").mkdir(0o555, exist_ok=True)
                self.assertIn("Permission denied", self.refuse(option, "closed/x"))
        self.assertIn("--no-loss-svg", self.refuse("--loss-svg", "none/x"))
        self.assertEqual((self.work / "file").read_text(), "good")

    def test_other_files_are_never_replaced(self):
        text = self.work / "book.txt"
        text.write_text("It was a dark and stormy night. " * 400)
        for option in ("--checkpoint", "--json", "--loss-svg"):
            self.assertIn(option, self.refuse("--text", text, option, "./book.txt"))
        self.assertIn("--checkpoint would replace book.txt",
                      self.refuse("--checkpoint", "book.txt"))
        self.assertIn("name the same file", self.refuse("--json", "new", "--checkpoint", "./new"))
        self.assertIn("not a regular file", self.refuse("--checkpoint", "/dev/null", *NO_PICTURE))
        self.assertEqual(self.files(), ["book.txt"])
        self.assertTrue(text.read_text().startswith("It was"))
        part = text.rename(self.work / "book.train_llama-part")
        for option in ("--checkpoint", "--json", "--loss-svg"):
            self.assertRegex(
                self.refuse("--text", part, option, "book"),
                rf"{option} book is first written to .*book\.train_llama-part, "
                "which is the file of --text; name another file")
        self.assertIn(
            "name the same file",
            self.refuse("--json", "book.train_llama-part", "--checkpoint", "book", *NO_PICTURE))
        self.assertTrue(part.read_text().startswith("It was"))
        part.rename(text)
        self.assertTrue(os.path.exists("/dev/null") and not os.path.isfile("/dev/null"))

        self.train("--steps", 2, "--checkpoint", "run.ckpt", *NO_PICTURE)
        self.assertIn("--json run.ckpt would overwrite the checkpoint run.ckpt",
                      self.refuse("--resume", "run.ckpt", "--json", "run.ckpt", *NO_PICTURE))
        _, errors = self.train("--steps", 2, "--checkpoint", "run.ckpt", *NO_PICTURE)
        self.assertIn("note: run.ckpt holds step 2 of another run", errors)

    def test_unreadable_checkpoints_are_refused(self):
        os.mkfifo(self.work / "pipe")
        self.assertIn("is not a regular file",
                      self.train("--resume", "pipe", *NO_PICTURE, status=1)[1])
        self.train("--steps", 2, "--checkpoint", "run.ckpt", *NO_PICTURE)
        good = self.checkpoint.read_bytes()
        damages = {"not a checkpoint of train_llama": b"some text",
                   "the file is truncated": good[:-1000],
                   "its digest does not match": good[:-1000] + b"\1" + good[-999:],
                   "format version 1, this program reads 2": good[:8] + b"\1\0\0\0" + good[12:]}
        for reason, content in damages.items():
            (self.work / "bad").write_bytes(content)
            errors = self.train("--resume", "bad", *NO_PICTURE, status=1)[1]
            self.assertRegex(errors, rf"^train_llama: checkpoint bad: .*{reason}")

    def test_mistakes_are_refused(self):
        (self.work / "one.txt").write_text("x")
        (self.work / "empty").mkdir()
        for arguments, status, words in [
                ("--source-dir empty", 1, "no sources or documents"),
                ("--source-dir none", 1, "--source-dir none is not a folder"),
                ("--text one.txt", 1,
                 "the text is too short: the last tenth of each file is held out, here 0 of 1 "
                 "bytes"),
                ("--text none.txt", 2, "none.txt"),
                ("--text empty", 2, "empty"),
                ("--device cuda:99", 1, "--device cpu"),
                ("--device tpu", 2, "expected cpu or cuda:N"),
                ("--lr nan", 2, "expected a number from"),
                ("--lr 1e300", 2, "expected a number from"),
                ("--clip 0", 2, "expected a number from"),
                ("--steps 0", 2, "--steps"),
                ("--threads 100000", 2, "--threads"),
                ("--width 33", 1, "width 33 is not a multiple of 4 heads"),
                ("--width 65536 --ffn 1048576 --layers 1000", 1,
                 "GiB; lower --batch, --context, --width, --ffn or --layers"),
                ("--batch 1048576", 1, "GiB; lower --batch"),
                ("--resume none", 2, "none"),
                *((f"{option} ''", 2, "expected the name of a file or folder, got ''")
                  for option in ("--checkpoint", "--json", "--loss-svg", "--source-dir")),
                ("--frob", 2, "--frob"),
        ]:
            with self.subTest(arguments):
                self.assertIn(words,
                              self.refuse(*shlex.split(arguments), *NO_PICTURE, status=status))
    def test_prompt_may_have_any_bytes(self):
        with open(os.devnull, "w") as nowhere:
            self.train("--steps", 2, "--sample", 3, "--prompt", os.fsdecode(b"\xff\xfe"), "--json",
                       "out.json", *NO_PICTURE, stdout=nowhere)
        self.assertIn("sample", self.results("out.json"))


shutil.rmtree(folder, ignore_errors=True)
unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])

"""Tests the parts of run.py: mutants, the record of a release, the test that a failed command
names."""
import pathlib
import tempfile
import unittest

from mutants import Mutant, parse
from record import NOT_RUN, Record
from steps import STEPS, UNKNOWN, noticing_test, run

TEXT = """# a comment

== one: the first
file a.cpp
steps passes fuzz
---
  x + 1
+++
  x - 1

== two: the second, which is a removal
file b.cpp
steps abi
---
  check(x);
+++
"""


class Mutants(unittest.TestCase):
    def test_parse_reads_blocks(self):
        one, two = parse(TEXT)
        self.assertEqual(
            one, Mutant("one", "the first", "a.cpp", ["passes", "fuzz"], "  x + 1", "  x - 1"))
        self.assertEqual((two.old, two.new), ("  check(x);", ""))

    def test_mutant_fits_if_its_text_occurs_once(self):
        one, _ = parse(TEXT)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "a.cpp"
            for source, fits in (("  x + 1\n", True), ("  x + 2\n", False),
                                 ("  x + 1\n  x + 1\n", False)):
                file.write_text(source)
                self.assertEqual(one.fits(file.parent), fits, source)

    def test_list_has_known_steps_and_distinct_names(self):
        mutants = parse((pathlib.Path(__file__).parent / "mutants.txt").read_text())
        self.assertEqual(len({mutant.name for mutant in mutants}), len(mutants))
        for mutant in mutants:
            self.assertTrue(mutant.steps and set(mutant.steps) <= set(STEPS), mutant.name)


class Records(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name) / "results" / "1.0.json"
        self.mutants = parse(TEXT)
        record = Record(self.file)
        for mutant in self.mutants:
            record.set(mutant, "killed", mutant.steps[0], "A.Test", "abc")
        record.write(self.mutants)

    def faults(self, mutants=None, complete=False):
        return list(Record(self.file).faults(mutants or self.mutants, complete))

    def test_record_round_trips(self):
        self.assertEqual(self.faults(complete=True), [])
        entry = Record(self.file).of(self.mutants[0])
        self.assertEqual((entry["verdict"], entry["step"], entry["test"], entry["commit"]),
                         ("killed", "passes", "A.Test", "abc"))
        self.assertEqual(Record(self.file).summary(), "2 killed, 0 survived, 0 not run")

    def test_new_changed_and_removed_mutants_are_faults(self):
        new = parse(TEXT + "\n== three: more\nfile a.cpp\nsteps abi\n---\na\n+++\nb\n")
        self.assertEqual(len(self.faults(new)), 1)
        self.assertIn("three: not recorded", self.faults(new)[0])
        self.assertIn("one: changed", self.faults(parse(TEXT.replace("x - 1", "x - 2")))[0])
        self.assertIn("two: recorded, but not in mutants.txt", self.faults(self.mutants[:1])[0])

    def test_write_keeps_exactly_the_mutants_and_marks_those_not_run(self):
        changed = parse(TEXT.replace("x - 1", "x - 2"))[:1]
        record = Record(self.file)
        record.write(changed)
        self.assertEqual(
            {name: entry["verdict"] for name, entry in Record(self.file).entries.items()},
            {"one": NOT_RUN})
        self.assertEqual(self.faults(changed), [])
        self.assertIn("one: not run", self.faults(changed, complete=True)[0])

    def test_survivor_is_a_fault(self):
        record = Record(self.file)
        record.set(self.mutants[1], "survived", "", "", "abc")
        record.write(self.mutants)
        self.assertIn("two: survived", self.faults()[0])


class Steps(unittest.TestCase):
    def test_noticing_test_names_the_failed_test(self):
        gtest = ("[ RUN      ] A.b\n[  FAILED  ] A.b (3 ms)\n[==========] 1 test ran.\n"
                 "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.b\n")
        self.assertEqual(noticing_test(gtest), "A.b")
        self.assertEqual(noticing_test("[ RUN      ] A.b\n[       OK ] A.b (3 ms)\n"
                                       "[ RUN      ] A.dies/2\nAborted\n"),
                         "A.dies/2")
        self.assertEqual(noticing_test("[  FAILED  ] A.b\nThe following tests FAILED:\n"
                                       "\t 28 - compiler_passes (Failed)\n"),
                         "compiler_passes")
        self.assertEqual(noticing_test("nothing"), UNKNOWN)

    def test_step_runs_all_tests_or_the_given_ones(self):
        for step in STEPS.values():
            self.assertEqual(step.command_of(()), step.command)
            self.assertEqual(step.command_of(["A.b", UNKNOWN]), step.command)
        self.assertTrue(
            STEPS["kernels-ptx"].command_of(["A.b", "C.d"]).endswith("--gtest_filter='A.b:C.d'"))
        self.assertTrue(STEPS["runtime"].command_of(["A.b", "C.d"]).endswith("-R '^(A.b|C.d)$'"))

    def test_failing_and_hanging_commands_are_red(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log.txt"
            self.assertEqual(run("echo fine", folder, log), (True, "fine\n"))
            self.assertEqual(run("echo wrong; exit 3", folder, log), (False, "wrong\n"))
            self.assertEqual(run("sleep 30", folder, log, limit=0.1), (False, "timed out\n"))


if __name__ == "__main__":
    unittest.main()

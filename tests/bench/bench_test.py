"""bench_test.py ROOT LIBRARY FOLDER: tests the parts of bench/ that need no torch."""

import ast
import ctypes
import json
import math
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import types
import unittest
import xml.etree.ElementTree as ElementTree

ROOT, LIBRARY, FOLDER = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
sys.path.insert(0, str(ROOT / "bench"))

import baselines  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import sets  # noqa: E402
import svg  # noqa: E402
from ligerdsl_ctypes import Error, Library  # noqa: E402


class Sets(unittest.TestCase):
    FILES = [ast.parse(file.read_text()) for file in (ROOT / "bench/cases").glob("*.py")]
    NODES = [node for file in FILES for node in ast.walk(file)]
    BUILDERS = {node.name for node in NODES if isinstance(node, ast.FunctionDef)
                and any(getattr(each, "id", "") == "case" for each in node.decorator_list)}

    def test_every_kernel_has_a_builder_and_a_small_case(self):
        self.assertEqual({case.kernel for case in sets.select(list(sets.SETS))}, self.BUILDERS)
        self.assertEqual({case.kernel for case in sets.smoke()}, self.BUILDERS)

    def test_every_operation_is_compared_or_has_a_reason(self):
        texts = {node.value for node in self.NODES if isinstance(node, ast.Constant)}
        operations = {op.name for op in sets.OPS}
        for op in sets.OPS:
            name = op.name.removesuffix("_forward").removesuffix("_backward")
            kernel = op.name if name in operations else name
            compared = op.name in texts or kernel in self.BUILDERS
            self.assertNotEqual(compared, bool(op.not_compared), f"{op.name}: bench/cases has "
                                f"{'' if compared else 'no '}contender of it; see not_compared")

    def test_a_case_appears_once_and_in_order(self):
        both = sets.select(["issue3-table", "figure"])
        self.assertEqual(len(both), len(set(both)))
        self.assertEqual(both[:12], sets.geometric_mean())

    def test_unknown_names_are_refused_with_the_known_ones(self):
        for names, only, text in ((["nothing"], (), "unknown set or model 'nothing'"),
                                  (["flce"], ["rms_norm"], "have no kernel rms_norm")):
            with self.assertRaises(KeyError) as caught:
                sets.select(names, only)
            self.assertIn(text, caught.exception.args[0])

    def test_the_other_dtypes_are_timed_at_shapes_timed_in_bf16(self):
        bf16 = {(case.kernel, case.shape) for case in sets.table() + sets.issue2()
                if case.dtype == "bf16"}
        for dtype in ("f16", "f32"):
            others = {(case.kernel, case.shape) for case in sets.dtypes() if case.dtype == dtype}
            self.assertLessEqual(others, bf16)
            self.assertEqual(
                {kernel for kernel, _ in others},
                {"rms_norm", "layer_norm", "swiglu", "geglu", "rope", "cross_entropy", "softmax"})


def row(kernel, pass_name, shape, provider, us, **more):
    return {"kernel": kernel, "pass": pass_name, "shape": list(shape), "dtype": "bf16",
            "provider": provider, "us": us, "us_p20": us * 0.9, "us_p80": us * 1.1, "wall_us": us,
            "host_us": 4.0, "gbps": 1000.0, "frac_copy": 0.5, "frac_same_copy": 0.6, "peak_mb": 1.0,
            "workspace_mb": 0.0, "max_error": 1e-3, **more}


COMMIT = "0123456789abcdef" * 2 + "01234567"
ABOUT = {"device": "NVIDIA H200",
         "driver": "580.0",
         "date": "2030-01-02",
         "run": 1,
         "command": "a command",
         "torch": "2.11.0",
         **results.build_fields(f"0.1.0-x commit {COMMIT} clean")}


class Results(unittest.TestCase):
    def file(self, name="result.json", **about):
        return results.ResultFile(FOLDER / name, {**ABOUT, **about})

    def test_a_complete_result_has_no_problems(self):
        file = self.file()
        file.add([row("rms_norm", "fwd", (4, 8), "ligerdsl", 2.0),
                  row("rms_norm_chain", "chain", (4, 8), "ligerdsl", 2.0)])
        self.assertEqual(results.problems(json.loads(file.path.read_text())), [])

    def test_every_missing_or_senseless_field_is_a_problem(self):
        for name in results.ROW:
            for value in (None, float("nan"), "x" if name in ("us", "shape", "pass") else -1.0):
                file = self.file()
                file.rows.append({**row("rms_norm", "fwd", (4, 8), "ligerdsl", 2.0), name: value})
                self.assertTrue(any(name in text for text in results.problems(file.data)),
                                (name, value))
        for name in results.RUN:
            self.assertIn(name,
                          " ".join(results.problems({
                              k: v for k, v in self.file().data.items() if k != name})))

    def test_another_build_is_not_resumed(self):
        self.file("old.json").write()
        for name in results.SAME:
            with self.assertRaisesRegex(ValueError, name):
                self.file("new.json", **{name: "other"}).resume(FOLDER / "old.json")

    def test_resuming_keeps_rows_and_failures(self):
        case = sets.Wanted("rms_norm", (4, 8))
        old = self.file("old.json")
        old.add([row("copy", "fwd", (1,), "copy", 1.0),
                 row("rms_norm", "fwd", (4, 8), "ligerdsl", 2.0)])
        old.fail(case, "liger", "broke")
        new = self.file("new.json")
        new.resume(old.path)
        self.assertTrue(new.has(case, "ligerdsl") and new.has(case, "liger"))
        self.assertFalse(new.has(case, "torch"))
        self.assertEqual([r["kernel"] for r in new.rows], ["rms_norm"])  # `copy` runs again
        new.drop(case)
        self.assertFalse(new.has(case, "ligerdsl"))

    def test_a_failures_text_is_one_line(self):
        file = self.file()
        file.fail(sets.Wanted("rms_norm", (4, 8)), "quack",
                  "Error: \n\x1b[91m\x1b[1merror\x1b[0m\n  no such\tcopy")
        self.assertEqual(file.data["failures"][0]["error"], "Error: error no such copy")

    def test_kernel_times_are_noted_where_a_host_waits(self):
        case, file = sets.Wanted("cross_entropy", (4, 8)), self.file()
        file.add([row("cross_entropy", "fwd", (4, 8), "liger", 9.0, host_waits=True),
                  row("cross_entropy", "full", (4, 8), "liger", 9.0),
                  row("cross_entropy", "full", (4, 8), "torch", 9.0),
                  row("rms_norm", "full", (4, 8), "liger", 9.0, host_waits=True)])
        self.assertEqual(file.waiting(case), ["liger"])
        file.note_kernels(case, "liger", {"fwd": 5.0, "full": 7.0})
        self.assertEqual(file.waiting(case), [])
        self.assertEqual([r.get("us_kernels") for r in file.rows], [5.0, 7.0, None, None])

    def test_ratios_are_peer_over_ours(self):
        rows = [row("swiglu", "fwd", (4, 8), "ligerdsl", 2.0),
                row("swiglu", "fwd", (4, 8), "torch", 6.0)]
        self.assertEqual([(r["peer"], r["speedup"]) for r in results.ratios(rows)],
                         [("torch", 3.0)])


class Baselines(unittest.TestCase):
    """Tests `baselines.py add` and the pages that report.py makes from its tables."""

    def setUp(self):
        self.folder = FOLDER / "baselines"
        shutil.rmtree(self.folder, ignore_errors=True)

    def run_of(self, rows, commit=COMMIT, state="clean", **about):
        text = f"0.1.0-x commit {commit} {state}" if commit else "0.1.0-x"
        file = results.ResultFile(FOLDER / "run.json",
                                  {**ABOUT, **about, **results.build_fields(text)})
        file.add([row("copy", "fwd", (1 << 31,), "copy", 1000.0), *rows])
        return file

    def add(self, rows, **about):
        return baselines.Tables(self.folder).add(self.run_of(rows, **about).data)

    def rows(self):
        return baselines.Tables(self.folder).read("h200.csv")

    def pages(self, goals=()):
        """Returns all pages as one text, and {name: plot}."""
        files = report.report(self.folder, goals)
        return (
            "".join(text for name, text in files.items() if name.endswith(".md")),
            {name.split("/")[-1]: text for name, text in files.items() if name.endswith(".svg")})

    def page(self):
        return self.pages()[0]

    def pair(self, ours, theirs, **more):
        return [row("swiglu", "full", (16384, 14336), "ligerdsl", ours),
                row("swiglu", "full", (16384, 14336), "liger", theirs, **more)]

    def test_pages_show_ours_peers_bare_products_and_plots(self):
        rows = []
        for v in (40960, 81920, 122880):
            rows += [row("cross_entropy", "full", (4096, v), "ligerdsl", v / 100),
                     row("cross_entropy", "full", (4096, v), "liger", v / 50)]
        shape = (4096, 4096, 128256)
        rows += [row("fused_linear_cross_entropy", "full", shape, "floor", 16000.0,
                     us_sustained=18000.0),
                 row("fused_linear_cross_entropy", "full", shape, "ligerdsl", 17600.0,
                     us_sustained=18900.0, workspace_mb=1050.0),
                 row("fused_linear_cross_entropy", "full", shape, "quack_logits", 17000.0,
                     us_sustained=18800.0)]
        rows += [row("rms_norm_chain", "chain", (2048, 4096), "ligerdsl", 26.5, us_graph=25.5),
                 row("rms_norm", "fwd", (16384, 4096), "ligerdsl", 69.5),
                 row("rms_norm", "fwd", (16384, 4096), "liger_cute", 139.0),
                 row("rms_norm", "full", (16384, 4096), "ligerdsl", 170.0),
                 row("rms_norm", "full", (16384, 4096), "liger_cute", 340.0),
                 row("cross_entropy", "full", (4096, 40960), "ligerdsl", 800.0, dtype="f32"),
                 row("cross_entropy", "full", (4096, 40960), "compile_max", 880.0, dtype="f32"),
                 row("flce_trained", "full", (2048, 1024, 32000), "liger", 9.0,
                     errors={"loss": 1e-7, "dx": 0.019, "dw": 0.014})]
        file = self.run_of(rows)
        file.fail(sets.Wanted("rms_norm", (16384, 4096)), "quack", "broke: it | did")
        baselines.Tables(self.folder).add(file.data)
        text, plots = self.pages()
        for expected in (
                "| cross entropy | 4096x40960 | 409.6 | 819.2 | Liger | 2.00 |  |  | 0.60 | 1, 1 |",
                "| fused linear cross entropy, bursts | 4096x4096x128256 | 17.60 ms | 17.00 ms | "
                "QuACK, stored logits | 0.97 |",
                "| rms norm | 16384x4096 | 170.0 | 340.0 | Liger CuTe | 2.00 | 2.00 |  | 0.60 |",
                "| cross entropy | 2 | 2.00 |  |  |",
                "| 4096x4096x128256 | libligerdsl | 17.6 (1.10) | 18.9 (1.05) | 1 | 1050 | 1.0e-03 "
                "|",
                "| 2048x4096 | libligerdsl | 26.5 | 25.5 | 4.0 |",
                "| Liger |  |  |  | 1.0e-07, 1.9e-02, 1.4e-02 |",
                "| cross entropy f32 | 1 | 1.10 |  |  |",
                "| rms_norm | QuACK | 16384x4096 | broke: it / did |",
                f"| 2030-01-02 | 1 | {COMMIT[:12]} | NVIDIA H200 | 580.0 | 2.11.0 |",
                "(cross_entropy-speed.svg)"):
            self.assertIn(expected, text)
        self.assertEqual(sorted(plots), ["cross_entropy-memory.svg", "cross_entropy-speed.svg"])
        drawing = ElementTree.fromstring(plots["cross_entropy-speed.svg"])
        self.assertEqual(len(drawing.findall("{http://www.w3.org/2000/svg}circle")), 6)

    def test_changed_sources_and_unknown_commits_are_refused(self):
        for about, word in ({"state": "dirty"}, COMMIT), ({"commit": None}, "no commit"):
            with self.assertRaisesRegex(baselines.Refused, word):
                self.add(self.pair(1.0, 2.0), **about)
            said = subprocess.run([sys.executable, "-B", ROOT / "bench/baselines.py", "add",
                                   "--baselines", self.folder, FOLDER / "run.json"],
                                  capture_output=True, text=True)
            self.assertEqual(said.returncode, 1)
            self.assertIn("run.json", said.stderr)
        self.assertEqual(self.rows(), [])

    def test_a_run_replaces_the_rows_of_its_cases_alone(self):
        self.add(self.pair(100.0, 200.0) + [row("geglu", "full", (16384, 14336), "ligerdsl", 70.0)])
        self.add(self.pair(90.0, 270.0), run=2, commit="f" * 40)
        self.assertEqual(
            [(r["kernel"], r["provider"], r["us"], r["run"], r["in_ours"]) for r in self.rows()],
            [("swiglu", "ligerdsl", "90", "2", "1"), ("swiglu", "liger", "270", "2", "3"),
             ("geglu", "ligerdsl", "70", "1", "1")])
        self.assertEqual([run["commit"] for run in baselines.Tables(self.folder).read("runs.csv")],
                         [COMMIT, "f" * 40])
        self.add([row("geglu", "full", (16384, 14336), "ligerdsl", 71.0)], run=3)
        self.assertEqual([run["run"] for run in baselines.Tables(self.folder).read("runs.csv")],
                         ["2", "3"])  # run 3 replaced the last row of run 1

    def test_rows_that_no_page_shows_are_left_out(self):
        key = "swiglu", "full", (16384, 14336)
        self.add([row(*key, "ligerdsl", 100.0), row(*key, "liger", 200.0),
                  row(*key, "liger_cute", 190.0), row(*key, "torch", 400.0),
                  row(*key, "copy", 90.0), row("swiglu", "fwd", key[2], "ligerdsl", 50.0),
                  row("swiglu", "fwd", key[2], "liger", 80.0),
                  row("swiglu", "fwd", key[2], "torch", 200.0)])
        self.assertEqual([(r["pass"], r["provider"]) for r in self.rows()],
                         [("full", "ligerdsl"), ("full", "liger_cute"), ("full", "torch"),
                          ("fwd", "ligerdsl"), ("fwd", "liger")])

    def test_a_case_cut_short_leaves_the_table_as_it_was(self):
        self.add(self.pair(100.0, 200.0))
        file = self.run_of([row("swiglu", "full", (16384, 14336), "ligerdsl", 90.0)], run=2)
        file.data["not_measured"].append("swiglu 16384x14336 bf16 liger: the budget of 9 s is "
                                         "spent")
        said = baselines.Tables(self.folder).add(file.data)
        self.assertIn("before these contenders were measured: liger", said[0])
        self.assertEqual([r["us"] for r in self.rows()], ["100", "200"])

    def test_a_second_run_adds_peers_with_their_ratio(self):
        self.add(self.pair(100.0, 200.0))
        file = self.run_of([row("swiglu", "full", (16384, 14336), "ligerdsl", 120.0),
                            row("swiglu", "full", (16384, 14336), "compile_max", 132.0)], run=2)
        baselines.Tables(self.folder).add(file.data, peers_only=True)
        self.assertEqual([(r["provider"], r["us"], r["run"], r["in_ours"]) for r in self.rows()],
                         [("ligerdsl", "100", "1", "1"), ("liger", "200", "1", "2"),
                          ("compile_max", "132", "2", "1.1")])
        self.assertIn("| swiglu | 16384x14336 | 100.0 | 132.0 | torch.compile max | 1.10 |",
                      self.page())  # ratio within run 2, not 132 / 100
        other = self.run_of([row("swiglu", "full", (16384, 14336), "ligerdsl", 1.0),
                             row("swiglu", "full", (16384, 14336), "quack", 2.0)], commit="f" * 40)
        self.assertIn(f"expected commit {'f' * 12}",
                      baselines.Tables(self.folder).add(other.data, peers_only=True)[0])

    def test_a_peer_that_waits_counts_with_its_kernels_and_a_wrong_one_not(self):
        rows = self.pair(100.0, 300.0, us_kernels=220.0)
        self.add([*rows, row("swiglu", "full", (16384, 14336), "quack", 10.0, max_error=0.5)])
        text = self.page()
        self.assertIn("| swiglu | 16384x14336 | 100.0 | 220.0 | Liger | 2.20 |", text)
        self.assertIn("| swiglu | QuACK | 16384x14336 | wrong: off by 0.5 |", text)

    def test_other_cards_have_a_table_of_their_own(self):
        self.add(self.pair(100.0, 200.0) + [row("swiglu", "fwd", (16384, 14336), "ligerdsl", 40.0)])
        self.add(self.pair(120.0, 240.0), device="NVIDIA H100 80GB HBM3", run=2)
        self.assertEqual(baselines.Tables(self.folder).gpus(), ["h100.csv", "h200.csv"])
        files = report.report(self.folder)
        self.assertIn("NVIDIA H200", files["performance.md"])
        self.assertIn("The large cases, NVIDIA H100", files["performance/details.md"])

    def test_the_geometric_mean_is_of_every_large_case(self):
        rows = []
        for wanted in sets.geometric_mean():
            rows += [row(wanted.kernel, "full", wanted.shape, "ligerdsl", 10.0),
                     row(wanted.kernel, "full", wanted.shape, "torch", 15.0)]
        self.add([*rows[:1], dict(rows[1], us=12.0, us_p20=11.0, us_p80=13.0), *rows[2:]])
        self.assertIn(f"Geometric mean of the 12 large cases: {(1.5 ** 11 * 1.2) ** (1 / 12):.2f}",
                      self.page())
        shutil.rmtree(self.folder)
        self.add(rows[2:])
        self.assertNotIn("Geometric mean", self.page())

    def test_goals_read_their_numbers_from_the_tables(self):
        self.add(self.pair(100.0, 200.0))
        goal = {"area": "A", "what": "gate", "goal": "0.7", "show": "copy", "select": "swiglu",
                "at": "0.7", "reached": "more", "limit": "why"}
        self.assertIn("| gate | 0.7 | 16384x14336 **0.600**; more | why |", self.pages([goal])[0])
        goal |= {"show": "us", "select": "swiglu full 16384x14336", "at": "150"}
        self.assertIn("| gate | 0.7 | 100; Liger 200; more | why |", self.pages([goal])[0])
        with self.assertRaisesRegex(KeyError, "got 'rope', which no row matches"):
            self.pages([goal | {"show": "copy", "select": "rope"}])

    def test_a_run_on_a_cpu_and_a_compile_time_enter_their_tables(self):
        tables, about = (baselines.Tables(self.folder),
                         {"build": f"0.1.0-x commit {COMMIT} clean", "date": "2030-01-02T00:00:00Z",
                          "device": "a CPU"})
        tables.add({**about,
                    "threads": 2,
                    "copy_gb_per_s": 20.0,
                    "results": [
                        {"kernel": "rope", "settings": "dtype=f32", "median_ms": 3.0,
                         "fraction_of_copy": 0.9, "fraction_of_same_size_copy": 0.8}]})
        times = {
            "median_ms": 20.0,
            "p95_ms": 21.0,
            "phases_of_median_ms": {"builder": 1.0, "codegen": 15.0, "link": 2.0, "store": 2.0}}
        tables.add({**about, "kernel": "k", "first": times, "cold": times, "disk": times})
        text = self.page()
        self.assertIn("| rope | dtype=f32 | 3.00 | 0.90 | 0.80 |", text)
        self.assertIn("| a CPU | libligerdsl | k | 20 | 20 (21) | 1, 15, 2 | 20 (21) |", text)

    def test_a_plots_axis_holds_its_points(self):
        for value, top in ((0.7, 1), (1, 1), (1.2, 2), (2.1, 2.5), (99, 100), (4321, 5000)):
            self.assertAlmostEqual(svg.nice_top(value), top)
        drawing = svg.plot("a < b", "x", "y", [1, 2],
                           {"torch": {1: 3.0, 2: 4.0}, "liger": {2: 1.0}})
        self.assertEqual(
            len(ElementTree.fromstring(drawing).findall(".//{http://www.w3.org/2000/svg}circle")),
            3)

    def test_a_legend_of_many_long_names_fits(self):
        names = {str(i): f"a contender with a long name {i}" for i in range(12)}
        drawing = ElementTree.fromstring(svg.plot("title", "x", "y", [1],
                                                  {key: {1: 1.0} for key in names}, names))
        entries = [
            e for e in drawing.iter("{http://www.w3.org/2000/svg}text") if e.text in names.values()]
        places = {(e.get("x"), e.get("y")) for e in entries}
        self.assertEqual(len(places), 12)
        for e in entries:
            self.assertLess(float(e.get("y")), float(drawing.get("height")))
            self.assertLess(float(e.get("x")) + 6 * len(e.text), float(drawing.get("width")))

    def test_the_committed_pages_are_generated(self):
        files = report.report(ROOT / "bench/baselines", report.read_goals(ROOT / "bench/goals.csv"))
        there = [ROOT / "docs/performance.md", *(ROOT / "docs/performance").iterdir()]
        self.assertEqual({str(f.relative_to(ROOT / "docs")): f.read_text() for f in there}, files,
                         "run python3 bench/report.py")
        self.assertLessEqual(files["performance.md"].count("\n"), 75, "one page")
        for name in ("performance.md", "performance/details.md", "performance/goals.md"):
            long = [line for line in files[name].split("\n")
                    if len(line) > 100 and not line.startswith("|")]
            self.assertEqual(long, [], name)


class Floats:
    """The attributes of a tensor that the binding reads."""

    is_cuda, dtype = False, "float32"

    def __init__(self, shape, values=None):
        self.shape = shape
        count = math.prod(shape)
        self.memory = (ctypes.c_float * count)(*(values or [float("nan")] * count))

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def stride(self):
        return [math.prod(self.shape[i + 1:]) for i in range(len(self.shape))]


class Binding(unittest.TestCase):
    def setUp(self):
        self.context = Library(LIBRARY).context(types.SimpleNamespace(type="cpu", index=None))

    def test_a_plan_runs_and_is_right(self):
        rows, width, eps = 5, 37, 1e-6
        numbers = random.Random(1)
        x = [numbers.gauss(0, 1) for _ in range(rows * width)]
        x = list(struct.unpack(f"{len(x)}f", struct.pack(f"{len(x)}f", *x)))
        tensors = {"x": Floats((rows, width), x), "weight": Floats((width,), [1.5] * width),
                   "y": Floats((rows, width)), "rstd": Floats((rows,))}
        run = self.context.plan("rms_norm_forward", n_cols=width, dtype="f32", weight_dtype="f32",
                                eps=eps, with_rstd=1).bind(rows, **tensors)
        run()
        for i in range(rows):
            part = x[i * width:(i + 1) * width]
            rstd = 1 / math.sqrt(sum(v * v for v in part) / width + eps)
            self.assertAlmostEqual(tensors["rstd"].memory[i], rstd, delta=1e-6 * rstd)
            for j, v in enumerate(part):
                self.assertAlmostEqual(tensors["y"].memory[i * width + j], 1.5 * v * rstd,
                                       delta=1e-5)

    def test_mistakes_are_named(self):
        with self.assertRaisesRegex(Error, "unknown fields: columns"):
            self.context.plan("rms_norm_forward", n_cols=8, columns=3, dtype="f32")
        with self.assertRaisesRegex(Error, "INVALID"):
            self.context.plan("rms_norm_forward", n_cols=0, dtype="f32")
        plan = self.context.plan("vector_add", dtype="f32")
        with self.assertRaisesRegex(Error, "unknown arguments: c"):
            plan.bind(4, a=Floats((4,), [1.0] * 4), b=Floats((4,), [1.0] * 4), out=Floats((4,)),
                      c=None)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1])

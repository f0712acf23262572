"""Tests bench/e2e_llama.py and bench/fsdp_llama.py with a tiny model on the CPU, and their
plots."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the sources are not here")


def run(*arguments):
    path = os.pathsep.join(filter(
        None, [os.environ.get("LIGERDSL_PYTHON_PATH"), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-B", *map(str, arguments)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})


def module(name):
    sys.path.insert(0, str(BENCH))
    try:
        spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
        made = importlib.util.module_from_spec(spec)
        sys.modules[name] = made  # dataclasses look modules up here
        spec.loader.exec_module(made)
        return made
    finally:
        sys.path.remove(str(BENCH))


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    out = tmp_path_factory.mktemp("e2e") / "result.json"
    contenders = ["hf", "ligerdsl", "ligerdsl_without_flce", "ligerdsl_without_layers"]
    if importlib.util.find_spec("liger_kernel") and importlib.util.find_spec("triton"):
        contenders.append("liger_on_ligerdsl")
    done = run(BENCH / "e2e_llama.py", "--preset", "tiny", "--device", "cpu", "--dtype", "float32",
               "--sweeps", "batch,length,ablation,timeline,workspace,backend", "--contenders",
               ",".join(contenders), "--steps", 1, "--warmup", 1, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out, contenders, json.loads(out.read_text())


def test_every_point_was_measured(result):
    _, contenders, found = result
    assert ({"date", "device", "torch", "transformers", "library", "rows"} <= found.keys()
            and "commit" in found["library"])
    assert {row["contender"] for row in found["rows"]} == set(contenders)
    count = lambda name, sweep: sum(row["contender"] == name and row["sweep"] == sweep
                                    for row in found["rows"])
    assert (count("hf", "batch") == count("ligerdsl", "batch") == 2
            and count("ligerdsl", "workspace") == 5)
    for row in found["rows"]:
        assert row["sweep"] == "timeline" or row["tokens_per_s"] > 0


def test_contenders_train_the_same_model(result):
    losses = {}
    for row in result[2]["rows"]:
        losses.setdefault((row["batch"], row["length"]), []).append(row["first_loss"])
    for point, values in losses.items():
        assert max(values) - min(values) < 1e-4, point


def test_plots(result, tmp_path):
    done = run(BENCH / "e2e_plot.py", result[0], "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    names = {path.stem for path in tmp_path.glob("*.svg")}
    assert names == {"batch-throughput", "length-throughput", "workspace-throughput",
                     "ablation-throughput"}  # no plot of memory: not measured on a CPU


def test_tables(result, tmp_path):
    """Writing the tables between the page's marks twice gives the same page."""
    found = result[2] | {"rows": [
        *result[2]["rows"],
        {"contender": "ligerdsl", "sweep": "batch", "batch": 4, "length": 16,
         "out_of_memory": True},
        {"contender": "hf", "sweep": "batch", "batch": 4, "length": 16, "skipped": "time"}]}
    (tmp_path / "e2e-2026-01-02.json").write_text(json.dumps(found))
    tables = module("e2e_tables")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n")
    for results in [tmp_path / "e2e-2026-01-02.json"], []:  # with new results; without
        done = run(BENCH / "e2e_tables.py", *results, "--baselines", tmp_path, "--page", page)
        assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    row = next(row for row in found["rows"]
               if row["contender"] == "ligerdsl" and row["sweep"] == "batch")
    assert f"{row['tokens_per_s']:,.0f}" in text and "out of memory" in text and "no time" in text


def test_a_failed_contender_is_listed(tmp_path):
    """Liger's Triton kernels do not run on a CPU."""
    if not importlib.util.find_spec("liger_kernel") or torch.cuda.is_available():
        pytest.skip("nothing fails here")
    out = tmp_path / "result.json"
    done = run(BENCH / "e2e_llama.py", "--preset", "tiny", "--device", "cpu", "--sweeps",
               "ablation", "--contenders", "liger", "--out", out)
    assert done.returncode == 1
    assert [row["contender"] for row in json.loads(out.read_text())["rows"] if "failed" in row] == [
        "liger"]


def test_memory_of_a_step_and_its_plot(tmp_path):
    events = [{"action": action, "size": size, "time_us": time} for action, size, time in [
        ("alloc", 3_000_000, 1000), ("segment_alloc", 9, 1500), ("alloc", 2_000_000, 2000),
        ("free_requested", 3_000_000, 3000), ("free_completed", 3_000_000, 4000)]]
    points = module("e2e_llama").curve(events, 1_000_000)
    assert points == [[0.0, 4.0], [1.0, 6.0], [3.0, 3.0]]
    many = module("e2e_llama").curve([{"action": "alloc" if i % 2 == 0 else "free_completed",
                                       "size": 1_000_000,
                                       "time_us": i} for i in range(100_000)], 0)
    assert len(many) <= 4000 and max(mb for _, mb in many) == 1.0 and many[-1] == [99.999, 0.0]
    assert many == sorted(many, key=lambda point: point[0])
    plots = module("e2e_plot").timeline_plot({
        "preset": "tiny",
        "rows": [{"contender": "hf", "batch": 1, "length": 2, "timeline": points}]})
    assert (list(plots) == ["timeline"] and plots["timeline"].startswith("<svg")
            and "GB allocated" in plots["timeline"])


def test_what_is_measured():
    e2e = module("e2e_llama")
    points = e2e.points_of(e2e.PRESETS["llama-3.2-1b"], ["batch", "length", "ablation"])
    assert (("batch", 144, 1024, None) in points["ligerdsl"]
            and ("length", 4, 36864, None) in points["liger"])
    assert (("ablation", 4, 1024, None) in points["ligerdsl_without_flce"]
            and ("ablation", 4, 1024, None) in points["ligerdsl_without_layers"])
    with pytest.raises(SystemExit, match="expected batch, length, ablation"):
        e2e.points_of(e2e.PRESETS["tiny"], ["depth"])


def test_two_processes_have_the_losses_and_gradients_of_one(tmp_path):
    """Tests that bench/fsdp_llama.py measures, and reports the difference that it finds."""
    if (not hasattr(pytest.importorskip("torch.distributed.fsdp"), "fully_shard")
        or not torch.distributed.is_gloo_available()):
        pytest.skip("torch has no fully_shard or no gloo here")
    out = tmp_path / "fsdp.json"
    done = run(BENCH / "fsdp_llama.py", "--preset", "tiny", "--device", "cpu", "--contenders",
               "ligerdsl", "--batch", 4, "--length", 16, "--steps", 1, "--warmup", 1, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert [(row["gpus"], row["layers_as_one_node"]) for row in found["rows"]] == [(1, 2), (2, 2)]
    assert 0 < found["apart"]["ligerdsl"]["first_gradients"] < 2e-2


def test_relative_differences_of_gradients():
    fsdp = module("fsdp_llama")
    one = {"a": torch.tensor([3.0, 4.0]), "b": torch.tensor([0.0, 12.0])}
    assert fsdp.relative_differences(one, one) == (0.0, "a", 0.0)
    assert fsdp.relative_differences(one, one | {"b": torch.tensor([0.0, 25.0])}) == (
        1.0, "b", pytest.approx(13 / 12))
    with pytest.raises(ValueError, match="different parameters"):
        fsdp.relative_differences(one, {"a": one["a"]})
    each = {"first_loss": 0.0, "first_gradients": 0.1}
    assert fsdp.too_far({"ligerdsl": each}, "bfloat16") == [
        "ligerdsl: first_gradients: relative difference from one GPU: expected at most 2e-02, "
        "got 1.00e-01"]
    assert (fsdp.too_far({"ligerdsl": each | {"first_gradients": float("nan")}}, "float32")
            and not fsdp.too_far({"hf": each | {"first_gradients": 1e-3}}, "bfloat16"))


def test_table_of_two_gpus():
    row = lambda gpus, **more: {"contender": "ligerdsl", "gpus": gpus, "losses": [2.0, 1.0],
                                "tokens_per_s": 1000.0 * gpus, "peak_gb": 3.5, **more}  # noqa: E731
    result = {"batch": 16, "length": 1024, "compiled": False,
              "rows": [row(1), row(2, losses=[2.0, 1.5])]}
    tables = module("e2e_tables")
    lines = lambda found: (  # noqa: E731
        tables.fsdp({"fsdp": tables.compact("fsdp", found)})[2].splitlines())
    assert lines(result)[2:] == ["| ligerdsl | 1 | 1,000 | 3.5 | 1.0000 |  |",
                                 "| ligerdsl | 2 | 2,000 | 3.5 | 1.5000 | 5.0e-01 |"]
    both = lines(result | {"apart": {"ligerdsl": {"first_gradients": 0.0075}}})
    assert both[2:] == ["| ligerdsl | 1 | 1,000 | 3.5 | 1.0000 |  |  |",
                        "| ligerdsl | 2 | 2,000 | 3.5 | 1.5000 | 5.0e-01 | 7.5e-03 |"]
    assert len({line.count("|") for line in both}) == 1
    failed = lines(
        result | {"rows": [row(1), {"contender": "ligerdsl", "gpus": 2, "failed": "why"}]})
    assert failed[3] == "| ligerdsl | 2 | failed |  |  |  |"


def test_f32_copies_of_16_bit_weights():
    convergence = module("convergence")
    layer = torch.nn.Linear(2, 2, bias=False, dtype=torch.bfloat16)
    layer.weight.data.fill_(1.0)
    masters = convergence.Masters(layer)
    optimiser = torch.optim.SGD(masters.all, lr=2.0**-10)
    for _ in range(4):  # each step alone rounds to 1
        layer(torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()
        masters.take_gradients()
        assert layer.weight.grad is None
        optimiser.step()
        masters.give_values()
    assert (masters.all[0].tolist() == [[1 - 4 * 2.0**-10] * 2] * 2
            and layer.weight.dtype == torch.bfloat16)
    assert layer.weight.tolist() == [[1 - 2.0**-8] * 2] * 2
    own = torch.nn.Linear(2, 2)
    assert (convergence.Masters(own).all == list(own.parameters())
            and convergence.Masters(own).pairs == [])

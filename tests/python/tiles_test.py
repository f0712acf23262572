"""Runs bench/tiles.py with tiny shapes on the CPU."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")

TILES = pathlib.Path(__file__).resolve().parents[2] / "bench" / "tiles.py"
KERNELS = os.environ.get("LIGERDSL_AUTHOR_KERNELS", "")
pytestmark = pytest.mark.skipif(not KERNELS or not TILES.exists(),
                                reason="the author's kernels or the sources are not here")


def test_every_contender_is_a_row_or_a_failure(tmp_path):
    path = os.pathsep.join(filter(
        None, [os.environ.get("LIGERDSL_PYTHON_PATH"), os.environ.get("PYTHONPATH")]))
    out = tmp_path / "tiles.json"
    done = subprocess.run([sys.executable, "-B", TILES, "--kernels", KERNELS, "--out", out,
                           "--device", "cpu", "--smoke"],
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    measured = {(row["kernel"], row["provider"]) for row in found["rows"]}
    assert {("matmul", "ligerdsl"), ("matmul", "torch"), ("flash_attention", "ligerdsl"),
            ("flash_attention", "torch_math"), ("grouped_matmul", "ligerdsl"),
            ("grouped_matmul", "torch")} <= measured
    assert all(row["error"] < 2e-2 and row["us"] > 0 and row["tflops"] > 0 for row in found["rows"])
    assert {failure["provider"] for failure in found["failures"]} <= {
        "triton", "torch_flash", "torch_cudnn", "torch_efficient"}
    assert all(failure["reason"] for failure in found["failures"]) and found["commit"]

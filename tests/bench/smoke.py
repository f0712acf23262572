"""smoke.py ROOT LIBRARY FOLDER: runs compare.py on the CPU with every kernel at tiny shapes.

Every row, ours and torch's, must be complete and right.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys

root, library, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
if not importlib.util.find_spec("torch"):
    print("[SKIP] torch is not installed: compare.py --device cpu --smoke did not run")
    sys.exit(0)
tool = [sys.executable, "-B", root / "bench/compare.py", "--library", library, "--device", "cpu",
        "--providers", "ligerdsl,torch"]
out = folder / "smoke.json"
command = [*tool, "--smoke", "--out", out]
if subprocess.run(command).returncode != 0:
    sys.exit("compare.py failed")
first = json.loads(out.read_text())
rows = [row for row in first["rows"] if row["provider"] != "copy"]
if not all(row["errors"] and max(row["errors"].values()) == row["max_error"] for row in rows):
    sys.exit("a row lacks the errors of its outputs")
if any(row["provider"] in ("compile_max", "quack_tuned") for row in rows):
    sys.exit("a contender that searches for long ran unasked")
# A resumed run must not measure the finished cases again. A run without time left must list the
# cases that it left out.
subprocess.run([*command, "--resume", out], check=True)
again = json.loads(out.read_text())
if again["rows"][1:] != first["rows"][1:]:
    sys.exit("a resumed run measured again what was there")
cut = subprocess.run([*command, "--budget-s", "0.001"])
left = json.loads(out.read_text())["not_measured"]
if cut.returncode != 5 or not left:
    sys.exit(f"a spent budget: exit code {cut.returncode}, {len(left)} cases left out; expected 5 "
             "and all of them")
# Two jobs of one run: each writes its own file and has its own budget of seconds.
for old in folder.glob("jobs/*"):
    old.unlink()
jobs = subprocess.run([*tool, "--out", folder / "jobs", "--run", "7", "--only", "rms_norm",
                       "--jobs", "smoke=60", "smoke+smoke=0.001"])
files = sorted(folder.glob("jobs/*.json"))
found = [json.loads(file.read_text()) for file in files]
if jobs.returncode != 5 or [file.name for file in files] != [
        f"compare-{found[0]['date']}-7-{name}.json" for name in ("smoke", "smoke_smoke")]:
    sys.exit(f"jobs: exit code {jobs.returncode}, files {[file.name for file in files]}")
if ([result["run"] for result in found] != [7, 7] or found[0]["not_measured"]
    or not found[1]["not_measured"]):
    sys.exit("jobs: the second one's budget was not its own")
# `placed(address, pitch)` moves inputs from their 16-byte boundary and adds elements between rows.
sys.path.insert(0, str(root / "bench"))
import torch  # noqa: E402
from cases.common import Maker, placed  # noqa: E402

with placed(2, 3):
    moved = Maker(torch.device("cpu")).randn(4, 5, dtype=torch.bfloat16)
if moved.data_ptr() % 16 != 2 or moved.stride() != (8, 1) or not moved.isfinite().all():
    sys.exit(f"an input was not moved: address {moved.data_ptr():#x}, strides {moved.stride()}")
if Maker(torch.device("cpu")).randn(4, 5, dtype=torch.bfloat16).data_ptr() % 16:
    sys.exit("an input after `placed` is not aligned")
# continuity.py must measure every pair of its small shapes, including moved addresses and row
# pitches.
out = folder / "continuity.json"
scan = [sys.executable, "-B", root / "bench/continuity.py", "--library", library, "--device", "cpu",
        "--providers", "torch", "--smoke", "--out", out]
if subprocess.run(scan).returncode != 0:
    sys.exit("continuity.py failed")
result = json.loads(out.read_text())
steps = {row["step"].split("+")[0] for row in result["pairs"]}
if result["not_measured"] or not {"address", "pitch"} <= steps or not result["peers"]:
    sys.exit(f"continuity.py: steps {steps}, not measured: {result['not_measured']}")
if not all(len(row["us"]) == len(row["base_us"]) == 3 and row["floor_us"] > 0
           for row in result["pairs"]):
    sys.exit("continuity.py: a pair lacks three repeats or its floor")
cut = subprocess.run([*scan, "--budget-s", "0.001"])
if cut.returncode != 5 or not json.loads(out.read_text())["not_measured"]:
    sys.exit(f"continuity.py: a spent budget: exit code {cut.returncode}, expected 5")

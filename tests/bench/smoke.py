"""smoke.py ROOT LIBRARY JSON: compare.py on the CPU, every kernel at tiny shapes beside torch, each row complete and right."""

import importlib.util
import json
import pathlib
import subprocess
import sys

root, library, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
if not importlib.util.find_spec("torch"):
    print("[SKIP] torch is not installed: compare.py --device cpu --smoke did not run")
    sys.exit(0)
command = [sys.executable, "-B", root / "bench/compare.py", "--library", library, "--device", "cpu", "--smoke", "--providers", "ligerdsl,torch",
           "--out", out]
if subprocess.run(command).returncode != 0:
    sys.exit("compare.py failed")
first = json.loads(out.read_text())
# A second run that resumes must measure nothing again; one with a budget of nothing must say what it left out.
subprocess.run([*command, "--resume", out], check=True)
again = json.loads(out.read_text())
if again["rows"][1:] != first["rows"][1:]:
    sys.exit("a resumed run measured again what was there")
cut = subprocess.run([*command, "--budget-s", "0.001"])
left = json.loads(out.read_text())["not_measured"]
if cut.returncode != 5 or not left:
    sys.exit(f"a spent budget: exit code {cut.returncode}, {len(left)} cases left out; expected 5 and all of them")

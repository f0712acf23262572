"""Times training steps of `train_llama --preset llama-3.2-1b`, the same model through the C ABI
alone.

    python bench/train_llama.py build/release/bin/train_llama --out train-llama-DATE.json

It times forward and backward, without and with AdamW. Each point runs in its own process; the
result is written after each.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile


def device_name(device):
    """Returns the driver's name of the device, or the requested name without a driver."""
    try:
        names = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                               capture_output=True, text=True).stdout.splitlines()
        return names[int(device.split(":")[1])].strip() if device.startswith("cuda") else device
    except (OSError, IndexError):
        return device


def measure(options, batch, tokens, update):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "row.json"
        command = [options.program, "--preset", options.preset, "--device", options.device,
                   "--batch", batch, "--tokens", tokens, "--steps", options.steps, "--json", out,
                   *(["--attention", options.attention] if options.attention else [])] + (
            [] if update else ["--no-update"])
        try:
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                                  timeout=options.point_s)
        except subprocess.TimeoutExpired:
            return {"batch": batch, "tokens": tokens,
                    "failed": f"took longer than {options.point_s:g} s"}
        if done.returncode:
            return {"batch": batch,
                    "tokens": tokens,
                    "failed": (done.stderr.strip().splitlines()
                               or [f"exit code {done.returncode}"])[-1][:300]}
        return json.loads(out.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--preset", default="llama-3.2-1b")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--points", default="4x1024,32x1024,4x16384",
                        help="points BATCHxTOKENS, separated by commas")
    parser.add_argument("--attention", choices=("fused", "products"), help="default: that of "
                                                                           "train_llama")
    parser.add_argument("--steps", type=int, default=10, help="number of steps; the first two are "
                                                              "not timed")
    parser.add_argument("--point-s", type=float, default=300)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    rows, found = [], {}
    for point in options.points.split(","):
        batch, tokens = map(int, point.split("x"))
        for update in (False, True):
            row = measure(options, batch, tokens, update)
            found |= {"library": row.pop("build")} if "build" in row else {}
            rows.append(row)
            print({key: value for key, value in row.items() if key not in ("losses", "seconds")},
                  flush=True)
            result = {"what": "training steps of a Llama from the C ABI, random weights and tokens",
                      "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                      "device": device_name(options.device),
                      **found,
                      "rows": rows}
            options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any("failed" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

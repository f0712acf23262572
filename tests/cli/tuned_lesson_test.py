"""Tests lesson 6: the command tunes its kernel, and its program uses the table's entry.

Usage: tuned_lesson_test.py COMMAND KERNELS.so PROGRAM FOLDER
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

from command import Command, expect
import command


def main():
    path, kernels, program, folder = (sys.argv[1], sys.argv[2], sys.argv[3],
                                      pathlib.Path(sys.argv[4]))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ligerdsl = Command(path, folder / "cache")
    source = (pathlib.Path(__file__).parents[2] / "examples/lessons/06_tuned.cpp").read_text()
    said = re.search(r"^// +ligerdsl --load \S+ tune (.*)\n"
                     r"// +--check-with \"(.*)\" --export", source, re.MULTILINE)
    table = folder / "tuned.json"
    result = ligerdsl.json("--load", kernels, "tune", *said[1].split(), "--check-with", said[2],
                           "--export", table, "--store", folder / "trials.jsonl",
                           "-q")["results"][0]
    winner = result["winner"]
    expect(winner["fate"] == "ok" and result["tried"] > 0, f"{result}")

    def shown(**environment):
        run = subprocess.run([program], env={**ligerdsl.environment, **environment},
                             stdout=subprocess.PIPE, text=True, timeout=120)
        expect(run.returncode == 0, f"exit {run.returncode}: {run.stdout}")
        return run.stdout.splitlines()[0]

    expect(shown() == "rows=1 warps=4", shown())
    # The winner differs between machines, so the test writes its own configuration under the
    # winner's key.
    device = winner["device"]
    key = f"normalize/1 {winner['options']} @ {device['arch']}/{device['units']}/{device['model']}"
    written = json.loads(table.read_text())["entries"]
    expect(set(written) - {""} <= {key}, f"{list(written)} is not {key}")
    table.write_text('{"ligerdsl_tuned_kernels": 1, "entries": {\n'
                     + f'{json.dumps(key)}: {{"config": "rows=4 warps=8"}},\n' + '"": {}}}\n')
    expect(shown(LIGERDSL_TABLE=str(table)) == "rows=4 warps=8", shown(LIGERDSL_TABLE=str(table)))
    expect(shown(LIGERDSL_TABLE=str(table), LIGERDSL_TUNING="off") == "rows=1 warps=4",
           "a table was taken in spite of LIGERDSL_TUNING=off")
    # A tuned table may set only fields of a program's schedule, because other fields change
    # results.
    table.write_text('{"ligerdsl_tuned_kernels": 1, "entries": {\n'
                     + f'{json.dumps(key)}: {{"config": "cols=500 rows=4"}},\n' + '"": {}}}\n')
    run = subprocess.run([program], env={**ligerdsl.environment, "LIGERDSL_TABLE": str(table)},
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    expect(run.returncode == 1 and "sets 'cols', which is not a schedule field" in run.stderr,
           f"exit {run.returncode}: {run.stdout}{run.stderr}")
    sys.exit(1 if command.failures else 0)


if __name__ == "__main__":
    main()

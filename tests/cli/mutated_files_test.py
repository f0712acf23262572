"""Truncates, flips and corrupts every kind of file that the command reads.

Each mutated file must give one clear line and a known exit code.

Usage: mutated_files_test.py COMMAND KERNELS.so FOLDER

The mutations are the same in each run: SEED determines them. A failure prints the name of the file,
which stays in FOLDER.
"""

import json
import os
import pathlib
import random
import re
import shutil
import struct
import sys

from command import Command, expect
import command

SEED, EACH = 20261129, 30
LONGEST_LINE = 400
# Internal names that no message may contain: exception classes, parsers and functions.
PRIVATE = re.compile(
    r"json\.exception|std::|terminate|basic_string|vector::|bad_alloc|"
    r"\bstoi\b|\bmap::at\b|what\(\)")
VALUES = [None, True, -1, 0, 1e308, 1 << 70, "", "x" * 100000, [], {}, [[]], [1, "a"], {"a": {}},
          "\x1b[31m\n", "\u0000", float("nan"), float("inf")]


def nested(depth):
    return "[" * depth + "]" * depth


def paths_in(value, path=()):
    yield path
    items = (value.items() if isinstance(value, dict) else enumerate(value)
             if isinstance(value, list) else ())
    for key, one in items:
        yield from paths_in(one, (*path, key))


def other_value(text, draw):
    """Returns a JSON text in which one value has another type or is missing."""
    value = json.loads(text)
    path = draw.choice([path for path in paths_in(value) if path])
    around = value
    for key in path[:-1]:
        around = around[key]
    if draw.random() < 0.2:
        del around[path[-1]]
    else:
        around[path[-1]] = draw.choice(VALUES)
    return json.dumps(value)


def mutated(data, draw, structured):
    """Returns changed bytes. `structured(bytes, draw)` makes a change that keeps the file's
    format."""
    kind = draw.randrange(7)
    if kind == 0:
        return data[:draw.randrange(len(data))]
    if kind == 1:
        at = draw.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:]
    if kind == 2:
        at = draw.randrange(len(data))
        return data[:at] + draw.choice([b"NaN", b"1e999", b"-", b"\0", b"\xff\xfe",
                                        nested(10000).encode(), b"9" * 400,
                                        b"a" * (1 << 20)]) + data[at:]
    if kind == 3:
        return draw.choice([b"", b"\n", b"null", b"7", b"[]", b"{}", b'"', nested(100000).encode(),
                            b"x" * (1 << 20), b"\xef\xbb\xbf" + data])
    return structured(data, draw)


def json_lines(data, draw):
    lines = data.decode().splitlines()
    at = draw.randrange(len(lines))
    lines[at] = other_value(lines[at], draw)
    return "\n".join(lines).encode() + b"\n"


def whole_json(data, draw):
    return other_value(data.decode(), draw).encode()


def table_lines(data, draw):
    lines = data.decode().splitlines()
    at = draw.randrange(1, len(lines) - 1)
    key, entry = re.fullmatch(r'("[^"]*"): (.*),', lines[at]).groups()
    lines[at] = f"{key}: {other_value(entry, draw)},"
    return "\n".join(lines).encode() + b"\n"


def npy_header(data, draw):
    header = draw.choice([
        "{'descr': '<f4', 'fortran_order': True, 'shape': (10,), }",
        "{'descr': 'O', 'fortran_order': False, 'shape': (10,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'shape': (99999999999999999999,)}",
        "{'descr': '" + "x" * 5000 + "', 'fortran_order': False, 'shape': (10,), }", "{" * 1000,
        "{'a': 1}"]).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", min(len(header), 65535)) + header + data[-40:]


def originals(ligerdsl, folder):
    """Returns the bytes of a valid file of each kind, by kind."""
    def ran(*arguments):
        code, out, errors = ligerdsl.run(*arguments)
        expect(code == 0, f"{arguments}: exit {code}: {out}{errors}")

    ran("tune", "softmax_forward", "H=64", "N=8", "--max-evals", "1", "--store", folder / "store",
        "--export", folder / "exported", "-q")
    ran("bench", "vector_add", "N=10", "--budget-ms", "0.01", "--copy-bytes", "1000", "--json",
        folder / "bench")
    store = (folder / "store").read_bytes()
    trial = json.loads(store.splitlines()[-1])
    entry = {"config": trial["config"], "operation": "softmax_forward", "ratio": 0.5, "us": [1.5],
             "heuristic_us": [3.0], "problems": ["H=64 N=8"], "driver": 0, "build": "b",
             "date": "d"}
    table = ('{"ligerdsl_tuned_kernels": 1, "entries": {\n'
             + f'"softmax_forward/1 cols=64 @ cpu/2/m": {json.dumps(entry)},\n' + '"": {}}}\n')
    values = struct.pack("<10f", *range(10))
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (10,), }\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values
    warm = json.dumps({"operation": "vector_add", "target": "cpu", "dtype": "f32"}) + "\n"
    return {"table": table.encode(), "store": store, "bench": (folder / "bench").read_bytes(),
            "npy": array, "warm": warm.encode()}


# kind: (change that keeps the format, commands that read FILE, permitted exit codes)
KINDS = {
    "table": (table_lines, [["table", "ls", "FILE"], ["table", "merge", "FILE", "-o", "OUT"]],
              {0, 2}),
    "store": (json_lines, [["report", "FILE", "-o", "OUT"]], {0, 2, 4}),
    "bench": (whole_json,
              [["bench", "vector_add", "N=10", "--budget-ms", "0.01", "--copy-bytes", "1000",
                "--tolerance", "1000", "--vs", "FILE"]], {0, 1, 2, 5}),
    "npy": (npy_header, [["run", "vector_add", "N=10", "--in", "a=FILE"]], {0, 2}),
    "warm": (json_lines, [["cache", "warm", "FILE"]], {0, 2, 4}),
    "load": (None, [["--load", "FILE", "list"]], {2}),
}


def check(ligerdsl, arguments, file, codes):
    code, out, errors = ligerdsl.run(*arguments)
    what = f"{' '.join(map(str, arguments))}"
    expect(code in codes, f"{what}: exit {code}, expected one of {codes}: {errors[:500]}")
    if code in (0, 1):
        return
    lines = errors.strip("\n").split("\n")
    expect(len(lines) == 1 and lines[0].startswith("ligerdsl: "),
           f"{what}: expected one line, got {len(lines)}: {errors[:500]}")
    longest = max(map(len, lines))
    expect(longest <= LONGEST_LINE, f"{what}: a line of {longest} characters: {errors[:500]}")
    expect(not PRIVATE.search(errors), f"{what}: a name for developers: {errors[:500]}")
    expect(str(file) in errors or code != 2, f"{what}: the file is not named: {errors[:500]}")


def main(path, kernels, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ligerdsl = Command(os.path.abspath(path), folder / "cache")
    files = originals(ligerdsl, folder)
    files["load"] = pathlib.Path(kernels).read_bytes()
    if shutil.which("gnuplot") is None:
        print("skipped: stores, as gnuplot is missing")
        del files["store"]
    for kind, data in files.items():
        structured, commands, codes = KINDS[kind]
        for number in range(EACH):
            draw = random.Random(f"{SEED} {kind} {number}")
            file = folder / f"{kind}_{number}"
            if structured is None:  # mutated code could do anything, so it is cut or replaced
                file.write_bytes(draw.choice([data[:draw.randrange(len(data) // 2)], b"", b"text\n",
                                              b"\x7fELF", draw.randbytes(5000)]))
            else:
                file.write_bytes(mutated(data, draw, structured))
            for arguments in commands:
                check(ligerdsl,
                      [str(file) if a == "FILE" else a.replace("FILE", str(file)).replace(
                          "OUT", str(folder / "out")) for a in arguments],
                      file, codes)
    sys.exit(1 if command.failures else 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve())

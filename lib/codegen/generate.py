#!/usr/bin/env python3
"""Generates the repetitive part of the C ABI from the table in ops.py.

    generate.py --out DIR [--header ligerdsl.h]

writes under DIR the files that README.md lists. DIR/exports.map is the linker's version script,
with exactly the functions that the two headers declare. Unchanged files are not touched.
"""

import argparse
import json
import pathlib
import re

import emit_cases
import emit_defaults
import emit_header
import emit_hpp
import emit_json
import emit_plans
import emit_python
import emit_table
from ops import OPS, ROOT


def exports(*headers):
    """Returns the names declared with LIGERDSL_API."""
    text = "\n".join(headers)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    return re.findall(r"LIGERDSL_API\b[^;(]*?\b(ligerdsl_\w+)\s*\(", text)


def version_script(names):
    return "LIGERDSL_0 {\n  global:\n" + "".join(f"    {n};\n" for n in names) + "  local: *;\n};\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--header", type=pathlib.Path,
                        default=ROOT / "lib/include/ligerdsl/ligerdsl.h")
    options = parser.parse_args()
    for op in OPS:
        op.check()
    ops_h = emit_header.emit(OPS)
    header = options.header.read_text()
    shapes = json.loads((ROOT / "lib/cli/bench/shapes.json").read_text())
    texts = {"include/ligerdsl/ops.h": ops_h,
             "include/ligerdsl/ops.hpp": emit_hpp.emit(OPS),
             "ops.json": emit_json.emit(OPS, header),
             "op_table.h": emit_table.emit_header(OPS),
             "op_table.cpp": emit_table.emit_source(OPS),
             "plans.cpp": emit_plans.emit(OPS),
             "op_defaults.inc": emit_defaults.emit(OPS),
             "option_words.inc": emit_defaults.emit_words(OPS),
             "op_default_sizes.inc": emit_defaults.emit_expected(OPS),
             "bench_standard.inc": emit_cases.emit_bench(OPS),
             "bench_shapes.inc": emit_cases.emit_shapes(shapes),
             "bench_layers.inc": emit_cases.emit_layers(OPS, shapes),
             "every_op_cases.inc": emit_cases.emit(OPS),
             "every_op_large.inc": emit_cases.emit_large(OPS),
             "every_op_not_large.inc": emit_cases.emit_not_large(OPS),
             "python/bind_operations.c": emit_python.emit_c(OPS),
             "python/ligerdsl/enums.py": emit_python.emit_enums(),
             "python/ligerdsl/ops.py": emit_python.emit_arrays(OPS),
             "python/ligerdsl/torch/ops.py": emit_python.emit_torch(OPS),
             "exports.map": version_script(exports(header, ops_h))}
    for name, text in texts.items():
        write(options.out / name, text)


if __name__ == "__main__":
    main()

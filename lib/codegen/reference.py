#!/usr/bin/env python3
"""reference.py [--check]: writes docs/operations.md from the table in ops.py.

--check writes nothing and exits 1 if the page does not match the table.
"""

import argparse
import pathlib
import sys

import emit_markdown
from ops import OPS

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/operations.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for op in OPS:
        op.check()
    text = emit_markdown.emit(OPS)
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE.name} does not match lib/codegen/ops.py: run lib/codegen/reference.py")


if __name__ == "__main__":
    main()

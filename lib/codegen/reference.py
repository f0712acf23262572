#!/usr/bin/env python3
"""reference.py [--check]: writes pages from the table in ops.py.

They are docs/operations.md and the table of operations in README.md.

--check writes nothing and exits 1 if a page does not match the table.
"""

import argparse
import re
import sys

import emit_markdown
from ops import OPS, ROOT

PAGE, README = ROOT / "docs/operations.md", ROOT / "README.md"
TABLE = re.compile(r"(?<=<!-- operations, by lib/codegen/reference.py -->\n)(?:\|.*\n)*")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for op in OPS:
        op.check()
    kinds = emit_markdown.kinds(OPS)
    readme = TABLE.sub(lambda old: kinds, README.read_text(encoding="utf-8"))
    for page, text in ((PAGE, emit_markdown.emit(OPS)), (README, readme)):
        if not check:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            sys.exit(f"{page.name} does not match lib/codegen/ops.py: run lib/codegen/reference.py")
    if kinds not in readme:
        sys.exit(f"{README.name}: there is no line for the table of operations: {TABLE.pattern}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""reference.py [--check]: writes pages from the table in ops.py.

The pages are docs/operations.md and README.md's table of operations.

--check writes nothing and exits 1 if a page does not match the table.
"""

import re
import sys

import emit_markdown
from ops import OPS, ROOT
from pages import write_or_check

PAGE, README = ROOT / "docs/operations.md", ROOT / "README.md"
TABLE = re.compile(r"(?<=<!-- operations, by lib/codegen/reference.py -->\n)(?:\|.*\n)*")


def main():
    for op in OPS:
        op.check()
    kinds = emit_markdown.kinds(OPS)
    readme = TABLE.sub(lambda old: kinds, README.read_text(encoding="utf-8"))
    write_or_check(__doc__, [(PAGE, emit_markdown.emit(OPS)), (README, readme)],
                   "kernels/*/*.op.py", "reference.py")
    if kinds not in readme:
        sys.exit(f"{README.name}: there is no line for the table of operations: {TABLE.pattern}")


if __name__ == "__main__":
    main()

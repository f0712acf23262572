"""Writes generated pages, or checks them."""

import argparse
import sys


def write_or_check(description, pages, source, script):
    """Writes pages, a list of (path, text). With --check, exits 1 if a page differs."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for page, text in pages:
        if not check:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            sys.exit(f"{page.name} does not match {source}: run lib/codegen/{script}")

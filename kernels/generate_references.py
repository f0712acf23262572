#!/usr/bin/env python3
"""Writes the rows of the table of float64 references: one for each LIGERDSL_REFERENCE(operation) in
kernels/*/*_reference.cpp.

    generate_references.py KERNELS_FOLDER references.inc
"""
import pathlib
import re
import sys

DEFINITION = re.compile(r"^LIGERDSL_REFERENCE\((\w+)\)", re.MULTILINE)


def main(folder, entries_file):
    places = {}
    for source in sorted(folder.glob("*/*_reference.cpp")):
        for operation in DEFINITION.findall(source.read_text()):
            if operation in places:
                sys.exit(f"{source}: the reference of {operation} is also in {places[operation]}; "
                         "delete one of them")
            places[operation] = source
    entries_file.write_text(
        "".join(f"LIGERDSL_REFERENCE_ENTRY({operation})\n" for operation in sorted(places)))


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))

#!/usr/bin/env python3
"""Writes the rows of the catalog: one for each kernel that a header in kernels/*/ declares as
`extern const Type name_kernel`.

    generate_catalog.py KERNELS_FOLDER catalog_headers.inc catalog_entries.inc
"""
import pathlib
import re
import sys

DECLARATION = re.compile(r"^extern const [\w<>]+ (\w+_kernel(?:,\s*\w+_kernel)*);", re.MULTILINE)


def main(folder, headers_file, entries_file):
    headers, entries = [], []
    for header in sorted(folder.glob("*/*.h")):
        kernels = [name for match in DECLARATION.finditer(header.read_text())
                   for name in re.split(r",\s*", match.group(1))]
        if kernels:
            headers.append(f'#include "kernels/{header.parent.name}/{header.name}"\n')
            entries += [f"LIGERDSL_CATALOG_ENTRY({name})\n" for name in kernels]
    headers_file.write_text("".join(headers))
    entries_file.write_text("".join(entries))


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))

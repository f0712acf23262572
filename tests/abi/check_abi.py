"""check_abi.py [--refresh] LIBRARY FOLDER HEADER...: compares the C ABI with the recorded one.

LIBRARY holds the C entry points with debug information. FOLDER holds two records:

- libligerdsl.abi: functions, structs and offsets, written by abidw
- constants.txt: every number of the headers' enums

Every difference fails, compatible or not, because a person must decide. A new function, or a field
at the end of a versioned struct, is compatible; anything else needs a new major version. Then
`cmake --build build/release --target abi_refresh` records the interface for the review.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

arguments = sys.argv[1:]
refresh = arguments[0] == "--refresh"
library, folder, *headers = arguments[refresh:]
recorded, numbers = pathlib.Path(folder) / "libligerdsl.abi", pathlib.Path(folder) / "constants.txt"


def dump():
    options = ["--exported-interfaces-only", "--drop-private-types", "--no-show-locs",
               "--no-corpus-path", "--no-comp-dir-path", "--no-elf-needed", "--no-parameter-names",
               "--type-id-style", "hash"]
    folders = sorted({str(pathlib.Path(header).parent.parent) for header in headers})
    text = subprocess.run(
        ["abidw", *options, *[word for path in folders for word in ("--hd", path)], library],
        check=True, capture_output=True, text=True).stdout
    return re.sub(r" path='[^']*/", " path='", text)  # removes the folder of each source file


def constants():
    found = {}
    for header in headers:
        for body in re.findall(r"enum\s*\w*\s*\{(.*?)\}", pathlib.Path(header).read_text(),
                               flags=re.S):
            found.update(re.findall(r"\b(LIGERDSL_\w+)\s*=\s*([-\w]+)", body))
    return "".join(f"{name} {int(value, 0)}\n" for name, value in sorted(found.items()))


if refresh:
    recorded.write_text(dump())
    numbers.write_text(constants())
    sys.exit()
failed = False
with tempfile.NamedTemporaryFile("w", suffix=".abi") as now:
    now.write(dump())
    now.flush()
    result = subprocess.run(["abidiff", str(recorded), now.name], capture_output=True, text=True)
    failed |= result.returncode != 0
    print(result.stdout + result.stderr, end="")
before, after = (
    dict(line.split() for line in text.splitlines()) for text in (numbers.read_text(), constants()))
for name in sorted(before.keys() | after.keys()):
    if before.get(name) != after.get(name):
        failed = True
        print(f"{name}: recorded as {before.get(name, 'absent')}, now {after.get(name, 'absent')}")
print(__doc__ if failed else f"the interface is the recorded one, {len(after)} constants")
sys.exit(failed)

"""check_exports.py LIBRARY MAP: checks the exported names of the library.

They must be exactly those of the version script MAP, and the library must register no exit handler.
"""

import re
import subprocess
import sys

library, map_file = sys.argv[1:]
wanted = set(re.findall(r"^[^#]*?\b(ligerdsl_\w+);", open(map_file).read(), flags=re.M))
symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True,
                         text=True).stdout
found = {line.split()[-1].split("@")[0] for line in symbols.splitlines() if line.split()[-2] != "A"}
for name in sorted(wanted - found):
    print(f"declared but not exported: {name}")
for name in sorted(found - wanted):
    print(f"exported but not declared: {name}")
# A destructor at exit would run while other threads are still inside the library.
undefined = subprocess.run(["nm", "-D", "--undefined-only", library], check=True,
                           capture_output=True, text=True).stdout
registers = {line.split()[-1].split("@")[0] for line in undefined.splitlines()} & {
    "__cxa_atexit", "atexit", "on_exit"}
for name in sorted(registers):
    print(f"an object is destroyed at exit: the library calls {name}")
print(f"{len(found)} names exported, {len(wanted)} declared")
sys.exit(found != wanted or not wanted or bool(registers))

"""notices.py ROOT: checks that NOTICE names the packages in the shipped binaries.

The build files of the shipped folders request packages from CMake. A package that becomes part of a
binary must be in NOTICE; others come from the system. The test fails for a package that is in
neither HELD nor OF_THE_SYSTEM.
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
SHIPPED = ("CMakeLists.txt", "compiler", "dsl", "kernels", "lib", "runtime")
HELD = {"MLIR": "LLVM and MLIR", "CLI11": "CLI11", "fmt": "fmt", "nlohmann_json": "nlohmann-json"}
OF_THE_SYSTEM = {"Python3", "Threads"}
notice = (root / "NOTICE").read_text()
table = notice.split("\n---", 1)[0]
failures = []
files = [file for part in SHIPPED for file in ([root / part] if part.endswith(".txt") else
         [*(root / part).rglob("CMakeLists.txt"), *(root / part).rglob("*.cmake")])]
asked = {
    name: file for file in files for name in re.findall(r"find_package\((\w+)", file.read_text())}
for name, file in sorted(asked.items()):
    if name not in HELD and name not in OF_THE_SYSTEM:
        failures.append(f"{file.relative_to(root)} requests the unknown package {name}: if a "
                        "binary contains its code, add it to NOTICE and to HELD of "
                        "tests/notices.py, otherwise to OF_THE_SYSTEM")
for name, words in HELD.items():
    if name not in asked:
        failures.append(f"no build file requests the package {name}: remove it from NOTICE and "
                        "tests/notices.py")
    if words not in table:
        failures.append(f"NOTICE: the table does not name {words}; add a row")
static = any("-static-libstdc++" in file.read_text() for file in files)
if static != ("libstdc++" in table):
    failures.append("the build files link libstdc++ statically: add it to NOTICE" if static else
                    "no build file links libstdc++ statically: remove it from NOTICE")
for number in set(re.findall(r"\((\d)\) \|$", table, flags=re.M)):
    if f"\n({number}) " not in notice:
        failures.append(f"NOTICE: licence ({number}) of the table has no text; add it below the "
                        "table")
print("\n".join(failures) or f"NOTICE names all of {', '.join(sorted(HELD))}")
sys.exit(bool(failures))

"""reproducible.py CMAKE SOURCE BUILD WORK LIBRARY...: checks that the build folder does not change
the output.

- Two copies of the sources in two folders, built without a compiler cache, have the same build id.
  The objects in OBJECTS have the same bytes. One of them contains a kernel, whose program records
  its source path.
- A build with the compiler cache, if present, gives the same object.
- The LIBRARYs of this build contain neither its path nor that of the sources.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

cmake, source, build, work, *libraries = sys.argv[1:]
source, work = pathlib.Path(source), pathlib.Path(work)
PARTS = ("CMakeLists.txt", ".cmake", "README.md", "LICENSE", "NOTICE", "bench", "compiler", "docs",
         "dsl", "kernels", "lib", "runtime")
OBJECTS = ("kernels/CMakeFiles/ligerdsl_kernels.dir/softmax/softmax.cpp.o",
           "dsl/CMakeFiles/ligerdsl_dsl.dir/recorder.cpp.o",
           "runtime/CMakeFiles/ligerdsl_runtime.dir/system/status.cpp.o",
           "lib/CMakeFiles/ligerdsl_objects.dir/abi/build_info.cpp.o")
OPTIONS = ("-DCMAKE_BUILD_TYPE=Release", "-DLIGERDSL_BUILD_COMPILER=OFF",
           "-DLIGERDSL_BUILD_TESTS=OFF", "-DLIGERDSL_BUILD_EXAMPLES=OFF",
           "-DLIGERDSL_BUILD_PYTHON=OFF")
failures = []


def run(*command, **environment):
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed\n{result.stdout}{result.stderr}")
    return result.stdout


def copy_of_sources(folder):
    for part in PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, folder / part,
                            ignore=shutil.ignore_patterns("results", "__pycache__"))
        else:
            shutil.copy(source / part, folder / part)


def compiled(folder, **environment):
    """Returns the bytes of each object and of the header with the build id.

    Ninja would build whole libraries before a kernel, so this runs the objects' own commands.
    """
    made = folder / "build/release"
    run("ninja", "-C", str(made), "ligerdsl_build_id_header", "ligerdsl_commit_header",
        "ligerdsl_generated")
    commands = {entry["output"]: entry["command"]
                for entry in json.loads(run("ninja", "-C", str(made), "-t", "compdb"))}
    for name in OBJECTS:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        run("sh", "-c", f"cd '{made}' && {commands[name]}", **environment)
    return {
        name: (made / name).read_bytes() for name in (*OBJECTS, "generated/ligerdsl_build_id.h")}


shutil.rmtree(work, ignore_errors=True)
built = []
for name in ("one", "another/longer/folder"):
    folder = work / name
    folder.mkdir(parents=True)
    copy_of_sources(folder)
    run(cmake, "-G", "Ninja", "-S", str(folder), "-B", str(folder / "build/release"), *OPTIONS)
    built.append(compiled(folder, CCACHE_DISABLE="1"))
for name, content in built[0].items():
    if content != built[1][name]:
        failures.append(f"{name} differs between builds in two folders")
    for path in (str(work), "../.."):
        if path.encode() in content:
            failures.append(f"{name} contains the path {path}")
kernel = OBJECTS[0]
if b"kernels/softmax/softmax.cpp" not in built[0][kernel]:
    failures.append(f"{kernel}: expected the source path kernels/softmax/softmax.cpp in it, "
                    "without "
                    "which this test detects nothing")
if compiled(work / "one")[kernel] != built[0][kernel]:
    failures.append(f"{kernel} differs between builds with and without the compiler cache")
for library in libraries:
    content = pathlib.Path(library).read_bytes()
    failures += [f"{library} contains the path {path}" for path in (str(source), build)
                 if path.encode() in content]
shutil.rmtree(work, ignore_errors=True)
print("\n".join(failures) or f"{len(built[0])} files of two builds and {len(libraries)} libraries "
                             "contain no path of their build")
sys.exit(bool(failures))

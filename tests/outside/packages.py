"""packages.py CPACK CONFIG WORK: checks the contents of the Debian packages and runs the command of
the packages.

The script makes the packages, unpacks them into a separate folder, and runs the `ligerdsl` command
there. The command must find the compiler library and the compile worker of the packages, and
compute right results.
"""

import os
import pathlib
import shutil
import subprocess
import sys

cpack, config, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
HOLDS = {
    "libligerdsl0": [
        "/usr/lib/libligerdsl.so.0", "/usr/lib/libligerdsl.so.0.2.0",
        "/usr/lib/libligerdsl-compiler.so", "/usr/lib/ligerdsl/compile-worker"
    ],
    "libligerdsl-dev": [
        "/usr/lib/libligerdsl.so", "/usr/lib/libligerdsl_dsl.a", "/usr/include/ligerdsl/ligerdsl.h",
        "/usr/include/ligerdsl/ligerdsl.hpp", "/usr/include/ligerdsl/launch.hpp",
        "/usr/include/ligerdsl/dsl/interpreter.h",
        "/usr/share/doc/libligerdsl/docs/reference/dsl-overview.md",
        "/usr/share/doc/libligerdsl/lessons/01_vector_add.cpp",
        "/usr/share/doc/libligerdsl/author_kernels/generalized_jsd.h",
        "/usr/include/ligerdsl/ops.h", "/usr/include/ligerdsl/dsl.h",
        "/usr/lib/pkgconfig/ligerdsl.pc", "/usr/lib/cmake/ligerdsl/ligerdslConfig.cmake"
    ],
    "ligerdsl-tools": [
        "/usr/bin/ligerdsl", "/usr/share/man/man1/ligerdsl.1",
        "/usr/share/man/man1/ligerdsl-tune.1", "/usr/share/bash-completion/completions/ligerdsl",
        "/usr/share/zsh/vendor-completions/_ligerdsl"
    ],
}
for name, files in HOLDS.items():
    files += [f"/usr/share/doc/{name}/{file}" for file in ("LICENSE", "NOTICE")]
FORBIDDEN = ("/tests/", "gtest", "ligerdsl-opt", "libLLVM", "libMLIR")
failures = []


def expect(right, text):
    if not right:
        failures.append(text)


def output(*command, **environment):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("LIGERDSL_")} | environment
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    return result.returncode, result.stdout + result.stderr


shutil.rmtree(work, ignore_errors=True)
root = work / "root"
root.mkdir(parents=True)
code, text = output(cpack, "--config", config, "-G", "DEB", "-B", str(work / "pack"), "-D",
                    "CPACK_DEBIAN_COMPRESSION_TYPE=zstd")
if code != 0:
    sys.exit(f"cpack failed\n{text}")
packages = {path.name.split("_")[0]: path for path in (work / "pack").glob("*.deb")}
expect(packages.keys() == HOLDS.keys(),
       f"expected the packages {sorted(HOLDS)}, got {sorted(packages)}")
for name, path in packages.items():
    held = [line.split()[5][1:] for line in output("dpkg-deb", "-c", str(path))[1].splitlines()]
    # On Debian, CMake may install libraries in the architecture's folder. HOLDS omits that folder.
    plain = {file.replace("/usr/lib/x86_64-linux-gnu/", "/usr/lib/") for file in held}
    for wanted in HOLDS.get(name, []):
        expect(wanted in plain, f"{name} lacks {wanted}; it contains {held}")
    expect(not any(word in file for word in FORBIDDEN for file in held),
           f"{name} contains files that must not be shipped: "
           f"{[file for file in held if any(word in file for word in FORBIDDEN)]}")
    needs = output("dpkg-deb", "-f", str(path), "Depends")[1]
    expect("libllvm" not in needs and "cuda" not in needs, f"{name} must not depend on LLVM or "
                                                           f"CUDA, got: {needs}")
    expect(name == "libligerdsl0" or "libligerdsl0 (= " in needs,
           f"{name}: expected a dependency on libligerdsl0 (= VERSION), got: {needs}")
    expect(output("dpkg-deb", "-x", str(path), str(root))[0] == 0, f"{name} does not unpack")

for path in (path for path in root.rglob("*") if path.is_file() and not path.is_symlink()):
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            continue
    said = output("readelf", "--wide", "--dynamic", "--program-headers", "--dyn-syms", str(path))[1]
    for word, meaning in (("BIND_NOW", "resolves symbols lazily"),
                          ("GNU_RELRO", "keeps relocations writable"),
                          ("__stack_chk_fail", "has no stack protector")):
        expect(word in said,
               f"{path.relative_to(root)} {meaning}: expected {word}, from the flags of "
               ".cmake/LigerdslOptions.cmake")

command = str(root / "usr/bin/ligerdsl")
code, text = output(command, "doctor", LIGERDSL_CACHE="off")
expect(code == 0 and str(root) in text,
       f"`ligerdsl doctor` of the package: expected exit code 0 and a path below {root}, got exit "
       f"code {code}\n{text}")
code, text = output(command, "run", "rms_norm_forward", "N=5", "H=100", "--check",
                    LIGERDSL_CACHE="off", LIGERDSL_COMPILE="process")
expect(code == 0 and "right" in text, "`ligerdsl run` with the package's compile worker: expected "
       f"exit code 0 and a right result, got exit code {code}\n{text}")
shutil.rmtree(work, ignore_errors=True)
print("\n".join(failures) or f"{len(packages)} packages contain their files and work")
sys.exit(bool(failures))

"""compile_headers.py README OUT CC INCLUDE_FOLDER... -- COMPILER...: compiles headers and snippets.

Each COMPILER is a C++ compiler. It compiles, with strict warnings as errors:

- header.cpp, header_hpp.cpp, header_dsl.cpp and header_launch.cpp
- the C++ snippet of README.md

CC, and each clang as a C compiler, compiles the C snippet of README.md. The script adds what a
snippet presupposes: a surrounding function and the caller's tensors.
"""

import pathlib
import re
import subprocess
import sys

readme, out, cc, *rest = sys.argv[1:]
includes, compilers = rest[:rest.index("--")], rest[rest.index("--") + 1:]
here, out = pathlib.Path(__file__).resolve().parent, pathlib.Path(out)
STRICT = ("-Wall -Wextra -Wpedantic -Wold-style-cast -Wzero-as-null-pointer-constant -Wconversion "
          "-Wsign-conversion -Wcast-qual -Wundef -Wshadow -Werror").split()
PLAIN = "-Wall -Wextra -Werror".split()
C_AROUND = """\
int snippet(ligerdsl_tensor_t x, ligerdsl_tensor_t w, ligerdsl_tensor_t y, ligerdsl_stream_t stream);
int snippet(ligerdsl_tensor_t x, ligerdsl_tensor_t w, ligerdsl_tensor_t y, ligerdsl_stream_t stream) {{
{body}
  return 0;
}}
"""
failures = 0


def compile_file(compiler, source, standard, warnings, expected_errors=0):
    global failures
    command = [compiler, f"-std={standard}", *warnings, *[f"-I{folder}" for folder in includes],
               "-fsyntax-only", str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    errors = len(re.findall(r"\berror: ", result.stderr))
    if errors != expected_errors or (result.returncode != 0) != (expected_errors > 0):
        failures += 1
        print("FAILED:", " ".join(command),
              f"\n{errors} errors, expected {expected_errors}\n{result.stderr[:3000]}")


def snippet(language):
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", pathlib.Path(readme).read_text(),
                        flags=re.S | re.M)
    if len(blocks) != 1:
        sys.exit(f"README.md has {len(blocks)} blocks of {language}, expected one")
    return blocks[0]


def c_snippet():
    text = snippet("c")
    headers = "".join(line + "\n" for line in text.splitlines() if line.startswith("#include"))
    body = "".join(line + "\n" for line in text.splitlines() if not line.startswith("#include"))
    path = out / "snippet.c"
    path.write_text(headers + C_AROUND.format(body=body))
    return path


out.mkdir(parents=True, exist_ok=True)
(out / "snippet.cpp").write_text(snippet("cpp"))
(out / "old.cpp").write_text("#include <ligerdsl/dsl.h>\n")
in_c = c_snippet()
compile_file(cc, in_c, "c99", PLAIN)
for compiler in compilers:
    is_clang = "clang" in subprocess.run([compiler, "--version"], capture_output=True, text=True,
                                         check=True).stdout
    warnings = STRICT + ([] if is_clang else ["-Wuseless-cast"])
    for standard in ("c++11", "c++14", "c++17", "c++20"):
        compile_file(compiler, here / "header.cpp", standard, warnings)
    for standard in ("c++17", "c++20"):
        compile_file(compiler, here / "header_hpp.cpp", standard, warnings)
    compile_file(compiler, here / "header_dsl.cpp", "c++20", warnings)
    compile_file(compiler, here / "header_launch.cpp", "c++20", warnings)
    compile_file(compiler, out / "snippet.cpp", "c++20", PLAIN)
    compile_file(compiler, out / "old.cpp", "c++17", PLAIN, expected_errors=1)
    if is_clang:
        compile_file(compiler, in_c, "c99", ["-x", "c", *PLAIN])
    print("compiled with", compiler)
sys.exit(failures != 0)

#!/usr/bin/env python3
"""on_processor.py [--own-level] NAME command...: runs the command as on another processor, if
this processor can imitate it.

NAME is one of:

- a core type of OpenBLAS (OPENBLAS_CORETYPE), which has kernels for each; the command runs with 1
  and with 4 threads
- an x86-64 level that kernels are compiled for (LIGERDSL_CPU)

Exits with 77 if this processor lacks the instructions. Without --own-level it also exits
with 77 for this processor's own level, because tests without a level compile nearly the same code.
"""

import os
import subprocess
import sys

# Processor features, as named in /proc/cpuinfo.
AVX2 = {"avx2", "fma", "bmi2", "f16c", "movbe"}
AVX512 = AVX2 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}
OF_OPENBLAS = {"Prescott": {"pni"}, "Nehalem": {"sse4_2"}, "Haswell": AVX2, "Zen": AVX2,
               "SkylakeX": AVX512, "Cooperlake": AVX512 | {"avx512_bf16"}}
LEVELS = {"x86-64": set(), "x86-64-v2": {"sse4_2", "popcnt"}, "x86-64-v3": AVX2,
          "x86-64-v4": AVX512}


def flags():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    return set()


def main():
    arguments = sys.argv[1:]
    own_level = arguments[0] == "--own-level"
    name, *command = arguments[1:] if own_level else arguments
    if not own_level and name == max((level for level, needs in LEVELS.items() if needs <= flags()),
                                     default=None):
        print(f"[SKIP] {name} is this processor's own level")
        return 77
    missing = {**OF_OPENBLAS, **LEVELS}[name] - flags()
    if missing:
        print(f"[SKIP] this processor has no {', '.join(sorted(missing))}: it cannot imitate "
              f"{name}")
        return 77
    settings = [{"LIGERDSL_CPU": name}]
    if name in OF_OPENBLAS:
        settings = [
            {"OPENBLAS_CORETYPE": name, "OPENBLAS_NUM_THREADS": threads} for threads in ("1", "4")]
    for setting in settings:
        print(*(f"{key}={value}" for key, value in setting.items()), flush=True)
        if subprocess.run(command, env={**os.environ, **setting}).returncode != 0:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""on_core.py CORE command...: runs the command as on a processor of OpenBLAS's type CORE, in 1 thread and in several.

OpenBLAS holds a set of kernels for each type and takes what OPENBLAS_CORETYPE names without asking the processor. Exits with 77
where the processor cannot run them.
"""

import os
import subprocess
import sys

# What the kernels of a type are made of, as /proc/cpuinfo names it.
AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}
NEEDS = {"Prescott": {"pni"}, "Nehalem": {"sse4_2"}, "Haswell": {"avx2", "fma"}, "Zen": {"avx2", "fma"}, "SkylakeX": AVX512,
         "Cooperlake": AVX512 | {"avx512_bf16"}}


def flags():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    return set()


def main():
    core, command = sys.argv[1], sys.argv[2:]
    missing = NEEDS[core] - flags()
    if missing:
        print(f"[SKIP] this processor has no {', '.join(sorted(missing))}, which OpenBLAS's kernels for {core} are made of")
        return 77
    for threads in ("1", "4"):
        print(f"OPENBLAS_CORETYPE={core} OPENBLAS_NUM_THREADS={threads}", flush=True)
        status = subprocess.run(command, env={**os.environ, "OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": threads}).returncode
        if status != 0:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

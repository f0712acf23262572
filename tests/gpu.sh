#!/usr/bin/env bash
# Runs the tests that need a GPU. The GPU machine needs no CMake and no LLVM, and Python only for
# the part `python`.
#
#   tests/gpu.sh pack [BUILD]   on the build machine: packs all files into BUILD/gpu-tests.tar.gz
#                               (default build/release)
#   ./gpu.sh [PART...]          on the GPU machine, in the unpacked folder
#   tests/gpu.sh [PART...]      in a built checkout
#
# Parts: small large accuracy kernels abi time python sanitize.
# Default: all except sanitize, and python only if the package was built.
#
# - `python` runs tests/python/gpu_test.py with PYTHON (default python3), which must have torch.
#   pytest is packed from BUILD/python-venv or from the folder PYTEST_FROM.
# - `sanitize` runs a few tests under compute-sanitizer's four tools. compute-sanitizer must be in
#   PATH or named by COMPUTE_SANITIZER.
#
# Variables: JOBS (concurrent processes, default 12), RESULTS (folder for logs, default
# gpu-results), LIGERDSL_LIBCUBLASLT (without a cuBLASLt, tests of fused linear cross-entropy are
# skipped). Exit code 0: all parts passed. The last lines count what passed, failed and was skipped.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
files=(tests/every_op/every_op_tests tests/kernels/kernel_tests tests/abi/abi_tests tests/runtime/runtime_tests
       tests/runtime/libfake_compiler.so bin/execute_time bin/ligerdsl lib/libligerdsl-compiler.so lib/libligerdsl.so.0 lib/ligerdsl/compile-worker)

# Packs the Python package, with links to the packed libraries, its GPU tests, and pytest with the
# modules that it imports.
pack_python() {
  local build=$1 folder=$2 each from
  mkdir -p "$folder/python" "$folder/tests/python" "$folder/pytest"
  tar -C "$build/python" --exclude=__pycache__ --exclude=ligerdsl/lib -ch ligerdsl | tar -C "$folder/python" -x || exit 1
  ln -s ../../lib "$folder/python/ligerdsl/lib"
  ln -s libligerdsl.so.0 "$folder/lib/libligerdsl.so"
  cp "$here"/python/{gpu_test,cases,conftest}.py "$folder/tests/python/"
  from=${PYTEST_FROM:-$(compgen -G "$build/python-venv/lib/python3*/site-packages")}
  for each in pytest _pytest py.py pluggy iniconfig packaging pygments exceptiongroup tomli typing_extensions.py; do
    [[ -e $from/$each ]] && tar -C "$from" --exclude=__pycache__ -ch "$each" | tar -C "$folder/pytest" -x
  done
  [[ -d $folder/pytest/pytest ]] || echo "no pytest in '$from': set PYTEST_FROM, or install pytest on the GPU machine for the part python" >&2
}

pack() {
  local build=${1:-$here/../build/release} folder
  folder=$(mktemp -d) || exit 1
  for file in "${files[@]}"; do
    mkdir -p "$folder/$(dirname "$file")"
    cp -L "$build/$file" "$folder/$file" || { echo "cannot copy '$build/$file'; build it first (tests/README.md has the command)" >&2; exit 1; }
    strip --strip-unneeded "$folder/$file"
  done
  mkdir "$folder/fallback"  # libraries besides glibc that the compiler library needs
  ldd "$build/lib/libligerdsl-compiler.so" "$build/bin/ligerdsl" | awk '/lib(z|zstd|fmt)\.so/ {print $3}' | sort -u |
    xargs -I{} cp -L {} "$folder/fallback/"
  [[ -f $build/python/ligerdsl/_bind.abi3.so ]] && pack_python "$build" "$folder"
  cp "$here/gpu.sh" "$folder/"
  tar -C "$folder" -czf "$build/gpu-tests.tar.gz" . && rm -r "$folder"
  ls -l "$build/gpu-tests.tar.gz"
}

[[ ${1:-} == pack ]] && { shift; pack "$@"; exit; }

root=$here
[[ -x $root/tests/every_op/every_op_tests ]] || root=$(cd "$here/.." && pwd)/build/release
results=${RESULTS:-gpu-results}
mkdir -p "$results" && results=$(cd "$results" && pwd) || exit 1
export LD_LIBRARY_PATH=$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if ldd "$root/lib/libligerdsl-compiler.so" "$root/bin/ligerdsl" 2>/dev/null | grep -q "not found"; then
  export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$root/fallback
fi
export LIGERDSL_COMPILER=$root/lib/libligerdsl-compiler.so
export LIGERDSL_CACHE_DIR=${LIGERDSL_CACHE_DIR:-$results/cache}
export LIGERDSL_TEST_COMBINATIONS=${LIGERDSL_TEST_COMBINATIONS:-all}
export LIGERDSL_TEST_FAKE_COMPILER=$root/tests/runtime/libfake_compiler.so
failed=()

# run NAME SHARDS SECONDS PROGRAM ARGUMENTS...: runs SHARDS processes, each with a share of the
# program's tests.
run() {
  local name=$1 shards=$2 seconds=$3 begin=$SECONDS bad=0 pids=() shard
  shift 3
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard timeout "$seconds" "$@" >"$results/$name.$shard.log" 2>&1 &
    pids+=($!)
  done
  for shard in "${!pids[@]}"; do
    wait "${pids[$shard]}"
    local code=$?
    [[ $code == 77 ]] && { cat "$results/$name.$shard.log"; bad=1; continue; }
    [[ $code == 0 ]] && continue
    bad=1
    echo "--- $name, shard $shard: exit code $code (124: it took longer than $seconds s); $results/$name.$shard.log ends:"
    grep -aE "Failure|FAILED|terminate|rror" "$results/$name.$shard.log" | head -20
    tail -n 12 "$results/$name.$shard.log"
  done
  ((bad)) && failed+=("$name")
  echo "$name: $((SECONDS - begin)) s$( ((bad)) && echo ", FAILED")"
}

jobs=${JOBS:-12}
every_op=$root/tests/every_op/every_op_tests
kernels=$root/tests/kernels/kernel_tests
python=${PYTHON:-python3}
python_tests=$root/tests/python
[[ -f $python_tests/gpu_test.py ]] || python_tests=$here/python

part() {
  case $1 in
    small) run small "$jobs" 590 "$every_op" --device=cuda --gtest_filter='*Replay*:Streams*:*Cases*' ;;
    # One process, because its tests need up to 60 GiB of device memory.
    large)
      run large 1 590 "$every_op" --device=cuda --gtest_filter='*Large*:*DistantRows*'
      run large-kernels 1 300 "$kernels" --backend=cuda --gtest_filter='Large.*'
      ;;
    accuracy)
      run accuracy 4 590 "$kernels" --backend=cuda --gtest_filter='*Accuracy*'
      sort -u <(grep -ah '^| ' "$results"/accuracy.*.log) | tee "$results/accuracy.txt"
      ;;
    kernels) run kernels "$jobs" 590 "$kernels" --backend=cuda --gtest_filter='-*Accuracy*:Large.*' ;;
    abi)
      run abi 1 590 "$root/tests/abi/abi_tests" --gtest_filter='Gpu.*:*Sticky.*'
      run runtime 1 300 "$root/tests/runtime/runtime_tests" --gtest_filter='GpuTest.*'
      ;;
    time)  # no other process may disturb its times
      run time 1 590 "$root/bin/execute_time" 101
      sed -n '/^{/,$p' "$results/time.0.log" >"$results/execute_time.json"
      grep -a 'launches:' "$results/time.0.log"
      ;;
    python)
      "$python" -c 'import torch' || { echo "python: '$python' cannot import torch; set PYTHON to a Python with torch" >&2; failed+=(python); return; }
      "$python" -c 'import pytest' 2>/dev/null || export PYTHONPATH=$root/pytest${PYTHONPATH:+:$PYTHONPATH}
      LIGERDSL_PYTHON_PATH=$root/python PYTHONDONTWRITEBYTECODE=1 run python 1 590 "$python" -m pytest -q -rs -p no:cacheprovider "$python_tests/gpu_test.py"
      tail -n 1 "$results/python.0.log"
      ;;
    sanitize)
      local tool=${COMPUTE_SANITIZER:-compute-sanitizer} check
      for check in ${SANITIZERS:-memcheck racecheck initcheck synccheck}; do
        # Excludes the kernels of cuBLASLt (nvjet), which are not ours.
        run "sanitize-$check" "$jobs" 590 "$tool" --tool "$check" --error-exitcode 1 --launch-timeout 0 \
          --kernel-name-exclude kernel_substring=nvjet "$every_op" --device=cuda --rows=5 --gtest_filter='*Replay*'
      done
      ;;
    *) echo "unknown part '$1': expected small, large, accuracy, kernels, abi, time, python or sanitize" >&2; exit 2 ;;
  esac
}

parts=("$@")
if ((!${#parts[@]})); then
  parts=(time small kernels abi accuracy large)
  [[ -f $root/python/ligerdsl/_bind.abi3.so ]] && parts+=(python)
fi
for each in "${parts[@]}"; do part "$each"; done
count() { cat "$results"/*.log | grep -acE "$1"; }
echo "passed $(count '^\[       OK \]'), failed $(count '^\[  FAILED  \].*\([0-9]+ ms\)$'), skipped $(count '^\[  SKIPPED \].*\([0-9]+ ms\)$')"
grep -ahB3 '^\[  SKIPPED \].*ms)$' "$results"/*.log | grep -av '^\[\|^--' | sed 's/^.*: Skipped$//' | sort | uniq -c | sort -rn | head -12
((${#failed[@]})) && { echo "FAILED: ${failed[*]}"; exit 1; }
exit 0

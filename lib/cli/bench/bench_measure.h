// Measures one case of `ligerdsl bench`: its time and host time, its memory, and the rates of
// copies to compare with.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lib/abi/context.h"
#include "lib/cli/bench/bench_cases.h"
#include "lib/cli/kernels/authors.h"
#include "lib/text/output.h"
#include "runtime/device/measure.h"

namespace ligerdsl::cli {

struct Outcome {
  std::string kernel, title, resources;
  double bytes = 0;
  double beyond_inputs = -1;  // bytes of outputs and workspace, or -1 if unknown
  double workspace = 0;
  double flops = 0;                   // flop per call, if arithmetic and not memory bounds the time
  double host_us = 0, launch_us = 0;  // GPU: host time of one execute, and of its launches alone
  runtime::Measurement time;
  double same_copy_gbps =
      0;  // rate of a copy of the same size, on a CPU measured alternately with the case
};

// Returns the bytes of the large copy, which exceeds the caches. Its rate is the table's ceiling.
int64_t large_copy_bytes(const runtime::Device& device);
// Returns the size of a copy that reads and writes `bytes` bytes in total.
int64_t same_size_copy_bytes(double bytes);

// Options and inputs of a measurement.
struct BenchRun {
  runtime::MeasureOptions options;
  std::map<std::string, Array> inputs;  // arrays of --in
  std::function<void()> between;  // called between repetitions; an exception ends the measurement
};

// Measure one of the library's operations, or a kernel loaded with --load.
Outcome measure_op(const lib::ContextRef& context, const BenchCase& which, const BenchRun& run);
Outcome measure_author(const lib::ContextRef& context, const AnyKernel& kernel,
                       const BenchCase& which, const BenchRun& run);

// Measures the host time of an execute with a warm plan, including the checks, and the host time of
// its launches alone.
void measure_host(const Globals& globals, const BenchCase& which, const BenchRun& run,
                  Outcome* outcome);

}  // namespace ligerdsl::cli

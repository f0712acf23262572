// Measuring one case of `ligerdsl bench`: time with cold caches, host time, memory, and copies to compare with.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lib/cli/bench/bench_cases.h"
#include "lib/cli/kernels/authors.h"
#include "lib/src/context.h"
#include "lib/text/output.h"
#include "runtime/device/measure.h"

namespace ligerdsl::cli {

struct Outcome {
  std::string kernel, title, resources;
  double bytes = 0;
  double beyond_inputs = -1;  // bytes of outputs and workspace; -1: not known
  double workspace = 0;
  double flops = 0;                   // where these, not the bytes, are the floor
  double host_us = 0, launch_us = 0;  // GPU: host time of one execute, and of its launches alone
  runtime::Measurement time;
  double same_copy_gbps = 0;  // a copy that moves as many bytes; on a CPU it took turns with the case
};

// Of the copy that is the ceiling: more than caches hold.
int64_t large_copy_bytes(const runtime::Device& device);
// Of a copy that moves as many bytes, once read and once written.
int64_t same_size_copy_bytes(double bytes);

// How, and on what.
struct BenchRun {
  runtime::MeasureOptions options;
  std::map<std::string, Array> inputs;  // --in
  std::function<void()> between;        // called between repetitions; what it throws ends the measurement
};

// An operation of the library, or a kernel of --load.
Outcome measure_op(const lib::ContextRef& context, const BenchCase& which, const BenchRun& run);
Outcome measure_author(const lib::ContextRef& context, const AnyKernel& kernel, const BenchCase& which,
                       const BenchRun& run);

// Host time of one execute on a warm plan, tensors checked, and of the same launches without the library around them.
void measure_host(const Globals& globals, const BenchCase& which, const BenchRun& run, Outcome* outcome);

}  // namespace ligerdsl::cli

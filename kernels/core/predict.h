// Predicted time of a launch from its work (dsl/analysis/work.h), without a compile or a device.
//
//   step = max(SMs, memory + ramp, program starts), where
//     memory   distinct bytes read and written / memory_gbps; resident rows that neither shared
//              memory nor L2 holds are read again
//     SMs      waves x max(one program, its waits x latency) + start and end of each wave
//     program  dots + exposed x other instructions, or L2 -> SM bytes if these take longer
//
// docs/design/prediction.md gives the measured quality of the model.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/work.h"
#include "kernels/core/launch.h"
#include "kernels/core/machine_rates.h"
#include "program/options.h"

namespace ligerdsl::kernels {

enum class Bound { memory, sm, starts };
const char* name_of(Bound bound);  // "memory", "SMs", "program starts"

struct Prediction {
  double us = 0;  // without the launch overhead
  Bound bound = Bound::memory;
  double memory_us = 0, sm_us = 0;
  int ctas_per_sm = 0;      // given, or estimated
  bool is_assumed = false;  // the number of iterations of a loop depends on data
};

// Predicts the time of one launch. `options` are those of the kernel's variant; its facts determine
// the width of accesses. If `ctas_per_sm` is 0, it is estimated from live tiles and slots of
// pipelined loops.
Prediction predict(const analysis::Work& work, const program::CompileOptions& options,
                   const Machine& machine, const MachineRates& rates, int ctas_per_sm = 0);

// Predicts a matmul of the vendor's library, with 16-bit operands and tiles of 128 x 256.
Prediction predict_matmul(int64_t m, int64_t n, int64_t k, const Machine& machine,
                          const MachineRates& rates);

// Returns the time of a call: its steps and their launches, in us.
double call_us(std::span<const Prediction> steps, const MachineRates& rates);

}  // namespace ligerdsl::kernels

// Measures the time of work on a device with cold caches. Returns the median and the spread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/device/device.h"

namespace ligerdsl::runtime {

struct MeasureOptions {
  int32_t warmup = 3;  // runs before the first sample
  int32_t min_samples = 11;
  int32_t max_samples = 201;
  double budget_ms = 300;  // after min_samples, sampling stops when the samples sum to this
                           // time, or when the wall time exceeds ten times the budget
  bool cold = true;        // overwrite more than the L2 (GPU) or the last-level cache (CPU) before
                           // every sample
};

struct Measurement {
  double median_ms = 0, q20_ms = 0, q80_ms = 0, min_ms = 0;
  std::vector<double> samples_ms;  // in the order measured
};

// `work` queues one repetition on the given stream. GPU times are measured with events around it.
using Work = std::function<void(Stream)>;
Measurement measure(Device& device, const Work& work, const MeasureOptions& options = {});

// Measures several functions alternately, so that other load on a shared machine affects all of
// them equally. The budget applies to the time of the first function.
std::vector<Measurement> measure_alternately(Device& device, const std::vector<Work>& works,
                                             const MeasureOptions& options = {});

// Returns a function that copies `bytes` bytes between two buffers that it owns. On a CPU, all
// threads copy if there are 4 MiB or more. copy_gbps counts the bytes read and the bytes written.
Work copy_work(Device& device, int64_t bytes);
inline double copy_gbps(int64_t bytes, const Measurement& time) {
  return 2.0 * static_cast<double>(bytes) / (time.median_ms * 1e6);
}

// Returns the bandwidth of copy_work in GB/s, as the upper bound for measurements in the same run.
double copy_bandwidth_gbps(Device& device, int64_t bytes);

// Returns the host time per call of `work` in microseconds: the median over batches of `calls`
// calls. The stream is synchronised between batches.
double host_time_us(Device& device, Stream stream, int32_t calls,
                    const std::function<void()>& work);

}  // namespace ligerdsl::runtime

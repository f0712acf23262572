// Measuring a piece of work on a device: cold caches, median and spread.
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
  double budget_ms =
      300;           // stop between min and max samples once this much time was measured, or ten times as much passed
  bool cold = true;  // GPU: overwrite more than the L2 before every sample; CPU: more than the last-level cache
};

struct Measurement {
  double median_ms = 0, q20_ms = 0, q80_ms = 0, min_ms = 0;
  std::vector<double> samples_ms;  // in the order measured
};

// `work` queues one repetition on the stream that it is given. GPU times are taken with events around it.
using Work = std::function<void(Stream)>;
Measurement measure(Device& device, const Work& work, const MeasureOptions& options = {});

// Several pieces of work in turns, so that whatever else a shared machine does meets all of them. The budget is that of
// the first.
std::vector<Measurement> measure_in_turns(Device& device, const std::vector<Work>& works,
                                          const MeasureOptions& options = {});

// Copies `bytes` from one buffer of its own to another (CPU: with all threads). GB/s counts bytes read + written.
Work copy_work(Device& device, int64_t bytes);
inline double copy_gbps(int64_t bytes, const Measurement& time) {
  return 2.0 * static_cast<double>(bytes) / (time.median_ms * 1e6);
}

// The same-run ceiling.
double copy_bandwidth_gbps(Device& device, int64_t bytes);

// Host time of `work` per call in microseconds, median over batches; the stream is drained between batches.
double host_time_us(Device& device, Stream stream, int32_t calls, const std::function<void()>& work);

}  // namespace ligerdsl::runtime

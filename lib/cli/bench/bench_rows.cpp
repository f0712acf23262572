#include "lib/cli/bench/bench_rows.h"

#include <fmt/format.h>

namespace ligerdsl::cli {

double gbps(const Outcome& o) {
  return o.bytes / (o.time.median_ms * 1e6);
}
double tflops(const Outcome& o) {
  return o.flops / (o.time.median_ms * 1e9);
}

std::vector<std::string> table_row(const Outcome& o, double of_copy, double of_same) {
  const bool by_flops = o.flops > 0;
  return {o.kernel,
          o.title,
          format_time(o.time.median_ms),
          format_time(o.time.q20_ms),
          format_time(o.time.q80_ms),
          by_flops ? fmt::format("{:.1f} TFLOP/s", tflops(o)) : fmt::format("{:.1f} GB/s", gbps(o)),
          by_flops ? "" : fmt::format("{:.3f}", of_copy),
          by_flops ? "" : fmt::format("{:.3f}", of_same),
          o.beyond_inputs >= 0 ? format_bytes(o.beyond_inputs) : "",
          o.host_us > 0 ? fmt::format("{:.2f} us", o.host_us) : "",
          o.host_us > 0 ? fmt::format("{:.2f} us", o.host_us - o.launch_us) : "",
          o.resources};
}

Json json_row(const Outcome& o, double of_copy, double of_same) {
  return {{"kernel", o.kernel},
          {"settings", o.title},
          {"median_ms", o.time.median_ms},
          {"q20_ms", o.time.q20_ms},
          {"q80_ms", o.time.q80_ms},
          {"samples", o.time.samples_ms.size()},
          {"bytes", o.bytes},
          {"gb_per_s", gbps(o)},
          {"fraction_of_copy", of_copy},
          {"fraction_of_same_size_copy", of_same},
          {"tflops", tflops(o)},
          {"peak_bytes", o.beyond_inputs >= 0 ? Json(o.beyond_inputs) : Json()},
          {"workspace_bytes", o.workspace},
          {"host_us", o.host_us},
          {"driver_launch_us", o.launch_us},
          {"resources", o.resources}};
}

}  // namespace ligerdsl::cli

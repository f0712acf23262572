// Rates of a GPU that predict() uses. bench/fit_machine.py fits the rates below "Fitted" to the
// baselines (bench/baselines) and prints them as lines of this struct.
#pragma once

#include <string_view>

#include "kernels/core/launch.h"

namespace ligerdsl::kernels {

struct MachineRates {
  std::string_view name;  // part of the device's name

  // Published numbers.
  double clock_ghz = 1.98;  // without tensor-core load
  double lanes = 128;       // lane instructions per SM and clock
  double functions = 16;    // MUFU lane instructions per SM and clock
  double start_ns = 1.35;   // between the starts of two CTAs on the GPU

  // Fitted.
  double memory_gbps = 4364;    // reads and writes of global memory
  double looped = 0.961;        // multiplies memory_gbps in persistent kernels of one wave
  double launch_us = 3.75;      // first launch of a call, with the events that time it
  double follow_us = 1.38;      // each later launch
  double ramp_us = 2.5;         // time until memory is busy, plus time after its last access
  double program_clocks = 82;   // start and end of a program
  double latency_clocks = 322;  // wait for a load, with loads of other warps in flight
  double tensor = 1591;         // 16-bit multiply-adds per SM and clock
  double tensor_heat = 0.107;   // share of time that dense matmuls lose because the clock drops
  double operand_bytes = 113;   // bytes of shared memory that an SM's tensor cores read per clock
  double exposed = 1.11;        // multiplies the time of plain instructions in kernels with dots
  double l2_bytes = 49.7;       // bytes from L2 to an SM per clock
  double access_clocks = 2.51;  // clocks of an SM per global memory access of a warp
  double scatter = 10.4;        // accesses per store in kernels with dots: rows are scattered
  double scalar = 1.49;         // warp instructions per scalar operation
  double reduction = 19.9;      // warp instructions per reduction of a tile

  template <class V>
  void visit(V&& v) {
    v("memory_gbps", memory_gbps);
    v("looped", looped);
    v("launch_us", launch_us);
    v("follow_us", follow_us);
    v("ramp_us", ramp_us);
    v("program_clocks", program_clocks);
    v("latency_clocks", latency_clocks);
    v("tensor", tensor);
    v("tensor_heat", tensor_heat);
    v("operand_bytes", operand_bytes);
    v("exposed", exposed);
    v("l2_bytes", l2_bytes);
    v("access_clocks", access_clocks);
    v("scatter", scatter);
    v("scalar", scalar);
    v("reduction", reduction);
  }
};

inline constexpr MachineRates kH200{.name = "H200"};
// There is no baseline from an H100. Its SMs have the rates of an H200, and its memory bandwidth is
// scaled by the ratio of the published bandwidths.
inline constexpr MachineRates kH100{.name = "H100", .memory_gbps = kH200.memory_gbps * 3.35 / 4.8};

// Returns the rates of a Hopper GPU, or null for other machines. `device` is the name that the
// driver reports ("NVIDIA H100 80GB HBM3"). A name without "H100" gives the rates of an H200.
inline const MachineRates* find_machine_rates(const Machine& machine, std::string_view device) {
  constexpr int kHopper = 90;
  if (!machine.is_gpu() || machine.capability != kHopper) return nullptr;
  return device.find(kH100.name) != device.npos ? &kH100 : &kH200;
}

}  // namespace ligerdsl::kernels

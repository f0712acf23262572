#include "kernels/core/predict.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "program/gpu_arch.h"

namespace ligerdsl::kernels {
namespace {

using analysis::DotWork;
using analysis::ProgramWork;
using analysis::Work;

constexpr double kVectorBytes = 16, kUsPerNs = 1e-3;
constexpr double kBytesPerGbpsUs = 1e3;  // 1 GB/s moves 1e3 bytes in a microsecond
// The time of two units that work at once is the p-norm of their times: p = 1 gives the sum (no
// overlap), p = infinity the maximum (full overlap).
constexpr double kMemoryNorm = 20, kPipesNorm = 3, kL2Norm = 8;
// Registers per thread in addition to those of live tiles.
constexpr double kOtherRegisters = 24;
constexpr double kUnresidentBytes = 6 * 1024;  // bytes of a CTA's shared memory that hold no rows
constexpr double kL2Share = 0.64;              // fraction of L2 that holds resident rows
constexpr double kFewWaves = 6;                // with more waves, a partial wave hardly matters
constexpr double kUnevenTail = 0.5;  // waves that unequal programs add at the end of a grid

double norm(double power, double a, double b) {
  const double most = std::max(a, b);
  if (most <= 0) return 0;
  return most * std::pow(std::pow(a / most, power) + std::pow(b / most, power), 1 / power);
}

// Returns the bytes per access of a thread, from the variant's facts about the argument.
double access_bytes(const program::ArgFacts* facts, double element_bytes) {
  if (!facts) return element_bytes;
  double bytes = std::clamp(static_cast<double>(facts->pointer_align), element_bytes, kVectorBytes);
  for (size_t i = 0; i + 1 < facts->strides.size(); ++i) {
    const program::SizeFact& stride = facts->strides[i];
    const auto step = static_cast<uint64_t>(stride.exact >= 0 ? stride.exact : stride.divisor) *
                      static_cast<uint64_t>(element_bytes);
    if (step > 0) bytes = std::min(bytes, static_cast<double>(step & -step));
  }
  return std::max(bytes, element_bytes);
}

bool uses_wgmma(const DotWork& dot, const Machine& machine) {
  const program::GpuArch* arch = program::find_gpu_arch(machine.name);
  return arch && arch->wgmma && dot.m >= 64 && dot.dtype != DType::f32;
}

// Predicts one launch.
class LaunchModel {
 public:
  LaunchModel(const Work& work, const program::CompileOptions& options, const Machine& machine,
              const MachineRates& rates, int ctas_per_sm)
      : work_(work),
        options_(options),
        machine_(machine),
        rates_(rates),
        programs_(static_cast<double>(work.programs)),
        cluster_(options.num_ctas),
        threads_(program::kWarpThreads * options.num_warps) {
    for (const analysis::Traffic& one : work.traffic) {
      resident_ += one.resident;
      loaded_ += one.loaded;
    }
    ctas_ = ctas_per_sm > 0 ? ctas_per_sm : estimated_ctas();
    slots_ = std::max(1.0, std::floor(machine.sms * ctas_ / cluster_));
  }

  Prediction predict() const {
    const bool looped = work_.persistent && programs_ <= slots_;
    const double memory = memory_bytes() / kBytesPerGbpsUs / rates_.memory_gbps /
                          (looped ? rates_.looped : 1),
                 sm = grid_clocks() / rates_.clock_ghz * kUsPerNs,
                 starts = programs_ * cluster_ * rates_.start_ns * kUsPerNs,
                 both = norm(kMemoryNorm, sm, memory + rates_.ramp_us);
    return {.us = std::max(both, starts),
            .bound = starts > both                  ? Bound::starts
                     : sm > memory + rates_.ramp_us ? Bound::sm
                                                    : Bound::memory,
            .memory_us = memory,
            .sm_us = sm,
            .ctas_per_sm = static_cast<int>(ctas_),
            .is_assumed = work_.unknown.loops > 0};
  }

 private:
  double estimated_ctas() const {
    const double per_thread = work_.live_bytes / (4.0 * threads_ * cluster_),
                 registers = std::clamp(kOtherRegisters + per_thread, 32.0,
                                        static_cast<double>(machine_.max_registers)),
                 by_threads = machine_.ctas_per_sm(options_.num_warps),
                 least = std::min<double>(options_.min_ctas_per_sm, by_threads);
    double ctas =
        std::min(by_threads, std::floor(machine_.registers_per_sm / (registers * threads_)));
    ctas = std::max({1.0, ctas, least});
    if (work_.ring_bytes > 0) {
      const double slots = work_.ring_bytes / cluster_ + machine_.shared_reserved;
      ctas = std::clamp(std::floor(machine_.shared_per_sm / slots), 1.0, ctas);
    }
    constexpr int kWide = 512;  // a CTA of this many threads or more has an SM to itself
    if (resident_ > 0 && least == 0) ctas = std::min(ctas, threads_ >= kWide ? 1.0 : 2.0);
    return resident_ > 0 && least > 0 ? least : ctas;
  }

  // Returns the bytes read from and written to global memory. The second read of a resident row
  // comes from shared memory and L2 as far as the rows fit there, and otherwise from global memory.
  double memory_bytes() const {
    double bytes = work_.read() + work_.written();
    if (resident_ == 0 || work_.row_bytes == 0) return bytes;
    const double budget = (machine_.shared_per_sm / ctas_ - kUnresidentBytes) * cluster_,
                 absent = 1 - std::min(1.0, budget / work_.row_bytes),
                 in_flight = slots_ * work_.row_bytes * absent,
                 held = kL2Share * static_cast<double>(machine_.l2_bytes);
    if (in_flight > held) bytes += resident_ * absent * (1 - held / in_flight);
    return bytes;
  }

  // Returns the clocks that an average program spends in `dot`.
  double dot_clocks() const {
    constexpr double kMmaShare = 0.63;  // rate of mma.sync over that of wgmma
    double clocks = 0;
    for (const DotWork& dot : work_.dots) {
      if (dot.dtype == DType::f32 && !dot.tf32) {  // plain multiply-adds
        clocks += dot.multiply_adds / rates_.lanes;
        continue;
      }
      const double bytes = static_cast<double>(size_of(dot.dtype)), m = static_cast<double>(dot.m),
                   n = static_cast<double>(dot.n), k = static_cast<double>(dot.k);
      const double rate = rates_.tensor * 2 / bytes * (uses_wgmma(dot, machine_) ? 1 : kMmaShare);
      // Each group of 64 rows reads B from shared memory, and A if A is there.
      const double read = bytes * ((dot.loads_a ? m * k : 0) + std::max(1.0, m / 64) * n * k);
      clocks += std::max(dot.multiply_adds / rate,
                         dot.multiply_adds / (m * n * k) * read / rates_.operand_bytes);
    }
    return clocks / programs_;
  }

  // Returns the clocks that the threads of an average program spend on global memory accesses.
  double access_clocks(bool scattered) const {
    double accesses = 0;
    for (size_t i = 0; i < work_.traffic.size(); ++i) {
      const analysis::Traffic& one = work_.traffic[i];
      if (one.element_bytes == 0) continue;
      const double width =
          access_bytes(i < options_.facts.size() ? &options_.facts[i] : nullptr, one.element_bytes);
      accesses += (one.loaded - one.to_dots + one.stored * (scattered ? rates_.scatter : 1)) /
                  width / program::kWarpThreads;
    }
    return accesses * rates_.access_clocks / programs_;
  }

  // Returns the clocks of an average program that has an SM to itself.
  double program_clocks() const {
    const ProgramWork& all = work_.total;
    const double warps = static_cast<double>(program::kWarpThreads) * options_.num_warps * cluster_;
    const double lanes =
        all.lanes + (all.scalars * rates_.scalar + all.reductions * rates_.reduction) * warps;
    const double plain =
        norm(kPipesNorm, all.functions / rates_.functions, lanes / rates_.lanes) / programs_;
    const bool has_dots = all.dots > 0;
    const double accesses = access_clocks(has_dots);
    double clocks = norm(kPipesNorm, plain, accesses);
    if (has_dots) {
      const double dots = dot_clocks(), busy = dots / (dots + plain + accesses);
      clocks = dots * (1 + rates_.tensor_heat * busy) + rates_.exposed * plain + accesses;
    }
    return norm(kL2Norm, clocks, loaded_ / rates_.l2_bytes / programs_) / cluster_;
  }

  double grid_clocks() const {
    const ProgramWork &all = work_.total, &most = work_.largest;
    const double one = program_clocks(),
                 ratio = all.dots > 0 ? most.dots / (all.dots / programs_)
                                      : most.lanes / std::max(all.lanes / programs_, 1e-9),
                 largest = one * std::max(1.0, ratio),
                 share = std::max(1.0, std::min(programs_, slots_) * cluster_ / machine_.sms),
                 wait = most.waits * rates_.latency_clocks;
    if (programs_ <= slots_) return std::max(largest * share, wait) + rates_.program_clocks;
    const bool equal = largest < 1.05 * one;
    double waves = programs_ / slots_;
    if (equal && waves < kFewWaves && !work_.dynamic_persistent)
      waves = std::ceil(waves - 1e-9);
    else if (!equal || !work_.dynamic_persistent)
      waves += kUnevenTail;
    return std::max(waves * (std::max(one * share, wait) + rates_.program_clocks), largest * ctas_);
  }

  const Work& work_;
  const program::CompileOptions& options_;
  const Machine& machine_;
  const MachineRates& rates_;
  double programs_, cluster_;
  int threads_;
  double resident_ = 0, loaded_ = 0;
  double ctas_ = 1, slots_ = 1;  // CTAs per SM; programs that run at one time
};

}  // namespace

const char* name_of(Bound bound) {
  constexpr const char* kNames[] = {"memory", "SMs", "program starts"};
  return kNames[static_cast<int>(bound)];
}

Prediction predict(const Work& work, const program::CompileOptions& options, const Machine& machine,
                   const MachineRates& rates, int ctas_per_sm) {
  if (work.programs == 0) return {};
  return LaunchModel(work, options, machine, rates, ctas_per_sm).predict();
}

Prediction predict_matmul(int64_t m, int64_t n, int64_t k, const Machine& machine,
                          const MachineRates& rates) {
  constexpr int64_t kTileM = 128, kTileN = 256, kBytes = 2;
  const double sms = machine.sms,
               tiles = static_cast<double>(ceil_div(m, kTileM) * ceil_div(n, kTileN)),
               splits = std::max(1.0, std::floor(sms / tiles)),
               waves = std::ceil(tiles * splits / sms),
               tile = static_cast<double>(kTileM * kTileN * k) / rates.tensor *
                      (1 + rates.tensor_heat),
               sm = waves * (tile / splits + rates.program_clocks) / rates.clock_ghz * kUsPerNs,
               memory = static_cast<double>((m * k + n * k + m * n) * kBytes) / rates.memory_gbps /
                        kBytesPerGbpsUs;
  return {.us = norm(kMemoryNorm, sm, memory),
          .bound = sm > memory ? Bound::sm : Bound::memory,
          .memory_us = memory,
          .sm_us = sm,
          .ctas_per_sm = 1};
}

double call_us(std::span<const Prediction> steps, const MachineRates& rates) {
  if (steps.empty()) return 0;
  double us = rates.launch_us + rates.follow_us * static_cast<double>(steps.size() - 1);
  for (const Prediction& step : steps) us += step.us;
  return us;
}

}  // namespace ligerdsl::kernels

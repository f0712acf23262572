// Recording of library kernels.
#pragma once

#include <string>

#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "ligerdsl/dsl.h"
#include "program/program.h"

namespace ligerdsl::kernels {

// Assignment of programs to CTAs: one program per CTA or cluster, or
// KernelBuilder::dynamic_persistent. The code of a kernel is the same for both.
enum class Schedule { grid, dynamic_persistent };

// Returns dynamic_persistent for clusters that share rows: each takes its next program from a
// counter.
inline Schedule schedule_of(const RowConfig& config) {
  return config.keep == Keep::cluster ? Schedule::dynamic_persistent : Schedule::grid;
}

// Records a step. The name of the kernel ends with the dtype, so that profiles show it. The results
// of the in-place and out-of-place variants of a kernel must be bit-identical. Therefore the
// compiler fuses a multiplication and an addition only where the kernel calls fma. (The choice of
// fusions could otherwise differ between the variants.)
template <class Meta>
Step record_step(const std::string& name, DType type, void (*build)(KernelBuilder&, const Meta&),
                 const Meta& meta, Launch launch, Schedule schedule = Schedule::grid) {
  const auto exact = [=](KernelBuilder& k, const Meta& m) {
    const auto rounding = k.exact_rounding();
    if (schedule == Schedule::dynamic_persistent)
      k.dynamic_persistent([&] { build(k, m); });
    else
      build(k, m);
  };
  return {.program =
              record(Kernel<Meta>{.name = name + "_" + ligerdsl::name(type), .build = exact}, meta),
          .launch = std::move(launch)};
}

}  // namespace ligerdsl::kernels

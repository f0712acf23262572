// Recording of library kernels.
#pragma once

#include <string>

#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "ligerdsl/dsl.h"
#include "program/program.h"

namespace ligerdsl::kernels {

// Assignment of programs to CTAs: one program per CTA, or KernelBuilder::dynamic_persistent. A
// kernel's code does not depend on it.
enum class Schedule { grid, dynamic_persistent };

// Clusters that share rows take their programs from a counter.
inline Schedule schedule_of(const RowConfig& config) {
  return config.keep == Keep::cluster ? Schedule::dynamic_persistent : Schedule::grid;
}

// Records a step. The name of the kernel ends with the dtype, so that profiles show it. The
// compiler contracts no multiplication and addition unless the kernel calls fma. If it did, a
// kernel's in-place and out-of-place compiles could differ, but their results must have the same
// bits.
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

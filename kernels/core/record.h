// Records a kernel by the library's conventions.
#pragma once

#include <string>

#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "ligerdsl/dsl.h"
#include "program/program.h"

namespace ligerdsl::kernels {

// How the programs of a kernel come to CTAs: one each, or as KernelBuilder::dynamic_persistent says. No kernel's code
// depends on it.
enum class Schedule { grid, dynamic_persistent };

// CTAs that share rows take them from a counter.
inline Schedule schedule_of(const RowConfig& config) {
  return config.keep == Keep::cluster ? Schedule::dynamic_persistent : Schedule::grid;
}

// The kernel's name carries the data type, so profiles tell the variants apart. Products and sums are contracted only
// where a kernel says fma: the compiler's choice could differ between the in-place and the out-of-place variant of one
// kernel, and their results are to have the same bits.
template <class Meta>
Step record_step(const std::string& name, DType type, void (*build)(KernelBuilder&, const Meta&), const Meta& meta,
                 Launch launch, Schedule schedule = Schedule::grid) {
  const auto exact = [=](KernelBuilder& k, const Meta& m) {
    const auto rounding = k.exact_rounding();
    if (schedule == Schedule::dynamic_persistent)
      k.dynamic_persistent([&] { build(k, m); });
    else
      build(k, m);
  };
  return {.program = record(Kernel<Meta>{.name = name + "_" + ligerdsl::name(type), .build = exact}, meta),
          .launch = std::move(launch)};
}

}  // namespace ligerdsl::kernels

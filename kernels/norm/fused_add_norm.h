// Kernels of a norm with a residual, under their own names: sum = round(x + residual), y =
// norm(sum).
#pragma once

#include "kernels/core/config.h"

namespace ligerdsl::kernels {

template <class Options>
Options with_residual(Options options) {
  options.residual = true;
  return options;
}

template <class Options, class Config, const ConfiguredKernel<Options, Config>& norm>
constexpr ConfiguredKernel<Options, Config> fused_add(const char* name, const char* description) {
  return {
      name,
      description,
      [](const Machine& machine, const Options& options, const Config& config) {
        return norm.valid(machine, with_residual(options), config);
      },
      [](const Machine& machine, const Options& options) {
        return norm.heuristic(machine, with_residual(options));
      },
      [](const Machine& machine, const Options& options, const Config& config) {
        return norm.build(machine, with_residual(options), config);
      },
      [](const Options& options, int64_t rows) { return norm.cost(with_residual(options), rows); }};
}

}  // namespace ligerdsl::kernels

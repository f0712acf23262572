// Kernels whose schedule is data. A kernel has:
//
//   Config       struct of named choices, such as rows per tile, warps and stages
//   valid        returns the reason why a Config cannot be built
//   heuristic    returns the default Config
//   build        returns the Operation of a Config
//
// A Config is a plain struct. Like options (ligerdsl/dsl/meta.h), it has a visit() that lists its
// fields, each with its possible values and with the effect of a change on the results (Bits). A
// Config holds choices only: `build` derives tiles and grids. The search space is the set of all
// combinations that `valid` accepts.
//
// A CPU ignores min_ctas_per_sm, which only changes the Launch. All its values are valid on a CPU,
// so that a GPU's Config can be tried. A search on a CPU needs only one value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/core/launch.h"
#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::kernels {

// Minimum memory traffic of a call, for any Config.
struct Cost {
  double bytes = 0;  // inputs read once, results written once
};

// Returns text like "keep=registers rows=4 num_warps=8". Tuned tables and the settings
// `config.NAME=VALUE` of the ligerdsl command use the same names and values.
std::string config_text(const std::vector<MetaField>& fields);

namespace detail {

// Writes options as text, but omits false, 0 and the first name of an enum. A new option with such
// a default therefore does not change existing texts.
struct MetaTextWriter {
  std::string text;

  void add(const char* name, const std::string& value) {
    if (!text.empty()) text += ' ';
    text.append(name).append(1, '=').append(value);
  }
  template <class T, class... Rest>
  void operator()(const char* name, T& value, Rest&&...) {
    if constexpr (std::is_same_v<T, DType>)
      add(name, ligerdsl::name(value));
    else if (value == T{})
      return;
    else if constexpr (std::is_same_v<T, bool>)
      add(name, "true");
    else if constexpr (std::is_floating_point_v<T>)
      add(name, ligerdsl::detail::number_text(value));
    else
      add(name, std::to_string(value));
  }
  template <class T, class... Rest>
  requires std::is_enum_v<T> &&(!std::is_same_v<T, DType>)void operator()(
      const char* name, T& value, std::initializer_list<const char*> names, Rest&&...) {
    if (value != T{}) add(name, std::data(names)[static_cast<size_t>(value)]);
  }
};

}  // namespace detail

// Returns the text of all options of a struct.
template <class Meta>
std::string meta_text(Meta meta) {
  detail::MetaTextWriter writer;
  meta.visit(writer);
  return std::move(writer.text);
}

// Kernel with a single schedule.
template <class Options>
struct FixedKernel {
  const char* name;
  const char* description;
  Operation (*make)(const Machine&, const Options&);

  Operation operator()(const Machine& machine, const Options& options) const {
    return make(machine, options);
  }
};

template <class Options, class Config>
struct ConfiguredKernel {
  const char* name;
  const char* description;
  // Returns the reason why this Config cannot be built; empty if it can. A Config that can be built
  // runs on every GPU of the machine's architecture.
  std::string (*valid)(const Machine&, const Options&, const Config&);
  Config (*heuristic)(const Machine&, const Options&);
  Operation (*build)(const Machine&, const Options&, const Config&);  // the Config must be valid
  Cost (*cost)(const Options&, int64_t rows);
  int version = 1;  // raised when a field changes its meaning

  Operation operator()(const Machine& machine, const Options& options) const {
    return build(machine, options, heuristic(machine, options));
  }

  // Returns the heuristic's Config with these fields changed. Throws ligerdsl::Error for an unknown
  // name or value, and for a Config that is not valid.
  Config chosen(const Machine& machine, const Options& options, const MetaValues& changed) const {
    const Config config = meta_from<Config>(name, changed, heuristic(machine, options));
    if (const std::string reason = valid(machine, options, config); !reason.empty())
      throw Error("error: kernel '" + std::string(name) + "' cannot run with " +
                  config_text(meta_fields(config)) + ": " + reason);
    return config;
  }
};

}  // namespace ligerdsl::kernels

// The form of a kernel whose schedule is data: a Config of named choices, which of them can be, which one is taken where
// nothing else says so, and the Operation that they make.
//
// A Config is a plain struct whose fields are visited like those of options (ligerdsl/dsl/meta.h), each with its choices
// and with what another choice changes in the results (Bits). It holds choices, not their consequences: build derives
// tiles and grids. Its space is every combination of choices that valid() takes.
//
// A CPU has no use for min_ctas_per_sm. There its values are valid, so that a GPU's Config can be tried, and change
// nothing but the Launch: whoever looks through the space of a CPU takes one of them (what is compiled is equal).
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

// What a call must do at least, whatever the Config.
struct Cost {
  double bytes = 0;  // inputs read once, results written once
};

// "keep=registers rows=4 num_warps=8": what `config.NAME=VALUE` settings of the command and tables of tuned kernels hold.
std::string config_text(const std::vector<MetaField>& fields);

namespace detail {

// An option that is false, 0 or the first of its names is left out: one that is added later, and then means what there
// was before, changes no text.
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
  requires std::is_enum_v<T> &&(!std::is_same_v<T, DType>)void operator()(const char* name, T& value,
                                                                          std::initializer_list<const char*> names,
                                                                          Rest&&...) {
    if (value != T{}) add(name, std::data(names)[static_cast<size_t>(value)]);
  }
};

}  // namespace detail

// The same of a struct's fields, at once.
template <class Meta>
std::string meta_text(Meta meta) {
  detail::MetaTextWriter writer;
  meta.visit(writer);
  return std::move(writer.text);
}

// A kernel without a choice of schedules.
template <class Options>
struct FixedKernel {
  const char* name;
  const char* description;
  Operation (*make)(const Machine&, const Options&);

  Operation operator()(const Machine& machine, const Options& options) const { return make(machine, options); }
};

template <class Options, class Config>
struct ConfiguredKernel {
  const char* name;
  const char* description;
  // The reason why this Config cannot be; empty: it can be built, and every GPU of the machine's
  // architecture runs it.
  std::string (*valid)(const Machine&, const Options&, const Config&);
  Config (*heuristic)(const Machine&, const Options&);
  Operation (*build)(const Machine&, const Options&, const Config&);  // of a Config that is valid
  Cost (*cost)(const Options&, int64_t rows);
  int version = 1;  // raised when a field changes its meaning

  Operation operator()(const Machine& machine, const Options& options) const {
    return build(machine, options, heuristic(machine, options));
  }

  // The heuristic's choice with these fields changed. Throws ligerdsl::Error for a name or value that there is not and
  // for what is not valid.
  Config chosen(const Machine& machine, const Options& options, const MetaValues& changed) const {
    const Config config = meta_from<Config>(name, changed, heuristic(machine, options));
    if (const std::string reason = valid(machine, options, config); !reason.empty())
      throw Error("error: kernel '" + std::string(name) + "' cannot run with " + config_text(meta_fields(config)) +
                  ": " + reason);
    return config;
  }
};

}  // namespace ligerdsl::kernels

// Every operation of the library by name, with its options and its schedule as text: what tools list, compile, probe
// and tune.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::kernels {

struct CatalogEntry {
  std::string name;
  std::string description;
  std::vector<MetaField> options;  // with default values
  // Unknown options and values throw ligerdsl::Error, here and below.
  std::function<Operation(const Machine&, const MetaValues& options)> make;

  // The rest of a ConfiguredKernel (config.h); empty where there is nothing to choose.
  std::function<std::vector<MetaField>(const Machine&, const MetaValues& options)> heuristic;
  // The reason against the heuristic's choice with these fields changed, or "".
  std::function<std::string(const Machine&, const MetaValues& options, const MetaValues& config)> valid;
  // The operation of that choice; throws the reason.
  std::function<Operation(const Machine&, const MetaValues& options, const MetaValues& config)> make_with;
  std::function<Cost(const MetaValues& options, int64_t rows)> cost;
  int version = 0;

  bool configured() const { return version > 0; }
};

const std::vector<CatalogEntry>& catalog();
const CatalogEntry* find_operation(const std::string& name);  // or nullptr

}  // namespace ligerdsl::kernels

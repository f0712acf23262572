// All operations of the library by name, with options and schedules as text. Tools use this catalog
// to list, compile, probe and tune operations.
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
  // The functions below throw ligerdsl::Error for unknown options and values.
  std::function<Operation(const Machine&, const MetaValues& options)> make;

  // The functions below belong to a ConfiguredKernel (config.h). They are empty for a FixedKernel.
  std::function<std::vector<MetaField>(const Machine&, const MetaValues& options)> heuristic;
  // Returns the reason why the heuristic's Config with these fields changed is not valid, or "".
  std::function<std::string(const Machine&, const MetaValues& options, const MetaValues& config)>
      valid;
  // Returns the operation of that Config. Throws an Error with the reason if the Config is not
  // valid.
  std::function<Operation(const Machine&, const MetaValues& options, const MetaValues& config)>
      make_with;
  std::function<Cost(const MetaValues& options, int64_t rows)> cost;
  int version = 0;

  bool configured() const { return version > 0; }
};

const std::vector<CatalogEntry>& catalog();
const CatalogEntry* find_operation(const std::string& name);  // or nullptr

}  // namespace ligerdsl::kernels

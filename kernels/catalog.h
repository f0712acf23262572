// Every operation of the library by name, with its options as text: what tools list, compile and show.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/launch.h"
#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::kernels {

struct CatalogEntry {
  std::string name;
  std::string description;
  std::vector<MetaField> options;  // with default values
  // Unknown options and values throw ligerdsl::Error.
  std::function<Operation(const Machine&, const MetaValues& options)> make;
};

const std::vector<CatalogEntry>& catalog();
const CatalogEntry* find_operation(const std::string& name);  // or nullptr

}  // namespace ligerdsl::kernels

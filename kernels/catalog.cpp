#include "kernels/catalog.h"

#include "kernels/catalog_headers.inc"

namespace ligerdsl::kernels {
namespace {

template <class Options>
CatalogEntry entry(const FixedKernel<Options>& kernel) {
  return {.name = kernel.name,
          .description = kernel.description,
          .options = meta_fields(Options{}),
          .make = [&kernel](const Machine& machine, const MetaValues& options) {
            return kernel(machine, meta_from<Options>(kernel.name, options));
          }};
}

template <class Options, class Config>
CatalogEntry entry(const ConfiguredKernel<Options, Config>& kernel) {
  const auto options_of = [name = kernel.name](const MetaValues& values) {
    return meta_from<Options>(name, values);
  };
  return {.name = kernel.name,
          .description = kernel.description,
          .options = meta_fields(Options{}),
          .make = [=, &kernel](
                      const Machine& machine,
                      const MetaValues& options) { return kernel(machine, options_of(options)); },
          .heuristic =
              [=, &kernel](const Machine& machine, const MetaValues& options) {
                return meta_fields(kernel.heuristic(machine, options_of(options)));
              },
          .valid =
              [=, &kernel](const Machine& machine, const MetaValues& options,
                           const MetaValues& config) {
                const Options o = options_of(options);
                return kernel.valid(machine, o,
                                    meta_from(kernel.name, config, kernel.heuristic(machine, o)));
              },
          .make_with =
              [=, &kernel](const Machine& machine, const MetaValues& options,
                           const MetaValues& config) {
                const Options o = options_of(options);
                return kernel.build(machine, o, kernel.chosen(machine, o, config));
              },
          .cost = [=, &kernel](const MetaValues& options,
                               int64_t rows) { return kernel.cost(options_of(options), rows); },
          .version = kernel.version};
}

}  // namespace

const std::vector<CatalogEntry>& catalog() {
  // One entry per kernel that a header in kernels/*/ declares (generate_catalog.py).
  static const auto& entries = *new std::vector<CatalogEntry>{
#define LIGERDSL_CATALOG_ENTRY(kernel) entry(kernel),
#include "kernels/catalog_entries.inc"
#undef LIGERDSL_CATALOG_ENTRY
  };
  return entries;
}

const CatalogEntry* find_operation(const std::string& name) {
  for (const CatalogEntry& entry : catalog()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace ligerdsl::kernels

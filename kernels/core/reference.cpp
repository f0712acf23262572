#include "kernels/core/reference.h"

#include <utility>

namespace ligerdsl::reference {

// kernels/references.inc has one LIGERDSL_REFERENCE_ENTRY(operation) for each
// LIGERDSL_REFERENCE(operation) in kernels/.
#define LIGERDSL_REFERENCE_ENTRY(operation) Reference reference_of_##operation;
#include "kernels/references.inc"
#undef LIGERDSL_REFERENCE_ENTRY

namespace {

const std::map<std::string_view, Reference*>& references() {
  static const std::map<std::string_view, Reference*> table = {
#define LIGERDSL_REFERENCE_ENTRY(operation) {#operation, reference_of_##operation},
#include "kernels/references.inc"
#undef LIGERDSL_REFERENCE_ENTRY
  };
  return table;
}

}  // namespace

std::vector<int64_t> ReferenceCall::integers(const std::string& tensor) const {
  const Values& values = (*this)[tensor];
  return {values.begin(), values.end()};
}

Expectation ReferenceCall::over_rows(const std::string& tensor, Values sums, DType terms,
                                     const std::string& accumulate) const {
  const DType own = type(tensor);
  if (flag(accumulate)) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += (*this)[tensor][i];
  }
  return {std::move(sums), true, own == DType::f32 ? terms : own};
}

Reference* find_reference(std::string_view operation) {
  const auto found = references().find(operation);
  return found == references().end() ? nullptr : found->second;
}

std::vector<std::string_view> referenced_operations() {
  std::vector<std::string_view> names;
  for (const auto& [name, reference] : references()) names.push_back(name);
  return names;
}

Values scaled_rows(Values rows, const Values& factors, int64_t cols) {
  for (size_t i = 0; !factors.empty() && i < rows.size(); ++i)
    rows[i] *= factors[factors.size() == 1 ? 0 : i / static_cast<size_t>(cols)];
  return rows;
}

}  // namespace ligerdsl::reference

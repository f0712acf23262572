// Rows of a table, by their indices.
#include <utility>
#include <vector>

#include "kernels/oracle/elementwise.h"
#include "lib/cli/oracle/formulas.h"

namespace ligerdsl::cli {

namespace {

// Rows of the table that the whole table's indices name: below 0 or from V on where this shard does not have them.
std::vector<int64_t> local_indices(const Call& c) {
  std::vector<int64_t> indices = c.integers("indices");
  for (int64_t& index : indices) index -= static_cast<int64_t>(c.number("first_row"));
  return indices;
}

Expected embedding_forward(const Call& c) {
  const int64_t h = c.size("H"), v = c.size("V"), first = static_cast<int64_t>(c.number("first_row"));
  const auto total = static_cast<int64_t>(c.number("total_rows"));
  const bool positions = c.has("position_weight");
  Values out;
  int64_t i = 0;
  for (const int64_t index : c.integers("indices")) {
    const int64_t position = positions ? i++ % c.size("P") : 0, local = index - first;
    const bool valid = index >= 0 && index < (total > 0 ? total : v), here = local >= 0 && local < v;
    const Values row = valid && here ? c.row("weight", local, h) : Values(static_cast<size_t>(h), valid ? 0.0 : kNan);
    for (int64_t j = 0; j < h; ++j) out.push_back(row[j] + (positions ? c["position_weight"][position * h + j] : 0));
  }
  return {{"out", {out}}};
}

Expected embedding_backward(const Call& c) {
  Values sums = oracle::embedding_gradient_oracle(c["d_out"], local_indices(c), c.size("V"), c.size("H"));
  Expected expected = {{"d_weight", c.over_rows("d_weight", std::move(sums))}};
  if (!c.has("d_position_weight")) return expected;
  Values positions = oracle::position_gradient_oracle(c["d_out"], c.size("N"), c.size("P"), c.size("H"));
  expected["d_position_weight"] =
      c.over_rows("d_position_weight", std::move(positions), DType::f32, "accumulate_positions");
  return expected;
}

}  // namespace

Formulas embedding_formulas() {
  return {{"embedding_forward", embedding_forward}, {"embedding_backward", embedding_backward}};
}

}  // namespace ligerdsl::cli

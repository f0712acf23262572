// float64 embedding and the gradients of its tables.
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

// Returns the gradient of a table [v, h] that `indices` gathers. Indices out of range add nothing.
Values embedding_gradient_reference(const Values& d_out, const std::vector<int64_t>& indices,
                                    int64_t v, int64_t h) {
  Values out(v * h, 0.0);
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= v) continue;
    for (int64_t j = 0; j < h; ++j) out[indices[i] * h + j] += d_out[i * h + j];
  }
  return out;
}

// Returns the gradient of a position table [p, h], whose row i mod p is added to row i.
Values position_gradient_reference(const Values& d_out, int64_t n, int64_t p, int64_t h) {
  Values out(p * h, 0.0);
  for (int64_t i = 0; i < n * h; ++i) out[i / h % p * h + i % h] += d_out[i];
  return out;
}

// Returns the indices as row numbers of this shard; those of other shards are < 0 or >= V.
std::vector<int64_t> local_indices(const ReferenceCall& call) {
  std::vector<int64_t> indices = call.integers("indices");
  for (int64_t& index : indices) index -= call.integer("first_row");
  return indices;
}

}  // namespace

LIGERDSL_REFERENCE(embedding_forward) {
  const int64_t h = call.size("H"), v = call.size("V"), first = call.integer("first_row");
  const auto total = call.integer("total_rows");
  const bool positions = call.has("position_weight");
  Values out;
  int64_t i = 0;
  for (const int64_t index : call.integers("indices")) {
    const int64_t position = positions ? i++ % call.size("P") : 0, local = index - first;
    const bool valid = index >= 0 && index < (total > 0 ? total : v),
               here = local >= 0 && local < v;
    const Values row = valid && here ? call.row("weight", local, h)
                                     : Values(static_cast<size_t>(h), valid ? 0.0 : kNan);
    for (int64_t j = 0; j < h; ++j)
      out.push_back(row[j] + (positions ? call["position_weight"][position * h + j] : 0));
  }
  return {{"out", {out}}};
}

LIGERDSL_REFERENCE(embedding_backward) {
  Values sums = embedding_gradient_reference(call["d_out"], local_indices(call), call.size("V"),
                                             call.size("H"));
  Expected expected = {{"d_weight", call.over_rows("d_weight", std::move(sums))}};
  if (!call.has("d_position_weight")) return expected;
  Values positions =
      position_gradient_reference(call["d_out"], call.size("N"), call.size("P"), call.size("H"));
  expected["d_position_weight"] =
      call.over_rows("d_position_weight", std::move(positions), DType::f32, "accumulate_positions");
  return expected;
}

}  // namespace ligerdsl::reference

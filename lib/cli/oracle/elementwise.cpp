// Sums and products of elements.
#include "kernels/oracle/elementwise.h"

#include <utility>

#include "lib/cli/oracle/formulas.h"

namespace ligerdsl::cli {

namespace {

Expected vector_add(const Call& c) {
  Values out = c["a"];
  for (size_t i = 0; i < out.size(); ++i) out[i] += c["b"][i];
  return {{"out", {out}}};
}

Expected bias_add_forward(const Call& c) {
  return {{"y", {oracle::bias_oracle(c["x"], c["bias"])}}};
}

Expected bias_add_backward(const Call& c) {
  return {{"d_bias", c.over_rows("d_bias", oracle::column_sums_oracle(c["d_y"], c.size("F")))}};
}

}  // namespace

Expected scaled(const Call& c, const char* out, const char* in, const char* factors, const char* columns) {
  Values x = c[in];
  const Values& factor = c[factors];
  const auto cols = static_cast<size_t>(c.size(columns));
  for (size_t i = 0; i < x.size(); ++i) x[i] *= factor[factor.size() == 1 ? 0 : i / cols];
  return {{out, {std::move(x)}}};
}

Formulas elementwise_formulas() {
  return {{"vector_add", vector_add},
          {"scale", [](const Call& c) { return scaled(c, "out", "x", "factor", "H"); }},
          {"bias_add_forward", bias_add_forward},
          {"bias_add_backward", bias_add_backward}};
}

}  // namespace ligerdsl::cli

#include "kernels/rope/rope_reference.h"

#include "kernels/core/reference.h"
#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(rope) {
  RopeCase r{.batch = call.size("B"),
             .seq = call.size("S"),
             .heads = call.size("A"),
             .d = call.size("D"),
             .rotary = call.integer("rotary_dim"),
             .interleaved = call.option("layout") == LIGERDSL_ROPE_INTERLEAVED,
             .sign = call.flag("inverse") ? -1.0 : 1.0};
  if (call.option("layout") == LIGERDSL_ROPE_MULTIMODAL) {
    r.time = call.integer("time_section");
    r.height = call.integer("height_section");
    r.width = call.integer("width_section");
  }
  const bool complex = call.flag("complex_table");
  Values cos, sin;  // tables may be wider; the first `angles` columns are used
  for (int64_t row = 0; row < r.planes() * r.seq; ++row) {
    for (int64_t i = 0; i < r.angles(); ++i) {
      const auto at = static_cast<size_t>(row * r.d + (complex ? 2 * i : i));
      cos.push_back(call["cos"][at]);
      sin.push_back(complex ? call["cos"][at + 1] : call["sin"][at]);
    }
  }
  Expected expected = {{"q_out", {rope_reference(call["q"], cos, sin, r)}}};
  r.heads = call.size("K");
  if (call.has("k")) expected["k_out"] = {rope_reference(call["k"], cos, sin, r)};
  return expected;
}

}  // namespace ligerdsl::reference

// Facts about a call of a fused lm_head as text, for `explain`.
#pragma once

#include "lib/abi/fused_linear/chunks.h"
#include "lib/abi/plan.h"

namespace ligerdsl::lib {

// Form in which the workspace stores logits if a gradient needs them.
enum class LogitsAs { logits, exponentials, gradient };

// Properties of a call that LinearLayout does not contain.
struct HeadReport {
  bool own_products;  // true if the library's own kernels multiply
  bool or_own;        // true if own kernels multiply when no matrix library is found
  LogitsAs kept;
  bool with_d_x, with_d_weight, with_d_bias;
  bool from_lse;
  DType product_type;
  int64_t classes, cols;
  int64_t target_cols = 0;  // not 0: columns H of a target, whose logits are also computed
  int64_t tile_rows = 0;    // not 0: rows per tile; tiles without a counted row are skipped
};

std::vector<Fact> facts_of(const HeadReport& report, const LinearLayout& layout, int64_t rows);

}  // namespace ligerdsl::lib

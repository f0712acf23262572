// How a fused head goes, in words.
#pragma once

#include "lib/src/fused_linear/chunks.h"
#include "lib/src/plan.h"

namespace ligerdsl::lib {

// What becomes of logits where a gradient needs something of their size.
enum class LogitsAs { logits, exponentials, gradient };

// What a layout does not say.
struct HeadReport {
  bool own_products;  // by the library's own kernels
  bool or_own;        // those of a library, or its own where none is found
  LogitsAs kept;
  bool with_d_x, with_d_weight, with_d_bias;
  bool from_lse;
  DType product_type;
  int64_t classes, cols;
  int64_t target_cols = 0;  // not 0: logits of a target are made of so many columns, too
  int64_t tile_rows = 0;    // not 0: tiles of so many rows none of which counts are left out
};

std::vector<Fact> facts_of(const HeadReport& report, const LinearLayout& layout, int64_t rows);

}  // namespace ligerdsl::lib

// The schedules of cross-entropy.
#pragma once

#include "kernels/config.h"
#include "kernels/cross_entropy.h"
#include "kernels/row_config.h"

namespace ligerdsl::kernels {

struct CrossEntropyConfig : RowConfig {
  bool prefetched = false;  // rows in blocks: the first pass loads a block ahead

  template <class V>
  void visit(V&& v) {
    RowConfig::visit(v);
    v("prefetched", prefetched, Bits::same);
  }
};

using CrossEntropy = ConfiguredKernel<CrossEntropyOptions, CrossEntropyConfig>;
extern const CrossEntropy cross_entropy_kernel;

// What a Config makes of the options.
CrossEntropyMeta cross_entropy_meta(const Machine& machine, const CrossEntropyOptions& o,
                                    const CrossEntropyConfig& config);
// `rows`, after what counts for it and before what adds up its results; with their scratch.
Operation with_totals(const CrossEntropyMeta& meta, Step rows);

}  // namespace ligerdsl::kernels

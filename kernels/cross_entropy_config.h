// The schedules of cross-entropy.
#pragma once

#include "kernels/config.h"
#include "kernels/cross_entropy.h"
#include "kernels/row_config.h"

namespace ligerdsl::kernels {

struct CrossEntropyConfig : RowConfig {
  // Programs of an SM that start in 45 us on an H200, where a program for each of 10^6 rows takes 1.35 ms. They are some
  // ten times what runs there together, so that the last ones leave an SM idle for a tenth of the time at most.
  static constexpr int kProgramsOfShortRows = 256;

  bool prefetched = false;  // rows in blocks: the first pass loads a block ahead
  int programs_per_sm =
      0;  // whole rows: most programs per SM, each of which takes several rows; 0: one program per row

  // Without the program.
  Launch launch(const Machine& machine) const;

  template <class V>
  void visit(V&& v) {
    RowConfig::visit(v);
    v("prefetched", prefetched, Bits::same);
    v("programs_per_sm", programs_per_sm, choices({0, 32, 64, 128, 256, 512}), Bits::same);
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

// First matmul of an lm_head whose logits are not stored. It computes a chunk's exponentials and
// the results of its rows.
#pragma once

#include <optional>
#include <vector>

#include "kernels/fused_linear/linear_cross_entropy.h"
#include "lib/abi/fused_linear/weight.h"

namespace ligerdsl::lib::head {

class HeadExponentials {
 public:
  HeadExponentials(Context& context, const Desc& d,
                   const kernels::LinearCrossEntropyOptions& options);

  int64_t tile_rows() const { return tiles_.tile_m; }
  int64_t tile_columns() const { return tiles_.tile_n; }
  // Number of values that a tile stores per row.
  int64_t tile_numbers() const { return static_cast<int64_t>(numbers_.size()); }

  // Computes a chunk's exponentials, and the results and gradient factor of each row. `first` is
  // the chunk's first row in the batch; the chunk's other views must be set.
  void run(const Call& call, const LinearLayout& layout, const HeadWeight& weight, int64_t first,
           Views* views) const;
  // Computes v.exponentials.scaled_x, the rows of x times their factor, for d_weight. It overwrites
  // the tile statistics.
  void scale_x(const Call& call, const LinearLayout& layout, Views* views) const;

  void add_launchers(std::vector<const Launcher*>* all) const;

 private:
  void multiply(const Call& call, const LinearLayout& layout, const HeadWeight& weight,
                const KernelStep& product, const Views& views) const;
  void multiply_blocks(const Call& call, const LinearLayout& layout, const HeadWeight& weight,
                       const KernelStep& product, const Views& views) const;
  void multiply_classes(const Call& call, const Part& classes, int64_t first_tile,
                        const LinearLayout& layout, const KernelStep& product,
                        const Views& views) const;

  int64_t classes_, cols_;
  DType type_;
  kernels::MatmulConfig tiles_;
  bool in_blocks_;
  std::vector<BoundTensor Views::TileStatistics::*> numbers_;  // statistics that the options need
  std::optional<KernelStep> row_tiles_, label_logits_, exponentials_, overflows_, again_, rows_,
      scaled_x_;
};

}  // namespace ligerdsl::lib::head

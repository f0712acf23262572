// Matmuls of plans that process large tensors in chunks. KernelMatmul implements runtime::Matmul
// with the library's own kernels instead of the vendor's library.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/matmul/matmul.h"
#include "lib/abi/context.h"
#include "lib/abi/kernel_step.h"
#include "runtime/kernel/matmul.h"

namespace ligerdsl::lib {

// A matmul that a plan needs. Its kernels are compiled when the plan is made.
struct ProductKind {
  runtime::Product product;
  DType type, result;      // dtype of both operands; dtype of c
  bool adds = false;       // computes c += a b instead of c = a b
  bool row_scale = false;  // multiplies each row of a b by a number
  bool outer = false;      // adds the outer product of two vectors to c
  bool in_blocks = false;  // columns of a are stored in blocks (kernels/core/column_blocks.h)
  bool pads = false;       // may write padding after a row of c, up to a whole vector
  // Rows per tile that the kernel may skip (kernels/matmul/row_tiles.h); 0: it skips none. In d^T x
  // these rows are the dimension k.
  int64_t tile_rows = 0;
  // Reads ignored rows of b as zeros (kernels/matmul/matmul.h); the next two fields define which
  // rows are ignored.
  bool ignores_rows = false;
  DType label_type = i64;
  int64_t ignore_index = 0;
  int64_t cols, width;  // usual row lengths of c and of a in memory, for the schedule
};

// Matmuls of an lm_head: logits = x w^T, d_x = d w and d_weight = d^T x.
struct HeadProducts {
  int64_t classes, cols;
  DType type, product_type;  // dtype of x; dtype of the matmuls' operands
  DType logits_type;
  bool adds_up_d_x;  // d_x may be accumulated in f32 over several matmuls
  bool with_d_x, with_d_weight;
  DType d_weight_type;
  bool logits = true;         // a plain matmul computes the logits
  bool row_scale = false;     // each row of d has a scale
  int64_t tile_rows = 0;      // rows per tile of d that a kernel may skip, or 0
  bool outer = false;         // an outer product of two vectors is added to d_x and d_weight
  bool in_blocks = false;     // d is stored in blocks for d_x
  bool by_vocabulary = true;  // d_weight may be vocabulary-blocked
  DType label_type = i64;     // used with ignore_index if by_vocabulary and tile_rows are set
  int64_t ignore_index = 0;
};
std::vector<ProductKind> head_products(const HeadProducts& head);

class KernelMatmul final : public runtime::Matmul {
 public:
  KernelMatmul(Context& context, const std::vector<ProductKind>& kinds);

  size_t workspace_bytes() const override { return 0; }
  // multiply_with() computes row_scale * (a b) + outer_rows outer_cols, and stores it to c or adds
  // it to c. Null terms are omitted.
  // - row_scale and outer_rows: [rows of c] f32.
  // - outer_cols: [columns of c] f32.
  // - places, depth: arguments of kernels/matmul/matmul.h with row_tiles and some_depth.
  struct OptionalViews {
    const BoundTensor *row_scale = nullptr, *outer_rows = nullptr, *outer_cols = nullptr;
    const BoundTensor *places = nullptr, *depth = nullptr;
    const BoundTensor* labels = nullptr;  // argument of kernels with ignores_rows; requires `depth`
  };
  void multiply_with(runtime::Product product, const runtime::Matrix& a, const runtime::Matrix& b,
                     const OptionalViews& optional, bool add, const runtime::Matrix& c,
                     runtime::Stream stream) const;
  // Computes c += row_scale * (a b), with a stored in blocks [blocks, rows, 2^block_shift].
  void add_blocks(const BoundTensor& a, int64_t block_shift, const runtime::Matrix& b,
                  const OptionalViews& optional, const runtime::Matrix& c,
                  runtime::Stream stream) const;
  void add_launchers(std::vector<const Launcher*>* all) const;

 protected:
  void run(runtime::Product product, const Sizes& sizes, const runtime::Matrix& a,
           const runtime::Matrix& b, float beta, const runtime::Matrix& c, void* workspace,
           runtime::Stream stream) override;

 private:
  struct Kernel {
    ProductKind kind;
    kernels::MatmulConfig config;
    std::unique_ptr<KernelStep> step;
  };
  void add_kernel(Context& context, const ProductKind& kind, const kernels::MatmulOptions& options);
  int64_t time_of(const Kernel& kernel, const runtime::Matrix& c) const;
  const Kernel& kernel_for(runtime::Product product, DType type, const runtime::Matrix& c,
                           bool adds, const OptionalViews& optional, bool in_blocks = false) const;

  int64_t tiles_at_once_;
  std::vector<Kernel> kernels_;
};

// A plan's matmul implementation, chosen by LIGERDSL_PRODUCTS_*. `kernels` is null if the vendor's
// library multiplies.
struct Products {
  std::shared_ptr<runtime::Matmul> matmul;
  std::shared_ptr<const KernelMatmul> kernels;
};
Products products_of(Context& context, int32_t choice, const std::vector<ProductKind>& kinds);

// Returns true if the library's own kernels multiply an lm_head of these sizes faster than
// cuBLASLt, which is fast only if m, n and k are multiples of 8: not for V = 50,257. The own
// kernels accept any V, because their TMA copies fill elements outside of a tensor with zeros. But
// rows of x and of the weight must begin at multiples of 16 bytes. So the row lengths `widths` must
// be multiples of 8 elements; for other lengths see need_aligned_copies().
bool own_products_are_faster(const kernels::Machine& machine, DType type, int64_t classes,
                             std::span<const int64_t> widths);

// Returns true if the library's own kernels should multiply aligned copies of x and of the weight.
// They should if not all rows of `widths` elements begin at multiples of 16 bytes, as TMA needs. An
// example is H = 2050 in 16-bit types.
//
// choice: LIGERDSL_PRODUCTS_*.
bool need_aligned_copies(const kernels::Machine& machine, DType type, int32_t choice,
                         std::span<const int64_t> widths);

}  // namespace ligerdsl::lib

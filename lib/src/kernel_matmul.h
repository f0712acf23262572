// Matrix products of plans that go through large tensors piece by piece, made by the library's own kernels: the form of
// runtime::Matmul without a library of the device's maker.
#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "kernels/matmul/matmul.h"
#include "lib/src/context.h"
#include "lib/src/kernel_step.h"
#include "runtime/kernel/matmul.h"

namespace ligerdsl::lib {

// What a plan multiplies: its kernels are compiled when the plan is made.
struct ProductKind {
  runtime::Product product;
  DType type, result;      // of both factors, of c
  bool adds = false;       // to what is in c
  bool row_scale = false;  // a number of its own multiplies every row
  bool outer = false;      // a number of its row times one of its column is added
  bool in_blocks = false;  // a's columns lie in blocks (kernels/core/column_blocks.h)
  bool pads = false;       // what is between a row of c and the next may be written, up to a whole vector
  // Not 0: tiles of so many rows (of K in d^T x) are left out as kernels/matmul/row_tiles.h says.
  int64_t tile_rows = 0;
  // Multiplies where ignored rows of b are left out (kernels/matmul/matmul.h); what makes their labels.
  bool ignores_rows = false;
  DType label_type = i64;
  int64_t ignore_index = 0;
  int64_t cols, width;  // usual sizes of c's rows and of a's in memory, for the schedule
};

// Those of a head: logits = x w^T, d_x = d w and d_weight = d^T x.
struct HeadProducts {
  int64_t classes, cols;
  DType type, product_type;  // of x, of what is multiplied
  DType logits_type;
  bool adds_up_d_x;  // may be made in f32, as a sum of several products
  bool with_d_x, with_d_weight;
  DType d_weight_type;
  bool logits = true;         // are multiplied as they are
  bool row_scale = false;     // of d
  int64_t tile_rows = 0;      // of d, as of a ProductKind
  bool outer = false;         // with numbers of rows and columns added to d_x and d_weight
  bool in_blocks = false;     // d of d_x lies in blocks
  bool by_vocabulary = true;  // d_weight may be made so, as it is
  DType label_type = i64;     // of by_vocabulary with tile_rows; likewise the next
  int64_t ignore_index = 0;
};
std::vector<ProductKind> head_products(const HeadProducts& head);

class KernelMatmul final : public runtime::Matmul {
 public:
  KernelMatmul(Context& context, const std::vector<ProductKind>& kinds);

  size_t workspace_bytes() const override { return 0; }
  // c = row_scale * (a b) + outer_rows outer_cols, added to c where it adds: what is not NULL, [rows of c], [rows of c] and
  // [columns of c] f32. places, depth: what kernels/matmul/matmul.h takes with row_tiles and some_depth.
  struct Factors {
    const BoundTensor *row_scale = nullptr, *outer_rows = nullptr, *outer_cols = nullptr;
    const BoundTensor *places = nullptr, *depth = nullptr;
    const BoundTensor* labels = nullptr;  // with depth: what ignores_rows takes
  };
  void multiply_with(runtime::Product product, const runtime::Matrix& a, const runtime::Matrix& b,
                     const Factors& factors, bool add, const runtime::Matrix& c, runtime::Stream stream) const;
  // c += row_scale * (a b) of a in blocks [blocks, rows, 2^block_shift].
  void add_blocks(const BoundTensor& a, int64_t block_shift, const runtime::Matrix& b, const Factors& factors,
                  const runtime::Matrix& c, runtime::Stream stream) const;
  void add_launchers(std::vector<const Launcher*>* all) const;

 protected:
  void run(runtime::Product product, const Sizes& sizes, const runtime::Matrix& a, const runtime::Matrix& b, float beta,
           const runtime::Matrix& c, void* workspace, runtime::Stream stream) override;

 private:
  struct Kernel {
    ProductKind kind;
    kernels::MatmulConfig config;
    std::unique_ptr<KernelStep> step;
  };
  void add_kernel(Context& context, const ProductKind& kind, const kernels::MatmulOptions& options);
  int64_t time_of(const Kernel& kernel, const runtime::Matrix& c) const;
  const Kernel& kernel_for(runtime::Product product, DType type, const runtime::Matrix& c, bool adds,
                           const Factors& factors, bool in_blocks = false) const;

  int64_t tiles_at_once_;
  std::vector<Kernel> kernels_;
};

// The products of a plan by LIGERDSL_PRODUCTS_*. kernels: where they are the library's own, else NULL.
struct Products {
  std::shared_ptr<runtime::Matmul> matmul;
  std::shared_ptr<const KernelMatmul> kernels;
};
Products products_of(Context& context, int32_t choice, const std::vector<ProductKind>& kinds);

// Returns true if the library's own kernels multiply a head of these sizes faster than cuBLASLt does. cuBLASLt has fast
// kernels only for m, n and k that are multiples of 8: with V = 50,257 its three products took 4.9 times as long as with
// V = 50,304. The own kernels load operands by TMA, which fills with zeros what lies outside, so V may be any number.
// Rows of x and of the weight must begin at multiples of 16 bytes, which is why each of `widths` must be a multiple of 8.
bool own_products_are_faster(const kernels::Machine& machine, DType type, int64_t classes,
                             std::initializer_list<int64_t> widths);

}  // namespace ligerdsl::lib

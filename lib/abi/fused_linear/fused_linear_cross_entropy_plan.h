// Fused linear cross-entropy: loss and gradients of logits z = x w^T, without the logits of all
// rows in memory. x is [N, H], the weight w is [V, H]. The page
// docs/design/fused-linear-cross-entropy.md has sizes and times.
//
// 1. Stored logits. The batch is divided into chunks of rows. The workspace holds the logits of one
//    chunk:
//
//   count the labels that are not ignored
//   for each chunk of rows:
//     z = x w^T
//     losses of the rows;  z = d(loss)/dz, in place
//     d_bias += column sums of z
//     d_weight += z^T x
//     d_x = z w
//   loss = sum of the rows' losses
//
// d_weight is computed before d_x, so that d_x may overwrite x. z^T x must not read ignored rows of
// x, which may hold NaN. It reads a copy of x with zeros in these rows (counted_x.h). The copy is
// in d_x's memory until d_x is computed.
//
// 2. Blocks of the vocabulary. Each chunk reads and writes all of d_weight, which is slow for small
//    chunks (chunks.h). For small chunks the loop above omits d_weight and keeps each row's lse. A
//    second loop recomputes the logits and writes each block of d_weight once. It reads x, so d_x
//    must not overwrite x:
//
//   for each block of the vocabulary, for many rows at a time:
//     z = x w_block^T;  z = d(loss)/dz, in place;  d_weight_block += z^T x
//
// 3. Exponentials. The library's own matmuls need not store logits, unless the options forbid it
//    (kernels/fused_linear/linear_cross_entropy.h). Their epilogue stores e, the exponentials
//    relative to the label's logit, and the row sums of each tile. Without gradients it stores only
//    the row sums. The row sums give a row's losses and a factor f; the gradient is f e. For each
//    chunk:
//
//   e = exp(x w^T - label logit), row sums
//   losses and f of the rows
//   d_bias += f^T e;  d_weight += e^T (f x);  d_x = f (e w)
//
// Label smoothing adds a term that is equal for all logits of a row (linear_smoothing.h). Row tiles
// without a counted row are skipped (kernels/matmul/row_tiles.h).
//
// 4. Exponentials in d_weight's memory. Under a memory limit the workspace holds only the first
//    vocabulary block's exponentials. The memory of d_weight holds the exponentials of the other
//    blocks (chunks.h). Then d_weight is computed from the last block to the first, and each block
//    overwrites the exponentials of the block after it. Only the last chunk's exponentials are
//    still in memory, so d(loss)/dz of earlier rows is recomputed:
//
//   for each chunk of rows:  e, row sums, losses, f;  d_x = f (e w)
//   for each block of the vocabulary, from the last:
//     d_weight_block = e_block^T (f x), for the last chunk
//     for the rows before it, many at a time:  z = d(loss)/dz;  d_weight_block += z^T x
//
// For an f32 d_weight there is an alternative, if the workspace has room for large chunks. First,
// the leading rows whose exponentials fit in d_weight are computed in this way. Then chunks of the
// other rows add to d_weight.
//
// 5. Gradients from an lse. fused_linear_cross_entropy_backward reads the lse of an earlier call.
//    Its first loop computes d(loss)/dz from the lse, like the second loop of 2. The library's own
//    matmuls store d(loss)/dz directly (kernels/fused_linear/linear_cross_entropy_columns.h), but
//    only if the earlier call did not store logits: the lse of rounded logits does not match exact
//    logits.
//
// 6. Dtypes. On a CPU matmuls and logits are f32; x, weight and d_x of other dtypes are converted.
//    On a GPU matmuls have the dtype of x, and an f32 weight is rounded to it. If the workspace has
//    no room for the whole rounded weight, it is rounded in blocks of rows. Then each matmul is
//    split into one per block, and d_x accumulates in f32.
//
// 7. Unaligned rows. The library's matmuls need rows that begin at multiples of 16 bytes. If H does
//    not allow this, x and the weight are copied to aligned rows, like operands that need another
//    dtype.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/abi/fused_linear/counted_x.h"
#include "lib/abi/fused_linear/exponential_matmuls.h"
#include "lib/abi/fused_linear/exponentials.h"
#include "lib/abi/fused_linear/gradients.h"
#include "lib/abi/fused_linear/linear_plan.h"
#include "lib/abi/fused_linear/options.h"
#include "lib/abi/fused_linear/smoothing.h"
#include "lib/abi/fused_linear/views.h"
#include "lib/abi/fused_linear/weight.h"
#include "lib/abi/kernel_matmul.h"

namespace ligerdsl::lib::head {

class FusedLinearCrossEntropy final : public OpPlan {
 public:
  // from_lse: the call passes the rows' lse and entropy, and no losses are computed.
  FusedLinearCrossEntropy(const ContextRef& context, const Desc& d, const OpInfo& info,
                          bool from_lse);

  int64_t rows(const Call& call) const override;
  std::string refusal(int64_t rows) const override;
  size_t workspace_bytes(int64_t rows) const override;
  // Assumes that the caller's tensors are contiguous and 256-byte aligned. Other calls choose their
  // matmuls when they run.
  void prepare(int64_t rows) const override;
  void execute(const Call& call) const override;
  std::vector<const Launcher*> launchers() const override;
  std::vector<Fact> facts(const Call& call) const override;

 private:
  using Step = std::optional<KernelStep>;
  using Matrix = runtime::Matrix;
  using Product = runtime::Product;

  // ---- Choices (fused_linear_cross_entropy.cpp)

  LinearChunkOptions chunk_options_of(size_t product_workspace) const;
  // Returns the options of a plan that stores logits or their gradient.
  LinearChunkOptions stored_chunk_options() const;
  LinearLayout layout_of(const Call& call) const;
  // AUTO chooses the library's own matmuls if one of these holds:
  // - V or H is not a multiple of 8 (own_products_are_faster, need_aligned_copies). These rules
  //   depend on sizes alone, so a call that writes an lse and the call that reads it agree.
  // - The workspace limit is below kDefaultLogits, and d_weight's memory may hold exponentials.
  //   Storing logits would be slower.
  // - Only losses are wanted: the call needs a small fraction of the memory that it needs with
  //   cuBLASLt, at about equal speed.
  //
  // The last two rules do not apply to calls that write or read an lse: both calls must make the
  // same choice, because rounded and exact logits have different lse.
  int32_t choice_of_products() const;
  // Returns true if d_weight's memory may hold exponentials.
  bool may_use_d_weight() const {
    return !aligned_copies_ && head::may_use_d_weight(d_, product_type_);
  }
  bool in_blocks() const { return takes_exponentials() && may_use_d_weight(); }
  bool has_exponentials() const {
    return kernels::has_exponentials(kernel_options(d_, product_type_, false));
  }
  bool takes_exponentials() const { return !from_lse_ && has_exponentials(); }
  // Returns true if the gradients' matmuls add label smoothing's terms.
  bool smooths() const {
    return takes_exponentials() && d_.label_smoothing != 0 && with_gradient(d_);
  }
  // Returns true if the library's own matmuls compute d(loss)/dz from an lse without storing
  // logits. They do so only if the pass that computes the lse stores no logits either.
  bool takes_gradients() const {
    return from_lse_ ? product_type_ != DType::f16 : takes_exponentials();
  }
  std::vector<ProductKind> product_kinds() const;
  // Returns the rows per tile of the exponentials' matmul.
  int64_t tile_rows() const;
  void prepare_chunks(int64_t rows, const LinearLayout& layout) const;
  void prepare_blocks(int64_t rows, const LinearLayout& layout) const;
  Matrix logits_at(int64_t rows, const Part& columns, int64_t stride) const;
  Matrix d_x_at(const Part& rows, const LinearLayout& layout) const;
  DType sum_type(const LinearLayout& layout) const;

  // ---- Kernels (fused_linear_cross_entropy_steps.cpp)

  Step step(const kernels::Step& recorded, StepNames names) const;
  static StepNames count_names();
  kernels::LinearCrossEntropyOptions linear_options(bool keeps_lse) const;
  void make_exponentials();
  void make_gradients();
  // Creates cross-entropy's steps. The step that reads logits runs on each chunk; the others run
  // once on all rows.
  void make_cross_entropy();
  void make_counts();
  // Creates the steps that replace stored logits by their gradient, using the rows' lse.
  void make_columns();
  void make_d_bias();
  void make_conversions();
  // Creates the step that copies x for z^T x, with zeros in ignored rows. Matmuls of exponentials
  // need no such copy: they read x times a factor, which is 0 for ignored rows. If they compute
  // d_weight block by block, check_ignored_rows() replaces the copy.
  void make_x();

  // ---- Chunks of rows (fused_linear_cross_entropy_run.cpp)

  // Returns the views that are the same for all chunks of a call.
  Views whole_batch(const Call& call, const LinearLayout& layout, int64_t rows) const;
  // Sets the views of rows [first, first + count), for chunks and for blocks of the vocabulary.
  void select_rows(const Call& call, const LinearLayout& layout, int64_t first, int64_t count,
                   Views* views) const;
  BoundTensor x_in_workspace(const Call& call, const LinearLayout& layout, int64_t rows) const;
  // Copies x with zeros in ignored rows. The chunk's d_x memory holds the copy until d_x is
  // computed. If d_x overwrites x, x itself becomes the copy.
  void count_x(const Call& call, const LinearLayout& layout, int64_t rows, Views* views) const;

  // Computes c = product(a, b), or c += product(a, b) with `add`.
  void multiply(const Call& call, const LinearLayout& layout, Product product, const BoundTensor& a,
                const BoundTensor& b, bool add, const BoundTensor& c) const;
  // Computes chunk.logits, whose columns are the classes from `first` on.
  void multiply_logits(const Call& call, const LinearLayout& layout, int64_t first,
                       const Views& views) const;
  // Computes gradients.d_x from chunk.logits, which has all classes.
  void multiply_d_x(const Call& call, const LinearLayout& layout, const Views& views) const;

  // Computes all results of rows [first, first + count).
  void run_chunk(const Call& call, const LinearLayout& layout, int64_t first, int64_t count,
                 Views* views) const;
  void run_chunks(const Call& call, const LinearLayout& layout, int64_t first, int64_t end,
                  Views* views) const;
  // Computes losses, d_x and d_weight of the batch's first rows, which `layout` describes. Later
  // chunks add to d_weight.
  void run_in_front(const Call& call, const LinearLayout& layout, Views* views) const;
  // Computes the selected chunk's logits, replaces them by their gradient, and writes the results
  // of the rows.
  void run_logits(const Call& call, const LinearLayout& layout, int64_t first, int64_t count,
                  Views* views) const;
  // Replaces chunk.logits by their gradient. `numbers` has the first row and the first class of
  // chunk.logits.
  void run_columns(const Call& call, const Views& v, const Numbers& numbers) const;
  int64_t column_blocks(int64_t columns) const { return kernels::ceil_div(columns, column_block_); }
  // Writes the results of a call without rows.
  void without_rows(const Views& views, const Call& call) const;

  // ---- Blocks of the vocabulary (fused_linear_cross_entropy_blocks.cpp)

  // Checks on the device whether one of x's first `rows` rows is ignored and not finite. If so,
  // selects the matmul that reads ignored rows as zeros.
  void check_ignored_rows(const Call& call, const LinearLayout& layout, int64_t rows,
                          Views v) const;
  void run_blocks_in_place(const Call& call, const LinearLayout& layout, const Views& views) const;
  // Computes d_weight of a block of classes. Rows of the last chunk use their exponentials, which
  // are still in memory. The gradients of earlier rows are computed again.
  void run_block_in_place(const Call& call, const LinearLayout& layout, int64_t block,
                          Views v) const;
  // Computes d_weight of the classes [first_column, first_column + columns).
  void run_block(const Call& call, const LinearLayout& layout, int64_t first_column,
                 int64_t columns, Views v) const;
  void select_block(const Call& call, const LinearLayout& layout, int64_t first_column,
                    int64_t columns, Views* views) const;
  // Adds d^T x of the batch's first `rows` rows to gradients.d_weight, or overwrites it if `add` is
  // false. Its classes begin at first_column. Recomputes d = d(loss)/dz at `logits`, for `at_once`
  // rows at a time.
  void add_rows(const Call& call, const LinearLayout& layout, int64_t first_column,
                std::byte* logits, int64_t at_once, int64_t rows, bool add, Views* views) const;

  ContextRef context_;
  Desc d_;
  const OpInfo& info_;
  bool from_lse_;
  DType type_, product_type_;
  bool aligned_copies_;
  Products products_;
  std::shared_ptr<runtime::Matmul> matmul_;
  LinearChunks chunks_;
  HeadWeight weight_;
  Step count_, rows_, finish_;
  Step first_d_bias_, next_d_bias_, round_d_bias_;
  Step convert_x_, check_ignored_rows_, round_d_x_, round_d_weight_;
  std::optional<CountedX> counted_x_;  // set if neither convert_x_ nor a factor zeroes rows
  Step zero_d_weight_, zero_d_bias_;
  Step label_logit_, columns_;
  int64_t column_block_ = 0;  // columns of logits per program of columns_
  // The next four are set only if logits are not stored.
  std::optional<HeadExponentials> exponentials_;
  std::optional<HeadSmoothing> smoothing_;
  std::optional<ExponentialMatmuls> exponential_matmuls_;
  std::optional<HeadGradients> gradients_;
};

}  // namespace ligerdsl::lib::head

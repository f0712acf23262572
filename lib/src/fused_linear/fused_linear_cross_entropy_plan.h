// Fused linear cross-entropy: chunk by chunk, a product makes logits, cross-entropy turns them into their gradient in
// place, two products turn that into the gradients of weight and x.
//
//   counts over all labels
//   for every chunk of rows:
//     z = x w^T;  z = d(loss)/dz in place, and the rows' losses;  d_bias += sum of rows of z;  d_w += z^T x;  d_x = z w
//   loss = sum of the rows' losses
//
// d_weight comes before d_x, so that d_x may overwrite x. The memory of d_x first holds the copy of x that z^T x takes
// (counted_x.h). Where chunks would be too small to add to d_w for each (chunks.h), the loop keeps the rows' log-sum-exp instead, and a second one follows, for which x must remain:
//
//   for every block of the vocabulary, for many rows at a time:
//     z = x w_block^T;  z = d(loss)/dz in place;  d_w_block += z^T x
//
// Where products are the library's own kernels and the options allow it, logits are never stored: their product stores
// exponentials relative to the label's logit and the sums of each tile's rows, if no gradient is wanted the sums alone
// (kernels/fused_linear/linear_cross_entropy.h). The chunk then is:
//
//     e = exp(x w^T - label logit), sums;  the rows' losses and factors f;  d_bias += f^T e;  d_w += e^T (f x);  d_x = f (e w)
//
// to each of which smoothing adds what is the same for all logits of a row (kernels/fused_linear/linear_smoothing.h). Tiles of rows none of which
// counts are left out (kernels/matmul/row_tiles.h).
//
// Under a limit of memory they are stored where d_weight will be (chunks.h), in blocks of the vocabulary, and d_weight is
// made from the last block on, each where the exponentials of the block above it were:
//
//   for every chunk of rows:  e, sums, losses, f;  d_x = f (e w)
//   for every block of the vocabulary:
//     d_w_block = e_block^T (f x) of the last chunk;  for the rows before, many at a time:  d = d(loss)/dz;  d_w_block += d^T x
//
// or, where d_weight is f32 and the workspace has room for large chunks, for as many rows as stand there alone; chunks of the
// others are then added to what those made.
//
// From rows' log-sum-exps that an earlier call left (fused_linear_cross_entropy_backward) the first loop makes d(loss)/dz
// as the second one does. Products of the library's own kernels store d(loss)/dz itself there
// (kernels/fused_linear/linear_cross_entropy_columns.h), but after a pass that stores logits: the lse of rounded logits is theirs alone.
//
// On a CPU products are f32: x, weight and d_x of other types are converted on the way, and logits stay f32. On a GPU
// products are of x's type, and an f32 weight is rounded to it: once, or block by block of its rows where the workspace
// has no room for all of it. A product then becomes one for each block, and d_x their sum in f32.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/src/fused_linear/counted_x.h"
#include "lib/src/fused_linear/exponential_matmuls.h"
#include "lib/src/fused_linear/exponentials.h"
#include "lib/src/fused_linear/gradients.h"
#include "lib/src/fused_linear/linear_plan.h"
#include "lib/src/fused_linear/options.h"
#include "lib/src/fused_linear/smoothing.h"
#include "lib/src/fused_linear/views.h"
#include "lib/src/fused_linear/weight.h"
#include "lib/src/kernel_matmul.h"

namespace ligerdsl::lib::head {

class FusedLinearCrossEntropy final : public OpPlan {
 public:
  // from_lse: the call gives lse and entropy of the rows, and no losses are computed.
  FusedLinearCrossEntropy(const ContextRef& context, const Desc& d, const OpInfo& info, bool from_lse);

  int64_t rows(const Call& call) const override;
  std::string refusal(int64_t rows) const override;
  size_t workspace_bytes(int64_t rows) const override;
  // Assumes that the caller's tensors are contiguous and 256-byte aligned; other calls choose their matmuls when they run.
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
  // Options of a plan that stores logits or their gradient.
  LinearChunkOptions stored_chunk_options() const;
  LinearLayout layout_of(const Call& call) const;
  // AUTO takes the library's own matmuls if one of these holds:
  // * V is not a multiple of 8 (own_products_are_faster). This rule depends on sizes alone, so a call that writes an lse and
  //   the call that reads it agree.
  // * The workspace limit requires that d_weight's memory holds exponentials. With stored logits the call takes a third longer.
  // * Only losses are wanted: 2 % slower than cuBLASLt, in hundredths of the memory.
  // The last two do not apply to calls that write or read an lse, because the lse of rounded logits differs.
  int32_t choice_of_products() const;
  bool in_blocks() const { return takes_exponentials() && may_use_d_weight(d_, product_type_); }
  bool has_exponentials() const { return kernels::has_exponentials(kernel_options(d_, product_type_, false)); }
  bool takes_exponentials() const { return !from_lse_ && has_exponentials(); }
  // Returns true if the gradients' matmuls add the terms of label smoothing.
  bool smooths() const { return takes_exponentials() && d_.label_smoothing != 0 && with_gradient(d_); }
  // Returns true if the library's own matmuls compute d(loss)/dz from an lse without storing logits. They do if the pass that
  // computes the lse stores none either.
  bool takes_gradients() const { return from_lse_ ? product_type_ != DType::f16 : takes_exponentials(); }
  std::vector<ProductKind> product_kinds() const;
  // Rows of a tile of the matmul that computes exponentials.
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
  // Cross-entropy's steps: the one that reads logits runs on every chunk, the others once on all rows.
  void make_cross_entropy();
  void make_counts();
  // Steps that turn stored logits into their gradient, from the lse of the rows.
  void make_columns();
  void make_sums();
  void make_conversions();
  // Copy of x that z^T x reads: its ignored rows are zero. Matmuls of exponentials read x times a factor, which is 0 for
  // ignored rows, unless d_weight is computed block by block.
  void make_x();

  // ---- Chunks of rows (fused_linear_cross_entropy_run.cpp)

  // Views of a call that are the same for all of its chunks.
  Views whole_batch(const Call& call, const LinearLayout& layout, int64_t rows) const;
  // Sets the views of `count` rows from row `first` on that chunks and blocks both read.
  void select_rows(const Call& call, const LinearLayout& layout, int64_t first, int64_t count, Views* views) const;
  BoundTensor x_in_workspace(const Call& call, const LinearLayout& layout, int64_t rows) const;
  // Copies x with zeros in ignored rows. The memory of the chunk's d_x holds the copy first; if d_x overwrites x, x itself
  // becomes the copy.
  void count_x(const Call& call, const LinearLayout& layout, int64_t rows, Views* views) const;

  // c = product(a, b), or c += product(a, b).
  void multiply(const Call& call, const LinearLayout& layout, Product product, const BoundTensor& a,
                const BoundTensor& b, bool add, const BoundTensor& c) const;
  // Writes chunk.logits, whose columns are the classes from `first` on.
  void multiply_logits(const Call& call, const LinearLayout& layout, int64_t first, const Views& views) const;
  // Writes gradients.d_x from chunk.logits of all classes.
  void multiply_d_x(const Call& call, const LinearLayout& layout, const Views& views) const;

  // Computes all results of rows [first, first + count).
  void run_chunk(const Call& call, const LinearLayout& layout, int64_t first, int64_t count, Views* views) const;
  void run_chunks(const Call& call, const LinearLayout& layout, int64_t first, int64_t end, Views* views) const;
  // Computes losses, d_x and d_weight of the first rows of the batch, for which `layout` is. Later chunks add to d_weight.
  void run_in_front(const Call& call, const LinearLayout& layout, Views* views) const;
  // Computes the selected chunk's logits, replaces them by their gradient, and writes the results of the rows.
  void run_logits(const Call& call, const LinearLayout& layout, int64_t first, int64_t count, Views* views) const;
  // Replaces chunk.logits, which begin at the row and class that `numbers` gives, by their gradient.
  void run_columns(const Call& call, const Views& v, const Numbers& numbers) const;
  int64_t column_blocks(int64_t columns) const { return kernels::ceil_div(columns, column_block_); }
  // Writes the results of a call without rows.
  void without_rows(const Views& views, const Call& call) const;

  // ---- Blocks of the vocabulary (fused_linear_cross_entropy_blocks.cpp)

  // If an ignored row among the first `rows` rows of x is not finite, chooses on the device the matmul that skips such rows.
  void check_ignored_rows(const Call& call, const LinearLayout& layout, int64_t rows, Views v) const;
  void run_blocks_in_place(const Call& call, const LinearLayout& layout, const Views& views) const;
  // Computes d_weight of a block of classes whose exponentials of the last chunk are still in memory.
  void run_block_in_place(const Call& call, const LinearLayout& layout, int64_t block, Views v) const;
  // Computes d_weight of the classes [first_column, first_column + columns).
  void run_block(const Call& call, const LinearLayout& layout, int64_t first_column, int64_t columns, Views v) const;
  void select_block(const Call& call, const LinearLayout& layout, int64_t first_column, int64_t columns,
                    Views* views) const;
  // Adds the first `rows` rows of the batch to gradients.d_weight of the classes from first_column on, `at_once` rows at a time,
  // whose d(loss)/dz is computed at `logits`. add: false overwrites d_weight.
  void add_rows(const Call& call, const LinearLayout& layout, int64_t first_column, std::byte* logits, int64_t at_once,
                int64_t rows, bool add, Views* views) const;

  ContextRef context_;
  Desc d_;
  const OpInfo& info_;
  bool from_lse_;
  DType type_, product_type_;
  Products products_;
  std::shared_ptr<runtime::Matmul> matmul_;
  LinearChunks chunks_;
  HeadWeight weight_;
  Step count_, rows_, finish_;
  Step first_d_bias_, next_d_bias_, round_d_bias_;
  Step convert_x_, check_ignored_rows_, round_d_x_, round_d_weight_;
  std::optional<CountedX> counted_x_;  // if neither convert_x_ nor a factor writes the zeros
  Step zero_d_weight_, zero_d_bias_;
  Step label_logit_, columns_;
  int64_t column_block_ = 0;  // columns per program of columns_
  // Only if logits are not stored:
  std::optional<HeadExponentials> exponentials_;
  std::optional<HeadSmoothing> smoothing_;
  std::optional<ExponentialProducts> exponential_products_;
  std::optional<HeadGradients> gradients_;
};

}  // namespace ligerdsl::lib::head

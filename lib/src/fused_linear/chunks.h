// How fused linear cross-entropy cuts a batch into chunks of rows, and where its workspace holds what.
//
// d_weight += d^T x reads and writes all of d_weight for every chunk. Where chunks would be too small for that,
// d_weight is made by blocks of the vocabulary: the pass over chunks of rows leaves each row's log-sum-exp, and a
// second pass multiplies the logits of a block of columns again, for as many rows as possible, and makes from them the
// gradient of that block of the weight. Where log-sum-exps are given and d_weight is all that is wanted, the second
// pass is the only one.
//
// Exponentials of a chunk may stand where d_weight will be (in_d_weight): then each block of the vocabulary takes the place of
// the block of exponentials above that it was made from last, and rows whose exponentials are there are multiplied once. What
// others add to a block stands between the exponentials below and the blocks above that are made, or in the workspace where that
// is too narrow. A d_weight of f32 that the first rows have made so may take the products of chunks of the others.
//
// A weight that is not of the products' type is copied once, or, where that leaves too little of a limit, in blocks of
// its rows: for every product of a chunk anew, which then add up d_x in f32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ligerdsl/dtype.h"

namespace ligerdsl::lib {

inline constexpr size_t kMostTileNumbers = 5;
inline constexpr int64_t kDefaultLogits = int64_t{1} << 30;  // bytes of a chunk's logits: 4,096 rows of 128,256 classes

enum class ChunkRule { by_workspace, published };

struct LinearChunkOptions {
  int64_t classes = 0, cols = 0;    // V, H
  int64_t target_cols = 0;          // not 0: as many columns are multiplied to logits of a target
  DType type = DType::f32;          // of the caller's tensors
  DType weight_type = DType::f32;   // of the caller's weight
  DType product_type = DType::f32;  // of the matrix products: `type` unless the device multiplies in f32 only
  bool f32_logits = false;          // logits are f32 although products are of 16 bits; their gradient is apart
  bool with_d_x = false, with_d_weight = false, with_d_bias = false;
  // d_weight is a product of x as it is, in which rows may be ignored: the product takes a copy of x that has zeros in
  // these rows. The memory of d_x holds a chunk's copy if d_x is wanted.
  bool ignores_rows = false;
  DType d_weight_type = DType::f32, d_bias_type = DType::f32;
  size_t product_workspace = 0;  // bytes that a matrix product needs
  int64_t few_rows = 0;          // chunks of fewer rows take longer than multiplying the logits twice
  bool keeps_x = true;           // d_x does not overwrite x
  bool token_scaling = false;
  bool keeps_lse = true;  // of all rows, which the caller has no memory for; likewise the next
  bool keeps_entropy = false;
  bool from_lse = false;  // gradients alone, from the rows' lse
  // Not 0: logits are stored as exponentials, if a gradient needs them, in tiles of so many columns, each of which leaves so many
  // numbers of four bytes of a row (kernels/fused_linear/linear_cross_entropy.h).
  int64_t tile_columns = 0, tile_numbers = 0;
  int64_t smoothing_parts = 0;  // not 0: the gradients of smoothing are added to products, by sums of so many parts
  bool whole_weight = false;    // a copy of the weight is never made in blocks
  // Exponentials lie in blocks of columns, all but the first in d_weight's memory or none; the schedule of their products.
  bool in_blocks = false;
  int64_t tile_rows = 128, tiles_at_once = 1;

  ChunkRule rule = ChunkRule::by_workspace;
  int64_t chunk_rows = 0;           // not 0: the rows of a chunk
  int64_t max_workspace_bytes = 0;  // not 0: a limit for everything
};

// Offsets into the workspace, each a multiple of 256; what is not needed has no bytes.
struct LinearLayout {
  int64_t chunk = 0;             // rows
  int64_t logits_stride = 0;     // elements
  bool add_up_d_weight = false;  // d_weight is not f32 and is the sum of several products: made in f32, rounded once
  size_t counts = 0, row_loss = 0, row_z_loss = 0, row_accuracy = 0;  // f32
  size_t lse = 0, label_logit = 0, entropy = 0;                       // f32, where d_weight may go by vocabulary
  size_t products = 0;
  size_t logits = 0;                // [chunk, V] of the product type, or f32
  size_t d_logits = 0;              // [chunk, V] of the product type, where logits are f32 and it is not
  size_t x = 0, weight = 0;         // copies in the product type where it is not the caller's; x also for ignores_rows
  size_t d_x = 0;                   // of a chunk, f32: where d_x is not, and products are, or it is a sum of several
  size_t d_weight = 0, d_bias = 0;  // f32 sums
  size_t base = 0, again = 0, factor = 0, smooth = 0;  // [chunk] of a chunk's exponentials
  size_t places = 0, tile_at = 0, counted = 0;         // of tiles of their rows (kernels/matmul/row_tiles.h)
  std::array<size_t, kMostTileNumbers> of_tiles = {};  // [chunk, tiles] of them
  size_t class_factor = 0, weight_sums = 0, x_sums = 0, part_sums = 0;  // of smoothing: [V], [H], [H], [parts, H]
  size_t scaled_x = 0;       // [chunk, H] of the product type, where of_tiles were
  int64_t tiles = 0;         // of a row's exponentials
  size_t target_logits = 0;  // as logits; likewise the next two
  size_t target_x = 0, target_weight = 0;
  bool add_up_d_x = false;  // there is such a d_x

  // Classes of the weight that are multiplied at a time: all, or a block whose copy stands at `weight`.
  int64_t weight_rows = 0;

  // d_weight by blocks of `columns` columns of the logits [block_rows, columns], which stand where those of a chunk
  // did; the sums, if add_up_d_weight, are those of a block and stand behind them.
  bool by_vocabulary = false;
  int64_t columns = 0, block_rows = 0, block_stride = 0;

  // in_blocks: a block of exponentials has 2^block_shift classes. With in_d_weight, which goes by vocabulary, `logits` holds
  // the first block and d_weight's memory the others of the chunk at work; those of the last chunk are kept for d_weight's
  // blocks, in whose sums the rows before them are multiplied again: block_rows at a time, their d at `again_logits`, or as many as
  // d_weight's memory has room for behind the exponentials of the block, `rows_between` for each block below it.
  int64_t block_shift = 0;
  bool in_d_weight = false;
  int64_t rows = 0;  // that the layout is for, where it is in_d_weight
  int64_t rows_between = 0;
  size_t again_logits = 0;

  // Rows from the first on that go before the others, in d_weight and by a layout of their own: LinearChunks::in_front.
  int64_t rows_in_front = 0;

  size_t bytes = 0;
};

class LinearChunks {
 public:
  explicit LinearChunks(const LinearChunkOptions& options) : o_(options), weight_rows_(options.classes) {}

  // A pure function of the options, the number of rows, and whether d_weight's memory may hold exponentials.
  LinearLayout layout(int64_t rows, bool d_weight_is_free = false) const;

  // Of the rows in front, of which `layout` has some; what is not of a chunk is where `layout` has it.
  LinearLayout in_front(const LinearLayout& layout, int64_t rows) const {
    return in_d_weight(layout.rows_in_front, rows);
  }

  // Rows of the chunk from row `first` on. Where the last one's exponentials are kept it is a whole one.
  static int64_t chunk_at(const LinearLayout& layout, int64_t rows, int64_t first);

  // Where rows that are multiplied again have their d, of a block of classes, and how many at a time.
  struct Again {
    int64_t rows = 0;
    bool in_d_weight = false;
  };
  static Again again_at(const LinearLayout& layout, int64_t block);

  // Whether the options allow blocks of the vocabulary.
  bool may_go_by_vocabulary() const;
  // Whether anything is made from chunks of rows.
  bool needs_rows(const LinearLayout& layout) const { return !layout.by_vocabulary || !only_d_weight(); }

 private:
  LinearLayout best(int64_t rows, bool d_weight_is_free) const;
  LinearLayout by_rows(int64_t rows) const;
  LinearLayout by_vocabulary(int64_t rows) const;
  struct InDWeight {
    int64_t columns = 0, chunk = 0, again = 0;
  };
  LinearLayout in_d_weight(int64_t rows, int64_t of_batch) const;
  LinearLayout with_rows_in_front(const LinearLayout& whole, int64_t rows) const;
  int64_t time_of(int64_t rows, int64_t columns, int64_t depth) const;
  int64_t most_in_d_weight() const { return o_.cols * size_of(o_.d_weight_type) / size_of(o_.product_type); }
  double more_time(const LinearLayout& layout, int64_t rows) const;
  LinearLayout place(int64_t rows, int64_t chunk, int64_t logits_bytes, int64_t d_weight_sums,
                     int64_t x_rows = 0) const;
  int64_t sums_of(int64_t rows, int64_t chunk) const;
  int64_t chunk_of(int64_t rows) const;
  int64_t chunk_by_workspace(int64_t rows, bool by_vocabulary) const;
  int64_t logits_stride() const;
  bool d_is_apart() const { return o_.f32_logits && o_.product_type != DType::f32 && with_gradient(); }
  int64_t size_of_logit() const { return size_of(o_.f32_logits ? DType::f32 : o_.product_type); }
  int64_t bytes_of_row() const;  // of a chunk
  // A copy of x that is not one of a conversion: of a chunk that adds to d_weight, of rows under a block.
  bool copies_x_of_chunk() const { return copies_x_of_block() && !o_.with_d_x; }
  bool copies_x_of_block() const { return o_.ignores_rows && o_.with_d_weight && !converts(); }
  int64_t bytes_of_numbers() const;                                                                  // of a row's tiles
  int64_t bytes_of_scaled_x() const { return scales_x() ? o_.cols * size_of(o_.product_type) : 0; }  // of a row
  int64_t weight_block(int64_t fixed) const;
  int64_t tiles() const;  // of a row's exponentials
  bool with_gradient() const { return o_.with_d_x || o_.with_d_weight || o_.with_d_bias; }
  bool stores_logits() const { return o_.tile_columns == 0 || with_gradient(); }
  bool scales_x() const { return o_.tile_columns > 0 && o_.with_d_weight; }
  // Blocks of the vocabulary need no other pass then.
  bool only_d_weight() const { return o_.from_lse && !o_.with_d_x && !o_.with_d_bias && !o_.token_scaling; }
  bool converts() const { return o_.type != o_.product_type; }
  bool copies_weight() const { return o_.weight_type != o_.product_type; }
  bool adds_up_d_x() const { return o_.with_d_x && o_.type != DType::f32 && (converts() || weight_rows_ < o_.classes); }

  LinearChunkOptions o_;
  int64_t weight_rows_;  // of the layout
};

}  // namespace ligerdsl::lib

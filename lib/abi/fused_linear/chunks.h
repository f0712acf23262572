// Divides the batch of a fused linear cross-entropy into chunks of rows, and places the parts of
// its workspace. The algorithms are in fused_linear_cross_entropy_plan.h.
//
// d_weight += d^T x reads and writes all of d_weight for each chunk. This is slow if a chunk has
// fewer than few_rows rows. d_weight is then vocabulary-blocked: the pass over chunks keeps each
// row's lse, and a second pass computes d_weight block by block. For each block of columns it
// recomputes the logits of many rows at a time. If the lse is given and only d_weight is wanted,
// the second pass is the only one.
//
// A chunk's exponentials may be in d_weight's memory (in_d_weight). Blocks of d_weight are computed
// from the last to the first. Each block overwrites the exponentials of the block after it, which
// are no longer needed. Only the last chunk's exponentials are in memory, so d(loss)/dz of all
// other rows is recomputed. It is stored between the exponentials of lower blocks and the finished
// blocks of d_weight, or in the workspace if that gap is too small. Alternatively, the first rows
// fill an f32 d_weight in this way, and chunks of the other rows add to it.
//
// A weight whose dtype is not that of the matmuls is converted once. If the workspace limit leaves
// no room for the whole copy, each chunk converts the weight again, in blocks of rows. Then d_x
// accumulates in f32. Operands whose rows are not aligned for the library's matmuls are also copied
// (aligned_copies).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ligerdsl/dtype.h"

namespace ligerdsl::lib {

inline constexpr size_t kMostTileNumbers = 5;
// Default bytes of a chunk's logits: room for 4,096 rows of 128,256 16-bit logits.
inline constexpr int64_t kDefaultLogits = int64_t{1} << 30;

enum class ChunkRule { by_workspace, published };

struct LinearChunkOptions {
  int64_t classes = 0, cols = 0;    // V, H
  int64_t target_cols = 0;          // not 0: columns H of a target, whose logits are also computed
  DType type = DType::f32;          // dtype of the caller's tensors
  DType weight_type = DType::f32;   // dtype of the caller's weight
  DType product_type = DType::f32;  // dtype of the matmuls: `type`, or f32 on a CPU
  // x, the weight and the target are copied to rows that begin at multiples of kRowAlign bytes
  // (whole cache lines). TMA copies of other rows are slower.
  bool aligned_copies = false;
  // Logits are f32 although operands of matmuls have 16 bits. The logits' gradient then has
  // separate memory.
  bool f32_logits = false;
  bool with_d_x = false, with_d_weight = false, with_d_bias = false;
  // d_weight = d^T x needs zeros in ignored rows of x, so the matmul reads a copy. If d_x is
  // wanted, its memory holds a chunk's copy.
  bool ignores_rows = false;
  DType d_weight_type = DType::f32, d_bias_type = DType::f32;
  size_t product_workspace = 0;  // bytes of a matmul's workspace
  int64_t few_rows = 0;          // rows per chunk below which recomputing logits is faster
  bool keeps_x = true;           // true if d_x does not overwrite x
  bool token_scaling = false;
  // The workspace keeps all rows' lse (or entropy), because the caller passes no memory for it.
  bool keeps_lse = true;
  bool keeps_entropy = false;
  bool from_lse = false;  // compute only gradients, from the rows' lse
  // 0: logits are stored. Otherwise exponentials are stored, if a gradient needs them; their matmul
  // has tiles of tile_columns columns and stores tile_numbers 4-byte values per row and tile
  // (kernels/fused_linear/linear_cross_entropy.h).
  int64_t tile_columns = 0, tile_numbers = 0;
  int64_t smoothing_parts = 0;  // number of partial sums for label smoothing; 0: no smoothing
  bool whole_weight = false;    // never convert the weight in blocks
  // Exponentials are stored in blocks of columns. There is a single block, or d_weight's memory
  // holds all blocks but the first. The exponentials' matmul has tiles of tile_rows rows, of which
  // tiles_at_once run at the same time.
  bool in_blocks = false;
  int64_t tile_rows = 128, tiles_at_once = 1;

  ChunkRule rule = ChunkRule::by_workspace;
  int64_t chunk_rows = 0;           // not 0: rows per chunk
  int64_t max_workspace_bytes = 0;  // not 0: limit of the whole workspace
};

// Offsets into the workspace, multiples of 256. Parts that are not needed have 0 bytes.
struct LinearLayout {
  int64_t chunk = 0;          // rows
  int64_t logits_stride = 0;  // elements
  int64_t copy_stride = 0;    // row stride of the copies of x and of the weight, in elements
  // True if d_weight has an f32 accumulator in the workspace.
  bool add_up_d_weight = false;
  size_t counts = 0, row_loss = 0, row_z_loss = 0, row_accuracy = 0;  // f32
  // Statistics of all rows (f32); lse and entropy only if the vocabulary may be divided into
  // blocks.
  size_t lse = 0, label_logit = 0, entropy = 0;
  size_t products = 0;
  size_t logits = 0;  // [chunk, V] of product_type, or f32
  // [chunk, V] of product_type, if logits are f32.
  size_t d_logits = 0;
  size_t x = 0, weight = 0;                            // copies in product_type
  size_t d_x = 0;                                      // f32 accumulator, if add_up_d_x
  size_t d_weight = 0, d_bias = 0;                     // f32 accumulators
  size_t base = 0, again = 0, factor = 0, smooth = 0;  // [chunk]: exponentials
  size_t places = 0, tile_at = 0, counted = 0;         // places, tile_at: [row tiles] (row_tiles.h)
  std::array<size_t, kMostTileNumbers> of_tiles = {};  // [chunk, tiles]: tile statistics
  // Label smoothing; shapes [V], [H], [H], [parts, H].
  size_t class_factor = 0, weight_sums = 0, x_sums = 0, part_sums = 0;
  size_t scaled_x = 0;       // [chunk, H] of product_type, in the memory of of_tiles
  int64_t tiles = 0;         // number of column tiles of exponentials
  size_t target_logits = 0;  // like `logits`; target_x and target_weight are like x and weight
  size_t target_x = 0, target_weight = 0;
  bool add_up_d_x = false;  // true if d_x has an f32 accumulator

  // Number of the weight's classes per matmul: all classes, or those of a block whose copy is at
  // `weight`.
  int64_t weight_rows = 0;

  // d_weight is computed in blocks of `columns` classes. The logits of a block, [block_rows,
  // columns], use the memory of a chunk's logits. With add_up_d_weight, a block's f32 accumulator
  // follows its logits.
  bool by_vocabulary = false;
  int64_t columns = 0, block_rows = 0, block_stride = 0;

  // in_blocks: a block of exponentials has 2^block_shift classes. With in_d_weight, `logits` holds
  // the first block of the current chunk, and d_weight's memory holds the other blocks. The last
  // chunk's exponentials stay in memory for the second pass, which computes d_weight.
  //
  // d(loss)/dz of earlier rows is recomputed at `again_logits`, for block_rows rows at a time.
  // d_weight's memory may have room for more rows: block b, counted from 0, has room for b *
  // rows_between rows.
  int64_t block_shift = 0;
  bool in_d_weight = false;
  int64_t rows = 0;  // number of rows for which the layout was made, if in_d_weight
  int64_t rows_between = 0;
  size_t again_logits = 0;

  // The first rows_in_front rows are computed before the chunks, with exponentials in d_weight's
  // memory and the layout of in_front().
  int64_t rows_in_front = 0;

  size_t bytes = 0;
};

class LinearChunks {
 public:
  explicit LinearChunks(const LinearChunkOptions& options)
      : o_(options), weight_rows_(options.classes) {}

  // Returns the layout for a number of rows. It depends only on the options, the rows, and whether
  // d_weight's memory may hold exponentials.
  LinearLayout layout(int64_t rows, bool d_weight_is_free = false) const;

  // Returns the layout of the first layout.rows_in_front rows. Parts that do not depend on the
  // chunk have the same offsets in both layouts.
  LinearLayout in_front(const LinearLayout& layout, int64_t rows) const {
    return in_d_weight(layout.rows_in_front, rows);
  }

  // Returns the number of rows of the chunk that begins at row `first`. If the last chunk's
  // exponentials are kept, the last chunk is full and the first one has the remainder.
  static int64_t chunk_at(const LinearLayout& layout, int64_t rows, int64_t first);

  // Number of rows whose d(loss)/dz is recomputed at a time for a block of classes. It is stored in
  // d_weight's memory if in_d_weight, else at `again_logits`.
  struct Again {
    int64_t rows = 0;
    bool in_d_weight = false;
  };
  static Again again_at(const LinearLayout& layout, int64_t block);

  // Returns the row stride, in elements, of a copy of x, a weight or a target with `cols` columns.
  int64_t copy_stride(int64_t cols) const;

  // Returns true if the options allow blocks of the vocabulary.
  bool may_go_by_vocabulary() const;
  // Returns true if a pass over chunks of rows is needed.
  bool needs_rows(const LinearLayout& layout) const {
    return !layout.by_vocabulary || !only_d_weight();
  }

 private:
  LinearLayout best(int64_t rows, bool d_weight_is_free) const;
  LinearLayout by_rows(int64_t rows) const;
  LinearLayout by_vocabulary(int64_t rows) const;
  struct InDWeight {
    int64_t columns = 0, chunk = 0, again = 0;
  };
  LinearLayout in_d_weight(int64_t rows, int64_t of_batch) const;
  LinearLayout with_rows_in_front(const LinearLayout& whole, int64_t rows) const;
  int64_t matmul_time(int64_t rows, int64_t columns, int64_t depth) const;
  int64_t max_rows_in_d_weight() const {
    return o_.cols * size_of(o_.d_weight_type) / size_of(o_.product_type);
  }
  double extra_time(const LinearLayout& layout, int64_t rows) const;
  LinearLayout place(int64_t rows, int64_t chunk, int64_t logits_bytes, int64_t accumulator,
                     int64_t x_rows = 0) const;
  int64_t d_weight_accumulator(int64_t rows, int64_t chunk) const;
  int64_t chunk_of(int64_t rows) const;
  int64_t chunk_by_workspace(int64_t rows, bool by_vocabulary) const;
  int64_t logits_stride() const;
  bool has_separate_d() const {
    return o_.f32_logits && o_.product_type != DType::f32 && with_gradient();
  }
  int64_t size_of_logit() const { return size_of(o_.f32_logits ? DType::f32 : o_.product_type); }
  int64_t bytes_of_row() const;  // bytes of all parts with a size per row of a chunk
  // Return true if the workspace holds a copy of x only because ignored rows must be zeros. The
  // first is for a chunk whose copy d_x's memory cannot hold, the second for rows of a vocabulary
  // block.
  bool copies_x_of_chunk() const { return copies_x_of_block() && !o_.with_d_x; }
  bool copies_x_of_block() const { return o_.ignores_rows && o_.with_d_weight && !copies_x(); }
  int64_t bytes_of_numbers() const;  // tile statistics, per row of a chunk
  int64_t bytes_of_scaled_x() const {
    return scales_x() ? copy_stride(o_.cols) * size_of(o_.product_type) : 0;
  }
  int64_t weight_block(int64_t fixed) const;
  int64_t tiles() const;  // number of column tiles of exponentials
  bool with_gradient() const { return o_.with_d_x || o_.with_d_weight || o_.with_d_bias; }
  bool stores_logits() const { return o_.tile_columns == 0 || with_gradient(); }
  bool scales_x() const { return o_.tile_columns > 0 && o_.with_d_weight; }
  // Returns true if the pass over blocks of the vocabulary is the only pass.
  bool only_d_weight() const {
    return o_.from_lse && !o_.with_d_x && !o_.with_d_bias && !o_.token_scaling;
  }
  bool converts() const { return o_.type != o_.product_type; }
  bool copies_x() const { return converts() || o_.aligned_copies; }
  bool copies_weight() const { return o_.weight_type != o_.product_type || o_.aligned_copies; }
  bool adds_up_d_x() const {
    return o_.with_d_x && o_.type != DType::f32 && (converts() || weight_rows_ < o_.classes);
  }

  LinearChunkOptions o_;
  int64_t weight_rows_;  // LinearLayout::weight_rows
};

}  // namespace ligerdsl::lib

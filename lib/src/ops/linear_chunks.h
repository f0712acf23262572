// How fused linear cross-entropy cuts a batch into chunks of rows, and where its workspace holds what.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ligerdsl/dtype.h"

namespace ligerdsl::lib {

enum class ChunkRule { by_workspace, published };

struct LinearChunkOptions {
  int64_t classes = 0, cols = 0;    // V, H
  DType type = DType::f32;          // of the caller's tensors
  DType product_type = DType::f32;  // of the matrix products: `type` unless the device multiplies in f32 only
  bool with_d_x = false, with_d_weight = false, with_d_bias = false;
  DType d_weight_type = DType::f32, d_bias_type = DType::f32;
  size_t product_workspace = 0;  // bytes that a matrix product needs

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
  size_t products = 0;
  size_t logits = 0;                  // [chunk, V] of the product type
  size_t x = 0, d_x = 0, weight = 0;  // copies in the product type, where it is not the caller's
  size_t d_weight = 0, d_bias = 0;    // f32 sums
  size_t bytes = 0;
};

class LinearChunks {
 public:
  explicit LinearChunks(const LinearChunkOptions& options) : o_(options) {}

  // A pure function of the options and the number of rows.
  LinearLayout layout(int64_t rows) const;

  // f32 sums of d_weight stand in the workspace when the batch is cut.
  bool sums_beside(int64_t rows, int64_t chunk) const;

 private:
  LinearLayout place(int64_t rows, int64_t chunk) const;
  int64_t chunk_of(int64_t rows) const;
  int64_t chunk_by_workspace(int64_t rows) const;
  int64_t logits_stride() const;
  int64_t bytes_of_row() const;  // of a chunk
  bool converts() const { return o_.type != o_.product_type; }

  LinearChunkOptions o_;
};

}  // namespace ligerdsl::lib

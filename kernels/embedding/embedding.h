// Embedding: gathers rows of a table by index. The backward pass computes the table's gradient.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct EmbeddingOptions {
  int64_t cols = 4096;         // row width H
  int64_t vocabulary = 32000;  // rows of the table
  DType type = f32;            // dtype of the table and the output
  DType index_type = i64;
  DType d_table_type = f32;           // f32 or type
  bool accumulate = false;            // d_table += ...; f32 only
  int64_t positions = 0;              // rows P of a second table; output row i adds its row i mod P
  DType d_position_type = f32;        // dtype of the second table's gradient: f32 or type
  bool accumulate_positions = false;  // d_position_table += ...; f32 only
  bool shard = false;                 // `table` is a part, from first_row on, of total_rows rows

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("vocabulary", vocabulary);
    v("type", type);
    v("index_type", index_type);
    v("d_table_type", d_table_type);
    v("accumulate", accumulate);
    v("positions", positions);
    v("d_position_type", d_position_type);
    v("accumulate_positions", accumulate_positions);
    v("shard", shard);
  }
};

struct EmbeddingMeta : EmbeddingOptions {
  int64_t block = 1024;  // columns per tile
  int64_t rows = 1;      // rows per program, one tile each
};

struct EmbeddingBackwardMeta : EmbeddingOptions {
  int64_t block = 1024;                 // columns per program
  int64_t rows = 1;                     // rows of the table per program, one after the other
  int64_t chunk = 128;                  // rows of d_out that one program adds for a frequent index
  int64_t scan = 1024;                  // indices that a program counts together
  int64_t rows_to_place = 256;          // table rows to which one program assigns list segments
  int64_t ranked = 16, compared = 256;  // indices per program; indices compared per step
};

// Arguments: out [n, H] type; table [V, H] type; indices [n] index_type; error [1] i64. With
// positions also position_table [positions, H] type; for a shard also first_row and total_rows i64.
//
// An index outside [0, V), or outside [0, total_rows) for a shard, gives a row of NaN and reports
// the output row in the error flag (kErrorBase). An index of another shard gives a row of zeros.
void embedding_forward(KernelBuilder& k, const EmbeddingMeta& m);

// Rows: indices. Arguments of the gradient: d_table [V, H] d_table_type; d_out [n, H] type; indices
// [n] index_type, fewer than 2^31. With positions also d_position_table [positions, H]
// d_position_type; for a shard also first_row i64. Indices outside d_table are ignored.
Operation embedding_forward(const Machine& machine, const EmbeddingOptions& options);
Operation embedding_backward(const Machine& machine, const EmbeddingOptions& options);

using EmbeddingForward = ConfiguredKernel<EmbeddingOptions, ElementwiseConfig>;
extern const EmbeddingForward embedding_forward_kernel;

struct EmbeddingBackwardConfig {
  int block = 1024;  // columns per program
  int num_warps = 4;
  int rows = 1;           // rows of the table per program, one after the other
  int chunk = 128;        // rows of d_out that one program adds for a frequent index
  int part = 2048;        // indices per part, unless there would be more than 64 parts
  int scan = 1024;        // indices that a program counts together
  bool in_order = false;  // no sorting (embedding_in_order.cpp); uses only block, num_warps, rows
  // Minimum resident threads per SM of embedding_add_chunks and of the step that adds table rows.
  int chunk_threads = 640, row_threads = 1024;

  template <class V>
  void visit(V&& v) {
    v("block", block, powers_of_two(1, 8192), Bits::same);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::same);
    v("rows", rows, powers_of_two(1, 64), Bits::same);
    v("chunk", chunk, powers_of_two(32, 1024), Bits::batch);
    v("part", part, powers_of_two(256, 8192), Bits::same);
    v("scan", scan, powers_of_two(256, 2048), Bits::same);
    v("in_order", in_order, Bits::batch);
    const Choices threads = choices({0, 256, 512, 640, 768, 1024, 1280, 1536, 2048});
    v("chunk_threads", chunk_threads, threads, Bits::same);
    v("row_threads", row_threads, threads, Bits::same);
  }
};

using EmbeddingBackward = ConfiguredKernel<EmbeddingOptions, EmbeddingBackwardConfig>;
extern const EmbeddingBackward embedding_backward_kernel;

// Returns the steps of a config without in_order (embedding_backward.cpp).
Operation embedding_backward_steps(const EmbeddingOptions& options,
                                   const EmbeddingBackwardConfig& config);
// Returns the step that computes the gradient of the position table.
Step embedding_positions_step(const EmbeddingOptions& options,
                              const EmbeddingBackwardConfig& config);
// Returns the steps of a config with in_order (embedding_in_order.cpp).
Operation embedding_backward_in_order(const EmbeddingOptions& options,
                                      const EmbeddingBackwardConfig& config);

}  // namespace ligerdsl::kernels

// Embedding: rows of a table by index, and the gradient of the table.
#pragma once

#include "kernels/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct EmbeddingOptions {
  int64_t cols = 4096;         // row width H
  int64_t vocabulary = 32000;  // rows of the table
  DType type = f32;            // of the table and the output
  DType index_type = i64;
  DType d_table_type = f32;     // f32 or type
  bool accumulate = false;      // d_table += ...; f32 only
  int64_t positions = 0;        // rows of a second table, of which row i of the output gets row i mod positions added
  DType d_position_type = f32;  // of the second table's gradient: f32 or type
  bool accumulate_positions = false;  // d_position_table += ...; f32 only
  bool shard = false;                 // the table has rows [first_row, first_row + vocabulary) of `total_rows`

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
  int64_t block = 1024;  // columns of a tile
  int64_t rows = 1;      // of a program, one tile of each
};

struct EmbeddingBackwardMeta : EmbeddingOptions {
  int64_t block = 1024;                 // columns of a program
  int64_t rows = 1;                     // rows of the table that a program adds, one after the other
  int64_t chunk = 128;                  // gradients that a program adds for a row that is named so often
  int64_t scan = 1024;                  // indices counted together
  int64_t rows_to_place = 256;          // rows of the table that come to the list together
  int64_t ranked = 16, compared = 256;  // indices that find their places by comparison with as many at a time
};

// Arguments: out [n, H] type; table [V, H] type; indices [n] index_type; error [1] i64; with positions, position_table
// [positions, H] type; of a shard, first_row and total_rows i64.
// An index outside [0, V), of a shard outside [0, total_rows), gives a row of NaN and its row number in the error word
// (see kErrorBase). An index of another shard gives a row of zeros.
void embedding_forward(KernelBuilder& k, const EmbeddingMeta& m);

// Rows: indices. The gradient takes d_table [V, H] d_table_type; d_out [n, H] type; indices [n] index_type, fewer than
// 2^31 of them; with positions, d_position_table [positions, H] d_position_type; of a shard, first_row i64. Indices of
// rows that d_table does not have add nothing to it.
Operation embedding_forward(const Machine& machine, const EmbeddingOptions& options);
Operation embedding_backward(const Machine& machine, const EmbeddingOptions& options);

}  // namespace ligerdsl::kernels

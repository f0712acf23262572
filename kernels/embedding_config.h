// The schedules of the embedding and of its gradient.
#pragma once

#include "kernels/config.h"
#include "kernels/elementwise_config.h"
#include "kernels/embedding.h"

namespace ligerdsl::kernels {

using EmbeddingForward = ConfiguredKernel<EmbeddingOptions, ElementwiseConfig>;
extern const EmbeddingForward embedding_forward_kernel;

struct EmbeddingBackwardConfig {
  int block = 1024;  // columns of a program
  int num_warps = 4;
  int rows = 1;           // of the table that a program adds, one after the other
  int chunk = 128;        // gradients of one row of the table that are added by a program of their own
  int part = 2048;        // indices that are counted apart from others, where there are no more than 64 parts
  int scan = 1024;        // indices counted together
  bool in_order = false;  // add to the f32 table index by index; of the rest block, num_warps and rows count then
  // Threads that an SM is to have room for: of programs that add chunks, and of those that add rows.
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

// What the config makes (embedding_backward.cpp).
Operation embedding_backward_steps(const EmbeddingOptions& options, const EmbeddingBackwardConfig& config);
// The gradient of the table of positions by itself.
Step embedding_positions_step(const EmbeddingOptions& options, const EmbeddingBackwardConfig& config);
// With in_order (embedding_in_order.cpp).
Operation embedding_backward_in_order(const EmbeddingOptions& options, const EmbeddingBackwardConfig& config);

}  // namespace ligerdsl::kernels

#include "presets.h"

namespace train {

std::span<const Preset> presets() {
  static const Preset all[] = {
      {"llama-3.2-1b",
       {.layers = 16,
        .heads = 32,
        .kv_heads = 8,
        .width = 2048,
        .ffn = 8192,
        .context = 1024,
        .vocab = 128256,
        .rope_base = 500000,
        .tied = true},
       {.batch = 4, .steps = 20, .warmup = 5, .lr = 1e-4},
       {.recompute = true, .score_bytes = int64_t{512} << 20}},
      // A fast test of the same code on a CPU. Attention by matmuls has blocks of 5 queries; the
      // last block has 4.
      {"tiny",
       {.layers = 3,
        .heads = 4,
        .kv_heads = 2,
        .width = 32,
        .ffn = 48,
        .context = 24,
        .vocab = 301,
        .rope_base = 500000,
        .tied = true},
       {.batch = 3, .steps = 6, .warmup = 2, .lr = 1e-3},
       {.recompute = true, .score_bytes = 2000}},
  };
  return all;
}

}  // namespace train

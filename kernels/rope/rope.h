// Rotary position embedding of q and k in one launch.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Columns of a head that angle i rotates as a pair, and the table of that angle.
enum class RopeLayout {
  half,         // i and i + h (NeoX, Hugging Face)
  interleaved,  // 2 i and 2 i + 1 (GPT-J, Llama 4)
  multimodal,  // like half, with three tables of angles (time, height, width), one per section of i
               // (Qwen2-VL)
};

struct RopeOptions {
  DType type = f32;        // dtype of q and k
  DType angle_type = f32;  // dtype of cos and sin
  int64_t q_heads = 1;
  int64_t k_heads = 1;          // 0: there is no k
  int64_t head_dim = 64;        // D >= 2
  int64_t rotary_dim = 0;       // R <= D: rotated columns, or 0 for all; the others are copied
  bool batched_angles = false;  // each batch has its own cos and sin; else all batches share them
  RopeLayout layout = RopeLayout::half;
  int64_t time_section = 0,
          height_section = 0;   // multimodal: number of angles of the first two sections
  bool complex_angles = false;  // cos holds (cos, sin) pairs; there is no argument sin

  int64_t angles() const { return (rotary_dim == 0 ? head_dim : rotary_dim) / 2; }  // h
  int64_t tail() const { return head_dim - 2 * angles(); }  // columns that are copied

  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("angle_type", angle_type);
    v("q_heads", q_heads);
    v("k_heads", k_heads);
    v("head_dim", head_dim);
    v("rotary_dim", rotary_dim);
    v("batched_angles", batched_angles);
    v("layout", layout, {"half", "interleaved", "multimodal"});
    v("time_section", time_section);
    v("height_section", height_section);
    v("complex_angles", complex_angles);
  }
};

struct RopeMeta : RopeOptions {
  int64_t q_block = 1;  // heads of a tile
  int64_t k_block = 1;
  int64_t half = 32;       // tile width >= h
  int64_t tail_block = 1;  // tile width >= tail()
};

// Arguments, h = R / 2 rounded down:
//   q_out, q_in type: views of the rotated columns of q; q_out may be exactly q_in.
//     half, multimodal: [batch, seq, q_heads, 2, h]; the dimension of size 2 selects the half.
//     interleaved: [batch, seq, q_heads, 2 h].
//   q_tail_out, q_tail_in [batch, seq, q_heads, D - 2 h], only if 2 h < D: the other columns of q.
//   k_out, k_in, k_tail_out, k_tail_in: the same for k, unless k_heads is 0.
//   cos, [sin] [1 or batch, seq, h] angle_type; multimodal: [3, 1 or batch, seq, h];
//   complex_angles: cos [..., seq, 2 h], without sin.
//   sign f32: 1 forward, -1 backward.
void rope(KernelBuilder& k, const RopeMeta& m);

// Rows: tokens, batch * seq.
Operation rope(const Machine& machine, const RopeOptions& options);

struct RopeConfig {
  int heads = 1;  // most heads per tile of q or k
  int num_warps = 4;
  int min_ctas_per_sm = 0;  // 0 for no minimum

  template <class V>
  void visit(V&& v) {
    v("heads", heads, powers_of_two(1, 8192), Bits::same);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::same);
    v("min_ctas_per_sm", min_ctas_per_sm, choices({0, 1, 2, 3, 4, 6, 8, 16, 32}), Bits::same);
  }
};

using Rope = ConfiguredKernel<RopeOptions, RopeConfig>;
extern const Rope rope_kernel;

}  // namespace ligerdsl::kernels

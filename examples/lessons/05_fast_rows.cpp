// Lesson 5: three versions of a row kernel: the formula, one as fast as memory allows, and one for
// rows of any width. docs/guide/write-row-kernels.md inspects each version with
//
//   ligerdsl compile --load liblesson_05_fast_rows.so log_softmax --target sm_90a --emit resources
//
// y = x - log sum e^x over rows of `cols` elements. The least traffic is one read of x and one
// write of y: 2 rows cols sizeof(type) bytes.
#include <ligerdsl/dsl.h>
#include <ligerdsl/dsl/kernel.h>

#include <algorithm>
#include <bit>
#include <limits>

using namespace ligerdsl;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

struct PlainMeta {
  DType type = bf16;
  int64_t block = 4096;  // columns per tile, at least the row width
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("block", block);
  }
};

// Computes the formula line by line.
void plain(KernelBuilder& k, const PlainMeta& m) {
  View y = k.view("y", m.type, {dyn, dyn});
  View x = k.view("x", m.type, {dyn, dyn});
  Scalar row = k.program_id(0);
  Tile v = x.partition({squeeze, m.block}).load({row, 0}, {.pad = -kInfinity}).to(f32);
  Scalar top = max(v);
  Scalar lse = top + log(sum(exp(v - top)));
  y.partition({squeeze, m.block}).store({row, 0}, (v - lse).to(m.type));
}

struct FastMeta {
  DType type = bf16;
  int64_t cols = 4096;
  int64_t rows = 1;     // rows per program; more than one for short rows
  int64_t vectors = 4;  // 16-byte vectors per thread
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("cols", cols);
    v("rows", rows);
    v("vectors", vectors);
  }
};

void fast(KernelBuilder& k, const FastMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols});  // a known width: 16-byte accesses, no mask
  View x = k.view("x", m.type, {dyn, m.cols});
  Scalar row = k.program_id(0);
  Tile v = x.partition({m.rows, m.cols}).load({row, 0}).to(f32);
  // e^(v - top) = 2^(v log2 e - top log2 e): one multiply-add and one special-function instruction
  // per element.
  Tile base = (reduce_max(v, 1) * kLog2E).expand_dims(1);
  Tile total = sum(fast_exp2(fma(v, kLog2E, -base)), 1).expand_dims(1);
  Tile lse = (base + log2(total)) * kLn2;
  y.partition({m.rows, m.cols}).store({row, 0}, (v - lse).to(m.type));
}

// The number of warps must be a power of two.
int warps_of(DType type, int64_t elements, int64_t vectors) {
  const int64_t threads = elements / (vector_width(type) * vectors);
  return static_cast<int>(
      std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(threads / 32, 1, 32))));
}

// For rows too wide for registers. Two passes read a row, the second one backwards; shared memory
// keeps the row if it fits. In a cluster, each CTA keeps a part of the row. The schedule is dynamic
// persistent: a CTA or cluster loads its next row while it processes one.
struct WideMeta {
  DType type = bf16;
  int64_t cols = 131072;
  int64_t ctas =
      1;  // CTAs per row, on a GPU with clusters; 4 CTAs keep 64 KB each of a default row
  int64_t block = 4096;  // columns per iteration: one vector per thread
  int warps() const { return warps_of(type, block / ctas, 1); }
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("cols", cols);
    v("ctas", ctas);
    v("block", block);
  }
};

void wide(KernelBuilder& k, const WideMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});
  Scalar row = k.program_id(0);
  assume(row < x.dim(0));  // the grid is the number of rows
  Resident kept = x.partition({squeeze, m.block}).resident({row}, {.pad = -kInfinity});
  // Each thread carries a maximum of v log2 e and a sum of 2^(v log2 e - maximum). It rescales the
  // sum when the maximum grows. The threads synchronise once, after the loop.
  const BlockLanes lanes =
      block_lanes(k.target(), m.type, m.block, m.warps(), static_cast<int>(m.ctas));
  auto [top, total] =
      k.for_range(0, kept.blocks(), 1,
                  carry(k.full(lanes.carried(), -kInfinity, f32), k.zeros(lanes.carried(), f32)),
                  [&](Scalar b, Tile top, Tile total) {
                    const OnlineSums next = accumulate({top, total}, lanes, kept.load(b).to(f32));
                    return carry(next.m, next.s);
                  });
  Scalar lse = log_sum_exp(combine(OnlineSums{top, total}));
  k.for_range(0, kept.blocks(), 1, [&](Scalar i) {
    Scalar b = kept.blocks() - 1 - i;  // the last block first: it is still cached
    y.partition({squeeze, m.block}).store({row, b}, (kept.load(b).to(f32) - lse).to(m.type));
  });
}

}  // namespace

const Kernel<PlainMeta> log_softmax_plain{
    .name = "log_softmax_plain",
    .description = "y = x - log sum e^x over rows, the direct formula",
    .build = plain,
    .launch = [](const PlainMeta&, const LaunchArguments& a) {
      return Launch{.grid = {a.dim("x", 0)}};
    }};
const Kernel<FastMeta> log_softmax{
    .name = "log_softmax",
    .description = "y = x - log sum e^x over rows; cols must be c * 2^n, c odd and at most 31",
    .build = fast,
    .launch = [](const FastMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("x", 0), m.rows)},
                    .num_warps = warps_of(m.type, m.rows * m.cols, m.vectors)};
    }};

const Kernel<WideMeta> log_softmax_wide{
    .name = "log_softmax_wide",
    .description = "y = x - log sum e^x over rows that no program can hold",
    .build = [](KernelBuilder& k, const WideMeta& m) { k.dynamic_persistent([&] { wide(k, m); }); },
    .launch =
        [](const WideMeta& m, const LaunchArguments& a) {
          return Launch{.grid = {a.dim("x", 0)},
                        .num_warps = m.warps(),
                        .num_ctas = static_cast<int>(m.ctas),
                        .min_ctas_per_sm = 2};
        }};

LIGERDSL_REGISTER_KERNEL(log_softmax_plain);
LIGERDSL_REGISTER_KERNEL(log_softmax);
LIGERDSL_REGISTER_KERNEL(log_softmax_wide);
LIGERDSL_EXPORT_KERNELS();

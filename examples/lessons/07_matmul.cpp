// Lesson 7: a matmul in six steps: multiply and add, tiles by `dot`, pipelined loads, an order of
// tiles that reuses L2, persistent programs, an epilogue. The file builds a shared object for the
// `ligerdsl` command. docs/tutorial/07-matmul.md explains each step. This command times a step:
//
//   ligerdsl bench --load liblesson_07_matmul.so --device cuda:0
//     matmul_grouped c=4096x4096 a=4096x4096 b=4096x4096
//
// c = a b; a [m, k], b [k, n], c [m, n] of one type, any sizes; f32 accumulation. 2 m n k flop.
#include <ligerdsl/dsl.h>

#include <algorithm>

using namespace ligerdsl;

namespace {

struct Meta {
  DType type = bf16;
  int64_t block_m = 128, block_n = 256, block_k = 64;
  int64_t warps = 8;
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("block_m", block_m, powers_of_two(16, 128), Bits::same);
    v("block_n", block_n, powers_of_two(16, 256), Bits::same);
    v("block_k", block_k, powers_of_two(16, 128), Bits::same);
    v("warps", warps, powers_of_two(1, 16), Bits::same);
  }
};

// The matrices, divided into tiles.
struct Matrices {
  View c, a, b;
  Partition of_c, of_a, of_b;
  Matrices(KernelBuilder& k, const Meta& m)
      : c(k.view("c", m.type, {dyn, dyn})),
        a(k.view("a", m.type, {dyn, dyn})),
        b(k.view("b", m.type, {dyn, dyn})),
        of_c(c.partition({m.block_m, m.block_n})),
        of_a(a.partition({m.block_m, m.block_k})),
        of_b(b.partition({m.block_k, m.block_n})) {}
};

// Returns the accumulator of one tile of c. `loads` sets how far ahead the loads are issued.
Tile sums_of(KernelBuilder& k, const Meta& m, const Matrices& x, const TilePlace& tile,
             const LoopOptions& loads) {
  auto [sums] = k.for_range(
      0, cdiv(x.a.dim(1), m.block_k), 1, loads, carry(k.zeros({m.block_m, m.block_n}, f32)),
      [&](Scalar i, Tile sums) {
        return carry(dot(x.of_a.load({tile.row, i}), x.of_b.load({i, tile.column}), sums));
      });
  return sums;
}

// Numbers the tiles row by row, so concurrent programs share rows of a, but read most of b.
TilePlace in_rows(KernelBuilder& k, const Meta& m, const Matrices& x) {
  const Scalar columns = cdiv(x.c.dim(1), m.block_n).to(i32);
  return {k.program_id(0) / columns, k.program_id(0) % columns};
}

// Step 1: the formula. A k-step multiplies in one 3-D tile [m, k, n], so the block sizes must be
// small: block_m=32 block_n=32 block_k=16.
void plain(KernelBuilder& k, const Meta& m) {
  const Matrices x(k, m);
  const TilePlace tile = in_rows(k, m, x);
  auto [sums] = k.for_range(0, cdiv(x.a.dim(1), m.block_k), 1,
                            carry(k.zeros({m.block_m, m.block_n}, f32)), [&](Scalar i, Tile sums) {
                              const Tile a = x.of_a.load({tile.row, i}).to(f32).expand_dims(2);
                              const Tile b = x.of_b.load({i, tile.column}).to(f32).expand_dims(0);
                              return carry(sums + sum(a * b, 1));
                            });
  x.of_c.store({tile.row, tile.column}, sums.to(m.type));
}

// Step 2: `dot`, which uses the tensor cores of a GPU for 16-bit types.
void tiles(KernelBuilder& k, const Meta& m) {
  const Matrices x(k, m);
  const TilePlace tile = in_rows(k, m, x);
  x.of_c.store({tile.row, tile.column}, sums_of(k, m, x, tile, pipelined(1)).to(m.type));
}

// Step 3: the operands of the next three k-steps are copied to shared memory during this k-step.
void loads_in_flight(KernelBuilder& k, const Meta& m) {
  const Matrices x(k, m);
  const TilePlace tile = in_rows(k, m, x);
  x.of_c.store({tile.row, tile.column}, sums_of(k, m, x, tile, pipelined(4)).to(m.type));
}

// Step 4: tiles are numbered in groups of 16 rows of tiles, so that concurrent programs share rows
// of a and columns of b.
void grouped(KernelBuilder& k, const Meta& m) {
  const Matrices x(k, m);
  const TilePlace tile =
      grouped_tiles(k.program_id(0), cdiv(x.c.dim(0), m.block_m), cdiv(x.c.dim(1), m.block_n), 16);
  x.of_c.store({tile.row, tile.column}, sums_of(k, m, x, tile, pipelined(4)).to(m.type));
}

// Step 5: one thread copies whole tiles (TMA), and each program loops over several tiles of c. The
// first operands of the next tile are in flight while the current tile is stored.
void persistent(KernelBuilder& k, const Meta& m) {
  const Matrices x(k, m);
  const Scalar rows = cdiv(x.c.dim(0), m.block_m), columns = cdiv(x.c.dim(1), m.block_n);
  k.for_range(k.program_id(0), (rows * columns).to(i32), k.num_programs(0), [&](Scalar number) {
    const TilePlace tile = grouped_tiles(number, rows, columns, 16);
    const Tile sums = sums_of(k, m, x, tile, {.num_stages = 4, .tensor_copies = true});
    x.of_c.store({tile.row, tile.column}, sums.to(m.type));
  });
}

// Step 6: an epilogue fused into the matmul: c = gelu(a b + bias).
void linear(KernelBuilder& k, const Meta& m) {
  const Matrices x(k, m);
  View bias = k.view("bias", m.type, {dyn});
  const TilePlace tile =
      grouped_tiles(k.program_id(0), cdiv(x.c.dim(0), m.block_m), cdiv(x.c.dim(1), m.block_n), 16);
  const Tile shift = bias.partition({m.block_n}).load({tile.column}).to(f32).expand_dims(0);
  x.of_c.store({tile.row, tile.column},
               gelu_tanh(sums_of(k, m, x, tile, pipelined(4)) + shift).to(m.type));
}

int64_t number_of_tiles(const Meta& m, const LaunchArguments& a) {
  return ceil_div(a.dim("c", 0), m.block_m) * ceil_div(a.dim("c", 1), m.block_n);
}

Launch launch(const Meta& m, const LaunchArguments& a) {
  return {
      .grid = {number_of_tiles(m, a)}, .num_warps = static_cast<int>(m.warps), .no_alias = true};
}

// Launches one program per SM of a GPU.
Launch launch_persistent(const Meta& m, const LaunchArguments& a) {
  const int64_t most =
      a.has_target() && a.target().is_gpu() ? a.target().sms : number_of_tiles(m, a);
  return {.grid = {std::min(number_of_tiles(m, a), most)},
          .num_warps = static_cast<int>(m.warps),
          .no_alias = true};
}

}  // namespace

const Kernel<Meta> matmul_plain{.name = "matmul_plain",
                                .description = "c = a b, the direct formula",
                                .build = plain,
                                .launch = launch};
const Kernel<Meta> matmul_tiles{
    .name = "matmul_tiles", .description = "c = a b, with dot", .build = tiles, .launch = launch};
const Kernel<Meta> matmul_in_flight{.name = "matmul_in_flight",
                                    .description = "c = a b, with the next tiles in flight",
                                    .build = loads_in_flight,
                                    .launch = launch};
const Kernel<Meta> matmul_grouped{.name = "matmul_grouped",
                                  .description = "c = a b, with tiles in groups of rows",
                                  .build = grouped,
                                  .launch = launch};
const Kernel<Meta> matmul_persistent{.name = "matmul_persistent",
                                     .description = "c = a b, persistent with TMA copies",
                                     .build = persistent,
                                     .launch = launch_persistent};
const Kernel<Meta> matmul_linear{.name = "matmul_linear",
                                 .description = "c = gelu(a b + bias)",
                                 .build = linear,
                                 .launch = launch};

LIGERDSL_REGISTER_KERNEL(matmul_plain);
LIGERDSL_REGISTER_KERNEL(matmul_tiles);
LIGERDSL_REGISTER_KERNEL(matmul_in_flight);
LIGERDSL_REGISTER_KERNEL(matmul_grouped);
LIGERDSL_REGISTER_KERNEL(matmul_persistent);
LIGERDSL_REGISTER_KERNEL(matmul_linear);
LIGERDSL_EXPORT_KERNELS();

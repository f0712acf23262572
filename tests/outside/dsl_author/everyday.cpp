// Nine kernels that training programs want and the library does not have, each with what its author needs of the DSL:
// sorting, random numbers, integers of eight bits, rows picked by index, launches that promise something of arguments.
#include <ligerdsl/dsl.h>

using namespace ligerdsl;

namespace {

// Of kernels with one program for each row of `y`.
struct RowMeta {
  DType type = f32;
  int64_t cols = 256;
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("cols", cols);
  }
};

Launch a_program_a_row(const RowMeta& m, const LaunchArguments& a) {
  return {.grid = {a.dim("y", 0)}, .num_warps = warps_for(m.cols, m.type, 2), .no_alias = true};
}

struct Rows {
  Rows(KernelBuilder& k, const char* name, const RowMeta& m, bool read_only = true)
      : tiles(k.view(name, m.type, {dyn, m.cols}, {.read_only = read_only}).partition({squeeze, m.cols})) {}
  Tile load(const Scalar& row) const { return tiles.load({row, 0}).to(f32); }
  void store(const Scalar& row, const Tile& value) const { tiles.store({row, 0}, value.to(tiles.view().dtype())); }
  Partition tiles;
};

// Jensen-Shannon divergence of rows of log-probabilities.
void jsd(KernelBuilder& k, const RowMeta& m) {
  View y = k.view("y", f32, {dyn});
  const Rows p(k, "p", m), q(k, "q", m);
  Scalar row = k.program_id(0);
  Tile log_p = p.load(row), log_q = q.load(row), a = exp(log_p), b = exp(log_q);
  Tile log_m = log((a + b) * 0.5f);
  y.store({row}, sum(a * (log_p - log_m) + b * (log_q - log_m)) * 0.5f);
}

// The log-probability of one class of each row.
void selective_log_softmax(KernelBuilder& k, const RowMeta& m) {
  View y = k.view("y", f32, {dyn}), index = k.view("index", i32, {dyn});
  View x = k.view("x", m.type, {dyn, m.cols}, {.read_only = true});
  Scalar row = k.program_id(0);
  Tile v = x.partition({squeeze, m.cols}).load({row, 0}).to(f32);
  y.store({row}, x.load({row, index.load({row})}).to(f32) - log_sum_exp(v));
}

// A row is a group: its elements become those of mean 0 and variance 1.
void group_norm(KernelBuilder& k, const RowMeta& m) {
  const Rows y(k, "y", m, false), x(k, "x", m);
  Scalar row = k.program_id(0);
  Tile v = x.load(row);
  Tile centred = v - mean(v);
  y.store(row, centred * rsqrt(mean(centred * centred) + 1e-5f));
}

// The projection of a row to the probabilities (Martins, Astudillo, "From softmax to sparsemax", 2016).
void sparsemax(KernelBuilder& k, const RowMeta& m) {
  const Rows y(k, "y", m, false), x(k, "x", m);
  Scalar row = k.program_id(0);
  Tile v = x.load(row), sorted = sort(v, 0, /*descending=*/true), sums = cumsum(sorted, 0);
  Tile count = (k.arange(m.cols) + 1).to(f32);
  Tile supported = count * sorted + 1.0f > sums;
  Scalar size = sum(supported.to(i32)).to(f32);
  Scalar threshold = (sum(where(supported, sorted, 0.0f)) - 1.0f) / size;
  y.store(row, max(v - threshold, 0.0f));
}

// Keeps 7/8 of the elements.
void dropout(KernelBuilder& k, const RowMeta& m) {
  const Rows y(k, "y", m, false), x(k, "x", m);
  Scalar seed = k.scalar("seed", i64), row = k.program_id(0);
  Tile position = k.arange(m.cols).to(i64) + row.to(i64) * m.cols;
  y.store(row, where(uniform(seed, position) < 0.875f, x.load(row) / 0.875f, 0.0f));
}

// The two largest elements and where they are.
void top2(KernelBuilder& k, const RowMeta& m) {
  View y = k.view("y", f32, {dyn, 2}), at = k.view("at", i32, {dyn, 2});
  const Rows x(k, "x", m);
  Scalar row = k.program_id(0);
  const Sorted best = topk(x.load(row), 2);
  y.partition({squeeze, 2}).store({row, 0}, best.values);
  at.partition({squeeze, 2}).store({row, 0}, best.indices);
}

// Rows as i8 and a factor.
void quantise_rows(KernelBuilder& k, const RowMeta& m) {
  View y = k.view("y", i8, {dyn, m.cols}), scale = k.view("scale", f32, {dyn});
  const Rows x(k, "x", m);
  Scalar row = k.program_id(0);
  Tile v = x.load(row);
  Scalar step = max(reduce_max(abs(v)) / 127.0f, 1e-12f);
  y.partition({squeeze, m.cols}).store({row, 0}, round(v / step).to(i8));
  scale.store({row}, step);
}

void bias_gelu(KernelBuilder& k, const RowMeta& m) {
  const Rows y(k, "y", m, false), x(k, "x", m);
  View bias = k.view("bias", m.type, {m.cols}, {.read_only = true});
  Scalar row = k.program_id(0);
  y.store(row, gelu_erf(x.load(row) + bias.partition({m.cols}).load({0}).to(f32)));
}

// y = a b, by blocks; without tensor cores.
struct MatmulMeta {
  int64_t rows = 16, cols = 32, depth = 16;
  template <class V>
  void visit(V&& v) {
    v("rows", rows);
    v("cols", cols);
    v("depth", depth);
  }
};

void matmul(KernelBuilder& k, const MatmulMeta& m) {
  View y = k.view("y", f32, {dyn, dyn});
  View a = k.view("a", f32, {dyn, dyn}, {.read_only = true}), b = k.view("b", f32, {dyn, dyn}, {.read_only = true});
  Scalar i = k.program_id(0), j = k.program_id(1);
  auto [total] = k.for_range(0, cdiv(a.dim(1), m.depth), 1, pipelined(2), carry(k.zeros({m.rows, m.cols}, f32)),
                             [&](Scalar block, Tile sums) {
                               Tile left = a.partition({m.rows, m.depth}).load({i, block}).expand_dims(2);
                               Tile right = b.partition({m.depth, m.cols}).load({block, j}).expand_dims(0);
                               return carry(sums + sum(left * right, 1));
                             });
  y.partition({m.rows, m.cols}).store({i, j}, total);
}

const Kernel<RowMeta> jsd_kernel{"jsd", "Jensen-Shannon divergence of rows", jsd, a_program_a_row};
const Kernel<RowMeta> selective_kernel{"selective_log_softmax", "log-probabilities of one class per row",
                                       selective_log_softmax, a_program_a_row};
const Kernel<RowMeta> group_norm_kernel{"group_norm", "rows of mean 0 and variance 1", group_norm, a_program_a_row};
const Kernel<RowMeta> sparsemax_kernel{"sparsemax", "sparse probabilities of rows", sparsemax, a_program_a_row};
const Kernel<RowMeta> dropout_kernel{"dropout", "x with elements left out", dropout, a_program_a_row};
const Kernel<RowMeta> top2_kernel{"top2", "the two largest elements of rows", top2, a_program_a_row};
const Kernel<RowMeta> quantise_rows_kernel{"quantise_rows", "rows as i8", quantise_rows, a_program_a_row};
const Kernel<RowMeta> bias_gelu_kernel{"bias_gelu", "gelu(x + bias)", bias_gelu, a_program_a_row};
const Kernel<MatmulMeta> matmul_kernel{
    .name = "matmul",
    .description = "y = a b",
    .build = matmul,
    .launch = [](const MatmulMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("y", 0), m.rows), ceil_div(a.dim("y", 1), m.cols)}, .no_alias = true};
    }};

LIGERDSL_REGISTER_KERNEL(jsd_kernel);
LIGERDSL_REGISTER_KERNEL(selective_kernel);
LIGERDSL_REGISTER_KERNEL(group_norm_kernel);
LIGERDSL_REGISTER_KERNEL(sparsemax_kernel);
LIGERDSL_REGISTER_KERNEL(dropout_kernel);
LIGERDSL_REGISTER_KERNEL(top2_kernel);
LIGERDSL_REGISTER_KERNEL(quantise_rows_kernel);
LIGERDSL_REGISTER_KERNEL(bias_gelu_kernel);
LIGERDSL_REGISTER_KERNEL(matmul_kernel);

}  // namespace

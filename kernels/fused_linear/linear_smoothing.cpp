// Bytes: V H s and n H s read, s = sizeof(type), and 4 H per part written and read.
#include "kernels/fused_linear/linear_smoothing.h"

#include <algorithm>

#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"
#include "kernels/reduce/reduce_partials.h"

namespace ligerdsl::kernels {
namespace {

struct SumsMeta {
  DType type = f32;
  int64_t cols = 4096, rows = 16, block = 256, parts = 1;
};

// Part p adds the row tiles p, p + parts, p + 2 parts ...
void row_sums(KernelBuilder& k, const SumsMeta& m) {
  const View partials = k.view("partials", f32, {m.parts, m.cols});
  const View rows = k.view("rows", m.type, {dyn, m.cols}), factor = k.view("factor", f32, {dyn});
  const Scalar blocks = cdiv(rows.dim(1), m.block).to(i32), column = k.program_id(0) % blocks,
               part = k.program_id(0) / blocks;
  const Partition tiles = rows.partition({m.rows, m.block}), factors = factor.partition({m.rows});
  const auto [lanes] = k.for_range(
      part, cdiv(rows.dim(0), m.rows), m.parts, carry(k.zeros({m.rows, m.block}, f32)),
      [&](const Scalar& i, const Tile& lanes) {
        const Tile times = factors.load({i}).expand_dims(1), row = tiles.load({i, column}).to(f32);
        return carry(lanes + where(times == 0.0f, 0.0f, row * times));
      });
  partials.partition({squeeze, m.block}).store({part, column}, sum(lanes, 0));
}

struct ClassMeta : CrossEntropyOptions {
  int64_t block = 1024;
};

void class_factors(KernelBuilder& k, const ClassMeta& m) {
  const View out = k.view("class_factor", f32, {m.classes});
  const Scalar b = k.program_id(0);
  Tile factor = k.full({m.block}, 1.0f, f32);
  if (m.has_weight)
    factor =
        k.view("class_weight", m.weight_type, {m.classes}).partition({m.block}).load({b}).to(f32);
  out.partition({m.block}).store({b}, factor);
}

void bias(KernelBuilder& k, const ClassMeta& m) {
  const View d_bias = k.view("d_bias", f32, {m.classes}),
             class_factor = k.view("class_factor", f32, {m.classes}),
             factor = k.view("factor", f32, {dyn});
  const Scalar b = k.program_id(0);
  const Partition numbers = factor.partition({m.block});
  const auto [lanes] = k.for_range(
      0, cdiv(factor.dim(0), m.block), 1, carry(k.zeros({m.block}, f32)),
      [&](const Scalar& i, const Tile& lanes) { return carry(lanes + numbers.load({i})); });
  const Partition target = d_bias.partition({m.block});
  target.store({b}, fma(class_factor.partition({m.block}).load({b}), sum(lanes), target.load({b})));
}

}  // namespace

LinearSmoothing linear_smoothing(const Machine& machine, DType type, DType head_type,
                                 const CrossEntropyOptions& options, int64_t cols) {
  LinearSmoothing made;
  made.parts = machine.is_gpu() ? 64 : 8;
  const auto sums = [&](DType of) {
    const SumsMeta meta{.type = of,
                        .cols = cols,
                        .block = std::min<int64_t>(tile_width(cols), 256),
                        .parts = made.parts};
    return record_step("linear_row_sums", of, &row_sums, meta,
                       library_launch(ceil_div(cols, meta.block) * made.parts, 8));
  };
  made.weight_sums = sums(head_type);
  made.x_sums = sums(type);
  made.finish = reduce_partials(machine, {{.out = "sums", .cols = cols}});
  const ClassMeta meta{options};
  const auto of_classes = [&](const char* name, void (*build)(KernelBuilder&, const ClassMeta&)) {
    return record_step(name, f32, build, meta,
                       library_launch(ceil_div(options.classes, meta.block), 8));
  };
  made.class_factors = of_classes("linear_class_factors", &class_factors);
  made.bias = of_classes("linear_smoothing_bias", &bias);
  return made;
}

}  // namespace ligerdsl::kernels

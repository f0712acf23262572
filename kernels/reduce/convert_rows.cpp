// Each program converts one tile, without a loop.
#include "kernels/reduce/convert_rows.h"

#include "kernels/core/index_view.h"
#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"

namespace ligerdsl::kernels {
namespace {

struct Place {
  Scalar row, column;
};

Place place_of(KernelBuilder& k, const View& out, const ConvertRowsMeta& m) {
  Scalar blocks = cdiv(out.dim(1), m.block).to(i32);
  return {k.program_id(0) / blocks, k.program_id(0) % blocks};
}

Operation operation(const Machine& machine, const std::string& name, ConvertRowsMeta meta,
                    void (*build)(KernelBuilder&, const ConvertRowsMeta&)) {
  const DType wider = size_of(meta.from) > size_of(meta.to) ? meta.from : meta.to;
  const TileShape tile = elementwise_tile(machine, wider, meta.cols);
  meta.rows = tile.rows;
  meta.block = tile.cols;
  return {.steps = {record_step(name, meta.to, build, meta, elementwise_launch(tile, meta.cols))}};
}

// Returns one element per row of the program's tile: true if the row's label is ignore_index.
Tile ignored_rows(KernelBuilder& k, const ConvertRowsMeta& m, const Place& at) {
  const View labels = index_view(k, "labels", m.label_type);
  const Scalar ignore_index = k.scalar("ignore_index", i64);
  return labels.partition({m.rows}).load({at.row}).to(i64) == ignore_index;
}

}  // namespace

void convert_rows(KernelBuilder& k, const ConvertRowsMeta& m) {
  View out = k.view("out", m.to, {dyn, m.cols});
  View in = k.view("in", m.from, {dyn, m.cols});
  const Place at = place_of(k, out, m);
  Tile x = in.partition({m.rows, m.block}).load({at.row, at.column});
  out.partition({m.rows, m.block}).store({at.row, at.column}, x.to(m.to));
}

void zero_rows(KernelBuilder& k, const ConvertRowsMeta& m) {
  View out = k.view("out", m.to, {dyn, m.cols});
  const Place at = place_of(k, out, m);
  out.partition({m.rows, m.block}).store({at.row, at.column}, k.zeros({m.rows, m.block}, m.to));
}

// Selects zeros instead of multiplying by 0, because 0 times NaN is NaN.
void counted_rows(KernelBuilder& k, const ConvertRowsMeta& m) {
  View out = k.view("out", m.to, {dyn, m.cols});
  View in = k.view("in", m.from, {dyn, m.cols});
  const Place at = place_of(k, out, m);
  const Tile ignored = ignored_rows(k, m, at).expand_dims(1).broadcast_to({m.rows, m.block});
  const Tile x = in.partition({m.rows, m.block}).load({at.row, at.column});
  const Tile counted = where(ignored, k.zeros({m.rows, m.block}, m.to), x.to(m.to));
  out.partition({m.rows, m.block}).store({at.row, at.column}, counted);
}

void clear_ignored_rows(KernelBuilder& k, const ConvertRowsMeta& m) {
  View out = k.view("out", m.to, {dyn, m.cols});
  const Place at = place_of(k, out, m);
  const Tile ignored = ignored_rows(k, m, at);
  const Partition tiles = out.partition({m.rows, m.block});
  // Most tiles have no ignored row and are neither read nor written.
  k.if_(reduce_max(ignored.to(i32)) > 0, [&] {
    const Tile all = ignored.expand_dims(1).broadcast_to({m.rows, m.block}),
               x = tiles.load({at.row, at.column});
    tiles.store({at.row, at.column}, where(all, k.zeros({m.rows, m.block}, m.to), x));
  });
}

Operation convert_rows(const Machine& machine, DType from, DType to, int64_t cols) {
  return operation(machine, std::string("convert_rows_") + name(from),
                   {.from = from, .to = to, .cols = cols}, &convert_rows);
}

Operation zero_rows(const Machine& machine, DType type, int64_t cols) {
  return operation(machine, "zero_rows", {.from = type, .to = type, .cols = cols}, &zero_rows);
}

Operation counted_rows(const Machine& machine, DType from, DType to, int64_t cols,
                       DType label_type) {
  return operation(machine, std::string("counted_rows_") + name(from),
                   {.from = from, .to = to, .label_type = label_type, .cols = cols}, &counted_rows);
}

Operation clear_ignored_rows(const Machine& machine, DType type, int64_t cols, DType label_type) {
  return operation(machine, "clear_ignored_rows",
                   {.from = type, .to = type, .label_type = label_type, .cols = cols},
                   &clear_ignored_rows);
}

}  // namespace ligerdsl::kernels

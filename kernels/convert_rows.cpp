// Streams: one tile per program, no loop.
#include "kernels/convert_rows.h"

#include "kernels/record.h"
#include "kernels/tile_shape.h"

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

Operation convert_rows(const Machine& machine, DType from, DType to, int64_t cols) {
  return operation(machine, std::string("convert_rows_") + name(from), {.from = from, .to = to, .cols = cols},
                   &convert_rows);
}

Operation zero_rows(const Machine& machine, DType type, int64_t cols) {
  return operation(machine, "zero_rows", {.from = type, .to = type, .cols = cols}, &zero_rows);
}

}  // namespace ligerdsl::kernels

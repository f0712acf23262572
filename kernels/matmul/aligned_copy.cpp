#include "kernels/matmul/aligned_copy.h"

#include "kernels/core/program_tile.h"
#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"

namespace ligerdsl::kernels {
namespace {

struct AlignedCopyMeta {
  Operand operand = Operand::a;
  DType type = bf16;
  int64_t cols = 4096;
  int64_t rows = 1, block = 1024;  // tile
};

void aligned_copy(KernelBuilder& k, const AlignedCopyMeta& m) {
  const View out = k.view(name_of(m.operand, true), m.type, {dyn, m.cols});
  const View in = k.view(name_of(m.operand, false), m.type, {dyn, m.cols});
  const ProgramTile at(k, out, m);
  out.partition({m.rows, m.block})
      .store({at.row(), at.column()},
             in.partition({m.rows, m.block}).load({at.row(), at.column()}));
}

}  // namespace

const char* name_of(Operand operand, bool copied) {
  if (operand == Operand::a) return copied ? "aligned_a" : "a";
  return copied ? "aligned_b" : "b";
}

void add_aligned_copy(Operation& operation, const Machine& machine, Operand operand, DType type,
                      const Size& rows, int64_t cols) {
  const TileShape tile = elementwise_tile(machine, type, cols, {.arrays = 2});
  const AlignedCopyMeta meta{
      .operand = operand, .type = type, .cols = cols, .rows = tile.rows, .block = tile.cols};
  operation.steps.push_back(record_step(
      std::string("aligned_copy_") + name_of(operand, false), type, &aligned_copy, meta,
      library_launch(ceil_div(rows, tile.rows) * ceil_div(cols, tile.cols), tile.num_warps)));
  operation.workspace.push_back(
      {.name = name_of(operand, true), .dtype = type, .shape = {rows, cols}});
}

CopyGain gain_of_copies(double flop_per_row, const CopiedBytes& bytes) {
  using Rates = CopyRates;
  return {.gained_per_row = flop_per_row * (1 / Rates::kUnalignedFlops - 1 / Rates::kAlignedFlops) -
                            bytes.per_row * Rates::kSecondsPerByte,
          .lost = bytes.fixed * Rates::kSecondsPerByte + bytes.copies * Rates::kLaunch};
}

}  // namespace ligerdsl::kernels

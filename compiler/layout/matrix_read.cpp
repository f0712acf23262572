#include "compiler/layout/matrix_read.h"

#include <algorithm>

namespace ligerdsl::compiler {
namespace {

using Basis = LinearLayout::Basis;
using Bases = LinearLayout::Bases;

constexpr int64_t kSide = 8;  // of a matrix
constexpr int kLaneBits = 5;

// A lane has two neighbours of a row, four lanes a row; or, transposed, of a column.
bool holdsPairs(const LinearLayout& tile, int along, int across) {
  const auto step = [&](int dim, int64_t by) {
    Basis basis(2, 0);
    basis[dim] = by;
    return basis;
  };
  const Bases lanes{step(along, 2), step(along, 4), step(across, 1), step(across, 2), step(across, 4)};
  return tile.bases(Axis::reg)[0] == step(along, 1) && tile.bases(Axis::lane) == lanes;
}

bool isWhole(const Basis& basis) {
  return std::ranges::all_of(basis, [](int64_t by) { return by % kSide == 0; });
}

// In units of a row's 16 bytes.
Basis inUnits(Basis basis) {
  basis[1] /= kSide;
  return basis;
}

}  // namespace

std::optional<MatrixRead> matrixRead(const LinearLayout& tile) {
  if (tile.rank() != 2 || tile.bases(Axis::reg).empty() || tile.shape()[1] % kSide != 0) return std::nullopt;
  const bool transposed = !holdsPairs(tile, 1, 0);
  if (transposed && !holdsPairs(tile, 0, 1)) return std::nullopt;
  const auto& registers = tile.bases(Axis::reg);
  if (!std::all_of(registers.begin() + 1, registers.end(), isWhole)) return std::nullopt;

  const size_t bits = std::min<size_t>(2, registers.size() - 1);
  Bases lanes{{1, 0}, {2, 0}, {4, 0}}, rest, warps, ctas;
  for (size_t bit = 0; bit < registers.size() - 1; ++bit)
    (bit < bits ? lanes : rest).push_back(inUnits(registers[bit + 1]));
  lanes.resize(kLaneBits, Basis(2, 0));
  for (const Basis& basis : tile.bases(Axis::warp)) warps.push_back(inUnits(basis));
  for (const Basis& basis : tile.bases(Axis::cta)) ctas.push_back(inUnits(basis));
  const LinearLayout::Shape shape{tile.shape()[0], tile.shape()[1] / kSide};
  if (!LinearLayout::check(shape, rest, lanes, warps, ctas).empty()) return std::nullopt;
  return MatrixRead{LinearLayout(shape, rest, lanes, warps, ctas), int64_t{1} << bits, transposed};
}

}  // namespace ligerdsl::compiler

#include "compiler/layout/matrix_read.h"

#include <algorithm>

namespace ligerdsl::compiler {
namespace {

using Basis = LinearLayout::Basis;
using Bases = LinearLayout::Bases;

constexpr int64_t kMatrixRows = 8, kRowBytes = 16;  // size of one matrix
constexpr int kLaneBits = 5;

// Returns true if each register holds `each` contiguous elements along dimension `along`, and four
// lanes hold a matrix row.
bool holdsRows(const LinearLayout& tile, int along, int across, int64_t each) {
  const auto step = [&](int dim, int64_t by) {
    Basis basis(2, 0);
    basis[dim] = by;
    return basis;
  };
  size_t reg = 0;
  for (int64_t by = 1; by < each; by *= 2, ++reg)
    if (tile.bases(Axis::reg).size() <= reg || tile.bases(Axis::reg)[reg] != step(along, by))
      return false;
  const Bases lanes{step(along, each), step(along, 2 * each), step(across, 1), step(across, 2),
                    step(across, 4)};
  return tile.bases(Axis::lane) == lanes;
}

}  // namespace

std::optional<MatrixRead> matrixRead(const LinearLayout& tile, int64_t bytes) {
  const int64_t columns = kRowBytes / bytes,
                each = 4 / bytes;  // columns per matrix, elements per register
  if (tile.rank() != 2 || tile.shape()[1] % columns != 0) return std::nullopt;
  const bool transposed = !holdsRows(tile, 1, 0, each);
  if (transposed && (bytes != 2 || !holdsRows(tile, 0, 1, each))) return std::nullopt;
  const auto isWhole = [&](const Basis& basis) {
    return basis[0] % kMatrixRows == 0 && basis[1] % columns == 0;
  };
  const auto inUnits = [&](Basis basis) {
    basis[1] /= columns;
    return basis;
  };
  const auto& registers = tile.bases(Axis::reg);
  const size_t within = bytes == 1 ? 2 : bytes == 2 ? 1 : 0;  // bits inside a 32-bit register
  if (!std::all_of(registers.begin() + within, registers.end(), isWhole)) return std::nullopt;

  const size_t bits = std::min<size_t>(2, registers.size() - within);
  Bases lanes{{1, 0}, {2, 0}, {4, 0}}, rest, warps, ctas;
  for (size_t bit = 0; bit < registers.size() - within; ++bit)
    (bit < bits ? lanes : rest).push_back(inUnits(registers[bit + within]));
  lanes.resize(kLaneBits, Basis(2, 0));
  for (const Basis& basis : tile.bases(Axis::warp)) warps.push_back(inUnits(basis));
  for (const Basis& basis : tile.bases(Axis::cta)) ctas.push_back(inUnits(basis));
  const LinearLayout::Shape shape{tile.shape()[0], tile.shape()[1] / columns};
  if (!LinearLayout::check(shape, rest, lanes, warps, ctas).empty()) return std::nullopt;
  return MatrixRead{LinearLayout(shape, rest, lanes, warps, ctas), int64_t{1} << bits, transposed};
}

}  // namespace ligerdsl::compiler

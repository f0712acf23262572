#include "kernels/matmul/copy_choice.h"

#include <algorithm>
#include <vector>

#include "kernels/matmul/aligned_copy.h"

namespace ligerdsl::kernels {
namespace {

constexpr double kLeastGain = 0.05;  // least predicted gain, relative; errors reach 10 %
constexpr double kSecondsPerUs = 1e-6;

double flop_of(const MatmulOptions& o, int64_t rows) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(o.width) *
         static_cast<double>(o.cols);
}

}  // namespace

CopyChoice::CopyChoice(const Machine& machine, const MatmulOptions& options)
    : options_(options), wide_(wide_matmul(machine, options)) {
  const int64_t length_b = !options.transposed_b()  ? options.cols
                           : options.transposed_a() ? 0
                                                    : options.width;
  columns_ = {options.width, length_b};
  for (int64_t& columns : columns_)
    if (columns % vector_width(options.type) != 0) columns = 0;
  if (const std::vector<int64_t> few = few_rows(machine, options); !few.empty())
    few_rows_ = few.back();
  if (wide_) tile_ = tile_for_any_rows(*wide_);
}

int64_t CopyChoice::rows_of(size_t operand, int64_t rows) const {
  if (static_cast<Operand>(operand) == Operand::a) return rows;
  return options_.transposed_b() ? options_.cols : options_.transposed_a() ? rows : options_.width;
}

double CopyChoice::seconds(int64_t rows, const RowStarts& starts) const {
  if (std::ranges::count(starts, RowStart::element) > 0)
    return flop_of(options_, rows) / CopyRates::kUnalignedFlops;
  if (!wide_ || rows <= few_rows_) return flop_of(options_, rows) / CopyRates::kAlignedFlops;
  WideMatmul matmul = *wide_;
  matmul.a_crosses_lines = starts[0] == RowStart::vector;
  matmul.b_crosses_lines = starts[1] == RowStart::vector;
  if (options_.transposed_a()) matmul.depth = rows;
  return predicted_us(matmul, options_.transposed_a() ? options_.width : rows, tile_) *
         kSecondsPerUs;
}

double CopyChoice::seconds_of_copies(int64_t rows, const Operands& operands) const {
  double seconds = 0;
  for (size_t i = 0; i < kOperands; ++i) {
    if (!operands[i]) continue;
    const int64_t bytes =
        rows_of(i, rows) * columns_[i] * static_cast<int64_t>(size_of(options_.type));
    seconds += static_cast<double>(bytes) * CopyRates::kSecondsPerByte + CopyRates::kLaunch;
  }
  return seconds;
}

CopyChoice::Operands CopyChoice::operands_to_copy(int64_t rows, const RowStarts& starts) const {
  Operands best{};
  double least = seconds(rows, starts) * (1 - kLeastGain);
  for (const Operands operands : {Operands{true, false}, {false, true}, {true, true}}) {
    RowStarts after = starts;
    bool can = true;
    for (size_t i = 0; i < kOperands; ++i) {
      if (!operands[i]) continue;
      can = can && may_copy(i) && starts[i] != RowStart::sector;
      after[i] = RowStart::sector;
    }
    if (!can) continue;
    const double total = seconds(rows, after) + seconds_of_copies(rows, operands);
    if (total < least) best = operands, least = total;
  }
  return best;
}

}  // namespace ligerdsl::kernels

// Chooses the operands of a matmul call that are copied to aligned rows first (aligned_copy.h).
//
// Rows that do not begin at multiples of 16 bytes are loaded by single elements. Rows that begin at
// such multiples, but not at multiples of 32 bytes, load more L2 sectors. Both slow the matmul,
// and a copy takes time too. The choice with the least predicted time is used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/tile_choice.h"

namespace ligerdsl::kernels {

// Common alignment of the first elements of an operand's rows.
enum class RowStart : uint8_t { sector, vector, element };  // 32 bytes, 16 bytes, less

class CopyChoice {
 public:
  static constexpr size_t kOperands = 2;  // a and b
  using Operands = std::array<bool, kOperands>;
  using RowStarts = std::array<RowStart, kOperands>;

  // `options`: 16-bit operands without a batch.
  CopyChoice(const Machine& machine, const MatmulOptions& options);

  // Returns true if a call may copy this operand. No call does if its row length is unknown. If the
  // row length is not a multiple of 16 bytes, only the matmul's own schedule copies the operand.
  bool may_copy(size_t operand) const { return columns_[operand] > 0; }
  // Returns the operand's row length, or 0 if no call copies the operand.
  int64_t columns(size_t operand) const { return columns_[operand]; }
  // Returns the number of rows of the operand. `rows`: rows of a in memory.
  int64_t rows_of(size_t operand, int64_t rows) const;
  // Returns the operands to copy for a call with `rows` rows of a in memory.
  Operands operands_to_copy(int64_t rows, const RowStarts& starts) const;

 private:
  double seconds(int64_t rows, const RowStarts& starts) const;
  double seconds_of_copies(int64_t rows, const Operands& operands) const;

  MatmulOptions options_;
  std::array<int64_t, kOperands> columns_{};
  int64_t few_rows_ = 0;            // calls with at most this many rows have schedules of their own
  std::optional<WideMatmul> wide_;  // predicts the time of calls with more rows
  MatmulTile tile_;
};

}  // namespace ligerdsl::kernels

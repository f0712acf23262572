#include "lib/abi/operand_copies.h"

#include <algorithm>

#include "kernels/matmul/aligned_copy.h"
#include "lib/abi/plan.h"

namespace ligerdsl::lib {
namespace {

constexpr int64_t kVector = 16;  // bytes
constexpr int64_t kLine = 128;   // bytes; rows of copies begin at cache lines of L2
// Bytes. Rows at multiples of 32 bytes are as fast as rows at lines (12 matmuls on an H200).
constexpr int64_t kSector = 32;

using kernels::round_up;
using kernels::RowStart;

/// Returns the largest of 1, kVector and kSector of which all rows' addresses are multiples.
int64_t alignment_of_rows(const BoundTensor& matrix) {
  const auto size = static_cast<int64_t>(size_of(matrix.dtype));
  const auto all_multiples = [&](int64_t of) {
    bool whole = reinterpret_cast<uintptr_t>(matrix.data) % of == 0;
    for (int dim = 0; dim + 1 < matrix.rank; ++dim)
      whole = whole && matrix.strides[dim] * size % of == 0;
    return whole;
  };
  return all_multiples(kSector) ? kSector : all_multiples(kVector) ? kVector : 1;
}

RowStart row_start_of(const BoundTensor& matrix) {
  const int64_t alignment = alignment_of_rows(matrix);
  return alignment == kSector   ? RowStart::sector
         : alignment == kVector ? RowStart::vector
                                : RowStart::element;
}

int64_t pitch_of_copy(int64_t columns, DType type) {
  const auto size = static_cast<int64_t>(size_of(type));
  return round_up(columns * size, kLine) / size;
}

size_t bytes_of_copy(int64_t rows, int64_t columns, DType type) {
  const int64_t bytes = rows * pitch_of_copy(columns, type) * static_cast<int64_t>(size_of(type));
  return static_cast<size_t>(round_up(bytes, static_cast<int64_t>(kWorkspaceAlign)));
}

size_t bytes_of_copy(const BoundTensor& matrix) {
  return bytes_of_copy(matrix.dims[0], matrix.dims[1], matrix.dtype);
}

BoundTensor copy_at(std::byte* memory, const BoundTensor& matrix) {
  BoundTensor copy = matrix;
  copy.data = memory;
  if (matrix.dims[0] > 1) copy.strides[0] = pitch_of_copy(matrix.dims[1], matrix.dtype);
  return copy;
}

}  // namespace

bool is_unaligned(const BoundTensor& matrix) {
  return alignment_of_rows(matrix) < kVector;
}

OperandCopies::OperandCopies(const ContextRef& context, const kernels::MatmulOptions& options)
    : context_(context), type_(options.type), choice_(context->machine(), options) {}

size_t OperandCopies::most_bytes(int64_t rows) const {
  size_t bytes = 0;
  for (size_t i = 0; i < kOperands; ++i)
    if (choice_.may_copy(i))
      bytes += bytes_of_copy(choice_.rows_of(i, rows), choice_.columns(i), type_);
  return std::min(bytes, kMostBytes);
}

OperandCopies::Operands OperandCopies::operands_to_copy(const Call& call) const {
  const kernels::CopyChoice::RowStarts starts = {row_start_of(call.tensors[0]),
                                                 row_start_of(call.tensors[1])};
  if (starts == kernels::CopyChoice::RowStarts{}) return {};
  const Operands operands = choice_.operands_to_copy(call.tensors[0].dims[0], starts);
  return bytes(call, operands) <= kMostBytes ? operands : Operands{};
}

size_t OperandCopies::bytes(const Call& call, const Operands& operands) const {
  size_t bytes = 0;
  for (size_t i = 0; i < kOperands; ++i)
    if (operands[i]) bytes += bytes_of_copy(call.tensors[i]);
  return bytes;
}

bool OperandCopies::are_compiled(const Operands& operands) const {
  if (operands == Operands{}) return true;
  const std::lock_guard lock(compiling_);
  for (size_t i = 0; i < kOperands; ++i)
    if (operands[i] && !steps_[i]) return false;
  return true;
}

void OperandCopies::compile(const Operands& operands) const {
  for (size_t i = 0; i < kOperands; ++i)
    if (operands[i]) compile(i);
}

void OperandCopies::compile_all() const {
  for (size_t i = 0; i < kOperands; ++i)
    if (choice_.may_copy(i)) compile(i);
}

void OperandCopies::compile(size_t operand) const {
  const std::lock_guard lock(compiling_);
  std::unique_ptr<KernelStep>& step = steps_[operand];
  if (step) return;
  const auto which = static_cast<kernels::Operand>(operand);
  kernels::Operation operation;
  add_aligned_copy(operation, context_->machine(), which, type_, Size::rows(),
                   choice_.columns(operand));
  step = std::make_unique<KernelStep>(
      *context_, operation.steps[0],
      StepNames{.views = {{name_of(which, true), 0}, {name_of(which, false), 1}}});
}

void OperandCopies::run(const Operands& operands, std::byte* memory, Call* call) const {
  for (size_t i = 0; i < kOperands; ++i) {
    if (!operands[i]) continue;
    BoundTensor& matrix = call->tensors[i];
    const BoundTensor views[] = {copy_at(memory, matrix), matrix};
    steps_[i]->run(views, nullptr, matrix.dims[0], call->stream);
    memory += bytes_of_copy(matrix);
    matrix = views[0];
  }
}

}  // namespace ligerdsl::lib

#include "lib/abi/operand_copies.h"

#include "kernels/matmul/aligned_copy.h"
#include "lib/abi/plan.h"

namespace ligerdsl::lib {
namespace {

constexpr int64_t kVector = 16;  // bytes
constexpr int64_t kLine = 128;   // bytes; rows of copies begin at cache lines of L2

using kernels::round_up;

int64_t pitch_of(const BoundTensor& matrix) {
  const auto size = static_cast<int64_t>(size_of(matrix.dtype));
  return round_up(matrix.dims[1] * size, kLine) / size;
}

size_t bytes_of_copy(const BoundTensor& matrix) {
  const int64_t bytes =
      matrix.dims[0] * pitch_of(matrix) * static_cast<int64_t>(size_of(matrix.dtype));
  return static_cast<size_t>(round_up(bytes, static_cast<int64_t>(kWorkspaceAlign)));
}

BoundTensor copy_at(std::byte* memory, const BoundTensor& matrix) {
  BoundTensor copy = matrix;
  copy.data = memory;
  if (matrix.dims[0] > 1) copy.strides[0] = pitch_of(matrix);
  return copy;
}

}  // namespace

bool is_unaligned(const BoundTensor& matrix) {
  const auto size = static_cast<int64_t>(size_of(matrix.dtype));
  bool whole = reinterpret_cast<uintptr_t>(matrix.data) % kVector == 0;
  for (int dim = 0; dim + 1 < matrix.rank; ++dim)
    whole = whole && matrix.strides[dim] * size % kVector == 0;
  return !whole;
}

OperandCopies::OperandCopies(const ContextRef& context, const kernels::MatmulOptions& options)
    : context_(context),
      type_(options.type),
      columns_of_c_(static_cast<double>(options.cols)),
      columns_{options.width, !options.transposed_b()  ? options.cols
                              : options.transposed_a() ? 0
                                                       : options.width} {
  // For other row lengths every call is unaligned, so the plan itself copies the operands.
  for (int64_t& columns : columns_)
    if (columns * static_cast<int64_t>(size_of(type_)) % kVector != 0) columns = 0;
}

OperandCopies::Operands OperandCopies::operands_to_copy(const Call& call) const {
  Operands operands{};
  kernels::CopiedBytes copied{};
  for (size_t i = 0; i < kOperands; ++i) {
    operands[i] = is_unaligned(call.tensors[i]);
    if (!operands[i]) continue;
    if (columns_[i] == 0) return {};
    copied.fixed += static_cast<double>(bytes_of_copy(call.tensors[i]));
    ++copied.copies;
  }
  if (copied.copies == 0 || copied.fixed > static_cast<double>(kMostBytes)) return {};
  const BoundTensor& a = call.tensors[0];
  const double flop =
      2 * static_cast<double>(a.dims[0]) * static_cast<double>(a.dims[1]) * columns_of_c_;
  // copied.fixed and flop are those of the whole call, so the number of rows is 1.
  return kernels::gain_of_copies(flop, copied).pays(1) ? operands : Operands{};
}

bool OperandCopies::can_run(const Operands& operands, runtime::Stream stream) const {
  if (!context_->device().capturing(stream)) return true;
  const std::lock_guard lock(compiling_);
  for (size_t i = 0; i < kOperands; ++i)
    if (operands[i] && !steps_[i]) return false;
  return true;
}

size_t OperandCopies::bytes(const Call& call, const Operands& operands) {
  size_t bytes = 0;
  for (size_t i = 0; i < kOperands; ++i)
    if (operands[i]) bytes += bytes_of_copy(call.tensors[i]);
  return bytes;
}

const KernelStep& OperandCopies::step(size_t operand) const {
  const std::lock_guard lock(compiling_);
  std::unique_ptr<KernelStep>& step = steps_[operand];
  if (step) return *step;
  const auto which = static_cast<kernels::Operand>(operand);
  kernels::Operation operation;
  add_aligned_copy(operation, context_->machine(), which, type_, Size::rows(), columns_[operand]);
  step = std::make_unique<KernelStep>(
      *context_, operation.steps[0],
      StepNames{.views = {{name_of(which, true), 0}, {name_of(which, false), 1}}});
  return *step;
}

void OperandCopies::run(const Operands& operands, std::byte* memory, Call* call) const {
  for (size_t i = 0; i < kOperands; ++i) {
    if (!operands[i]) continue;
    BoundTensor& matrix = call->tensors[i];
    const BoundTensor views[] = {copy_at(memory, matrix), matrix};
    step(i).run(views, nullptr, matrix.dims[0], call->stream);
    memory += bytes_of_copy(matrix);
    matrix = views[0];
  }
}

}  // namespace ligerdsl::lib

// The tensors of one call: checked against the table, leading dimensions joined, sizes collected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/core/count.h"
#include "lib/src/op_info.h"
#include "program/overlap.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::lib {

// Of a tensor, and of what it reaches in memory: so many bytes, and sums of a few such numbers, have 63 bits.
inline constexpr int64_t kMaxElements = int64_t{1} << 56;

struct BoundTensor {
  std::byte* data;
  int64_t dims[kMaxRank];
  int64_t strides[kMaxRank];  // elements; 0 along dimensions of size 1
  int rank;
  DType dtype;
  bool present;
};

inline program::Strided memory_of(const BoundTensor& tensor) {
  return {tensor.data, tensor.dtype, tensor.rank, tensor.dims, tensor.strides};
}

// One call of execute. Lives on the caller's stack and holds no memory of its own.
struct Call {
  BoundTensor tensors[kMaxTensors];
  int64_t sizes[kMaxSymbols];  // by symbol; -1 = no tensor has it
  int64_t rows;                // what the operation counts; Plan sets it
  const void* args;            // the args struct, complete
  std::byte* workspace;
  size_t workspace_bytes;
  runtime::Stream stream;
};

// What the checks of an operation's tensors need from its description; made once per plan.
struct BindRules {
  const OpInfo* info;
  ligerdsl_device_t device;
  int64_t sizes[kMaxSymbols];  // known from the description, else -1
  DType dtypes[kMaxTensors];
  bool given[kMaxTensors];
  bool read[kMaxValues];  // numbers among the arguments that this description makes use of
  bool in_place;
};

BindRules make_bind_rules(const OpInfo& info, const void* desc, ligerdsl_device_t device);

// Throws INVALID_SHAPE when the description alone gives a tensor too many elements: no call could bring it, and other
// sizes could not be computed.
void check_described_sizes(const BindRules& rules);

// Elements of the tensor for each row that a call brings, 0 where none is.
kernels::Count elements_per_row(const BindRules& rules, int tensor);

// Checks the numbers among the arguments. Throws INVALID_ARGUMENT.
void check_values(const BindRules& rules, const void* args);

// Does that, then fills call.tensors and call.sizes from call.args. Throws
// INVALID_NULL_POINTER, INVALID_DEVICE, INVALID_DTYPE, INVALID_SHAPE, INVALID_ARGUMENT or INVALID_ALIAS with the
// argument, what was expected and what came. Takes no memory unless it throws.
void bind_tensors(const BindRules& rules, Call* call);

// Throws INVALID_SHAPE: what `tensor` should be by the sizes that are known (-1: not), what `t` is and `why`.
[[noreturn]] void fail_shape(const OpInfo& info, const TensorInfo& tensor, const int64_t* sizes,
                             const ligerdsl_tensor_t& t, const std::string& why = "");

// Throws unless the sizes of a caller's tensor can be read at all: INVALID_SHAPE or INVALID_NULL_POINTER.
void require_shape(const char* name, const ligerdsl_tensor_t& tensor);

// One tensor whose shape the caller checks: any rank up to kMaxRank, non-negative sizes and strides, dtype and device;
// a last dimension of stride 1 unless any_strides.
void bind_free_tensor(const char* name, const ligerdsl_tensor_t& tensor, DType dtype, ligerdsl_device_t device,
                      BoundTensor* out, bool any_strides = false);

}  // namespace ligerdsl::lib

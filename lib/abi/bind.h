// Binds the tensors of one call: checks them against the table, joins leading dimensions and
// collects sizes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/core/count.h"
#include "lib/abi/op_info.h"
#include "program/overlap.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::lib {

// Returns an iterator to the pair whose first member is `name`, or list.end().
template <class List>
auto find_name(const List& list, const std::string& name) {
  return std::find_if(list.begin(), list.end(),
                      [&](const auto& entry) { return entry.first == name; });
}

// Maximum number of elements of a tensor, and of the memory that its strides span. Byte counts of a
// few such tensors fit in 63 bits.
inline constexpr int64_t kMaxElements = int64_t{1} << 56;

struct BoundTensor {
  std::byte* data;
  int64_t dims[kMaxRank];
  int64_t strides[kMaxRank];  // in elements; 0 along dimensions of size 1
  int rank;
  DType dtype;
  bool present;
};

inline program::Strided memory_of(const BoundTensor& tensor) {
  return {tensor.data, tensor.dtype, tensor.rank, tensor.dims, tensor.strides};
}

// One call of execute. Owns no memory.
struct Call {
  BoundTensor tensors[kMaxTensors];
  int64_t sizes[kMaxSymbols];  // indexed by the table's symbol; -1: no tensor has this size
  int64_t rows;                // number of rows, as the operation counts them; set by Plan
  const void* args;            // args struct of this release's size
  std::byte* workspace;
  size_t workspace_bytes;
  runtime::Stream stream;
};

// Rules that a description sets for the tensors of its calls. Made once per plan.
struct BindRules {
  const OpInfo* info;
  ligerdsl_device_t device;
  int64_t sizes[kMaxSymbols];  // size that the description gives, or -1
  DType dtypes[kMaxTensors];
  bool given[kMaxTensors];
  bool read[kMaxValues];  // numeric arguments that this description uses
  bool in_place;
};

BindRules make_bind_rules(const OpInfo& info, const void* desc, ligerdsl_device_t device);

// Throws INVALID_SHAPE if the description's sizes alone give a tensor more than kMaxElements
// elements. Every call would fail, and byte counts computed from such sizes could overflow.
void check_described_sizes(const BindRules& rules);

// Returns the number of elements of the tensor per row of a call, or 0 if its size does not depend
// on rows.
kernels::Count elements_per_row(const BindRules& rules, int tensor);

// Checks the numeric arguments. Throws INVALID_ARGUMENT.
void check_values(const BindRules& rules, const void* args);

// Checks the numeric arguments, then fills call.tensors and call.sizes from call.args. Throws
// INVALID_NULL_POINTER, INVALID_DEVICE, INVALID_DTYPE, INVALID_SHAPE, INVALID_MISALIGNED,
// INVALID_ARGUMENT or INVALID_ALIAS; the text has the argument, the expected and the actual value.
// Allocates only if it throws.
void bind_tensors(const BindRules& rules, Call* call);

// Returns an address in hexadecimal, for errors.
std::string address_text(const void* address);

// Throws INVALID_SHAPE with the expected shape of `tensor`, the shape of `t`, and `why`. The
// expected shape uses the known `sizes` (-1: unknown).
[[noreturn]] void fail_shape(const OpInfo& info, const TensorInfo& tensor, const int64_t* sizes,
                             const ligerdsl_tensor_t& t, const std::string& why = "");

// Throws INVALID_SHAPE for an invalid rank, or INVALID_NULL_POINTER for a missing shape, of a
// caller's tensor.
void require_shape(const char* name, const ligerdsl_tensor_t& tensor);

// Binds one tensor whose shape the caller checks. Checks dtype, device, address, a rank of at most
// kMaxRank, and sizes and strides of at least 0. Unless any_strides, also checks that the last
// stride is 1.
void bind_free_tensor(const char* name, const ligerdsl_tensor_t& tensor, DType dtype,
                      ligerdsl_device_t device, BoundTensor* out, bool any_strides = false);

}  // namespace ligerdsl::lib

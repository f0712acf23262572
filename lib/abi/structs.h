// Reads the C ABI's versioned structs, and fills and checks the descriptions of operations.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lib/abi/op_info.h"

namespace ligerdsl::lib {

// Copies a caller's struct over `defaults` into `out` (size bytes). Accepts structs of at least
// `first_size` bytes. Bytes that this release does not know must be zero. Throws ABI_MISMATCH or
// INVALID_NULL_POINTER, with `what` as the struct's name.
void read_struct(const char* what, const void* given, size_t size, size_t first_size,
                 const void* defaults, void* out);

// Returns true if `given` is a struct of this release, of `size` bytes, so that its pointers may be
// followed.
bool is_of_this_release(const void* given, size_t size);
inline constexpr size_t kHeaderBytes = 16;

// Fills zero shape, dtype, presence and in_place fields from the tensors in the arguments. Throws
// INVALID_NULL_POINTER if a required tensor is missing, or INVALID_SHAPE.
void fill_from_args(const OpInfo& info, const void* args, void* desc);

// Checks every field against its row of the table. Throws INVALID_ARGUMENT, INVALID_DTYPE or
// INVALID_SHAPE.
void check_desc(const OpInfo& info, const void* desc);

// Checks a numeric argument against its row of the table. Throws INVALID_ARGUMENT.
void check_value(const ValueInfo& value, const void* args);

// Returns the operation's list of tensors, empty if it has none. Throws INVALID_ARGUMENT or
// INVALID_NULL_POINTER.
std::span<const ligerdsl_tensor_t> list_of(const OpInfo& info, const void* args);

// Writes all fields without padding, at most kMaxStruct bytes, and returns the number of bytes. The
// one-call form looks plans up by these bytes.
size_t desc_key(const OpInfo& info, const void* desc, char* out);

// Converts a dtype code of ligerdsl.h; returns false for an unknown code.
bool dtype_from_code(int64_t code, DType* type);
int64_t code_of(ligerdsl_dtype_t dtype);
// Returns "bf16", or "dtype code 1, 16 bits, 1 lanes" for a dtype that the library does not know.
std::string dtype_name(int64_t code);

}  // namespace ligerdsl::lib

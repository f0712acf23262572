// Versioned structs of the C ABI, and the fields of descriptions.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lib/src/op_info.h"

namespace ligerdsl::lib {

// Copies a caller's struct over `defaults` into `out` (size bytes). Accepts structs from `first_size` bytes on; bytes
// that this release does not know must be zero. Throws ABI_MISMATCH or INVALID_NULL_POINTER, naming `what`.
void read_struct(const char* what, const void* given, size_t size, size_t first_size, const void* defaults, void* out);

// Whether it is a struct of so many bytes as this release makes them: then its pointers may be followed.
bool is_of_this_release(const void* given, size_t size);
inline constexpr size_t kHeaderBytes = 16;

// Fills zero shape, dtype, presence and in_place fields from the tensors that the arguments point to. Throws
// INVALID_NULL_POINTER when a tensor that is always needed is missing.
void fill_from_args(const OpInfo& info, const void* args, void* desc);

// Checks every field against its row of the table. Throws INVALID_ARGUMENT, INVALID_DTYPE or INVALID_SHAPE.
void check_desc(const OpInfo& info, const void* desc);

// Checks a number among the arguments against its row of the table. Throws INVALID_ARGUMENT.
void check_value(const ValueInfo& value, const void* args);

// The operation's list of tensors; empty where it has none. Throws INVALID_ARGUMENT or INVALID_NULL_POINTER.
std::span<const ligerdsl_tensor_t> list_of(const OpInfo& info, const void* args);

// All fields, byte for byte and without padding: what the one-call form looks plans up by. Writes at most kMaxStruct
// bytes.
size_t desc_key(const OpInfo& info, const void* desc, char* out);

// A dtype code of the header as the library's dtype; false for codes it does not know.
bool dtype_from_code(int64_t code, DType* type);
int64_t code_of(ligerdsl_dtype_t dtype);
// "bf16", or "dtype code 1, 16 bits, 1 lanes" for one that the library does not know.
std::string dtype_name(int64_t code);

}  // namespace ligerdsl::lib

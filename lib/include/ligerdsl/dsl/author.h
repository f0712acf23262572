// C interface of a shared object that contains an author's kernels. `ligerdsl --load FILE.so` calls
// it. No C++ object crosses this interface.
//
// Text formats:
//   * Meta settings are "name=value" pairs separated by commas; "" means all defaults.
//   * Field lists have one line per field, with columns separated by tabs: name, type, default,
//     accepted values (separated by commas, may be empty), and the name of a ligerdsl::Bits (may be
//     missing).
//
// The side that fills in a struct sets struct_size to its size. Later versions append fields, and 0
// in such a field means the old behaviour. A reader treats fields that the struct lacks as 0.
#ifndef LIGERDSL_DSL_AUTHOR_H_
#define LIGERDSL_DSL_AUTHOR_H_

#include <stddef.h>
#include <stdint.h>

#include "ligerdsl/target.h"

#define LIGERDSL_AUTHOR_VERSION 2u
#define LIGERDSL_AUTHOR_ENTRY "ligerdsl_author_entry"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ligerdsl_author_argument {
  size_t struct_size; /* equal in all elements of an array */
  const char* name;
  int32_t rank; /* number of dimensions of a view; 0: a scalar, or a pointer without a size */
  const int64_t* dims;
  const int64_t* strides;
  double number;      /* value of a scalar */
  int32_t is_integer; /* 1: `integer` is the scalar's exact value, and `number` may be rounded */
  int32_t is_pointer; /* 1: a pointer; with rank 1, dims[0] is the number of its elements */
  int64_t integer;
} ligerdsl_author_argument;

/* The fields of ligerdsl::Launch. */
typedef struct ligerdsl_author_launch {
  size_t struct_size; /* bytes of the caller's struct; `launch` writes no byte after it */
  int64_t grid[3];
  int32_t num_warps, num_ctas, num_stages, min_ctas_per_sm, max_registers, no_alias;
} ligerdsl_author_launch;

typedef struct ligerdsl_author_bytes {
  char* data; /* freed with free_bytes */
  size_t size;
} ligerdsl_author_bytes;

/* Functions that return int32_t return 0, or 1 with a message in *error. */
typedef struct ligerdsl_author_table {
  uint32_t version;     /* readers reject other versions */
  uint32_t struct_size; /* bytes of this table; functions after its end do not exist */
  size_t (*count)(void);
  int32_t (*describe)(size_t index, ligerdsl_author_bytes* name, ligerdsl_author_bytes* description,
                      ligerdsl_author_bytes* fields, ligerdsl_author_bytes* error);
  int32_t (*record)(size_t index, const char* settings, ligerdsl_author_bytes* program,
                    ligerdsl_author_bytes* error);
  int32_t (*launch)(size_t index, const char* settings, const ligerdsl_author_argument* arguments,
                    size_t n_arguments, ligerdsl_author_launch* launch,
                    ligerdsl_author_bytes* error);
  void (*free_bytes)(ligerdsl_author_bytes bytes);
  /* Like `record` and `launch`, for a given device: `target` points to `target_bytes` bytes. A
   * table without these functions has no kernel that depends on the device. A kernel that depends
   * on the device fails in `record` and `launch`. */
  int32_t (*record_for)(size_t index, const char* settings, const ligerdsl_target_t* target,
                        size_t target_bytes, ligerdsl_author_bytes* program,
                        ligerdsl_author_bytes* error);
  int32_t (*launch_for)(size_t index, const char* settings, const ligerdsl_target_t* target,
                        size_t target_bytes, const ligerdsl_author_argument* arguments,
                        size_t n_arguments, ligerdsl_author_launch* launch,
                        ligerdsl_author_bytes* error);
} ligerdsl_author_table;

typedef const ligerdsl_author_table* (*ligerdsl_author_entry_fn)(void);

#ifdef __cplusplus
}  // extern "C"

namespace ligerdsl {
class AnyKernel;
}
#include <memory>
#include <string>
#include <vector>

namespace ligerdsl {
// Returns the table with the kernels in this binary's registry.
const ligerdsl_author_table* author_table();
// Returns the kernels of another binary's table. Throws ligerdsl::Error if its version differs.
std::vector<std::unique_ptr<AnyKernel>> kernels_of(const ligerdsl_author_table* table);
}  // namespace ligerdsl

// Exports this shared object's registry.
#define LIGERDSL_EXPORT_KERNELS()                                                \
  extern "C" __attribute__((visibility("default"))) const ligerdsl_author_table* \
  ligerdsl_author_entry(void) {                                                  \
    return ::ligerdsl::author_table();                                           \
  }                                                                              \
  static_assert(true, "a semicolon follows")
#endif /* __cplusplus */

#endif /* LIGERDSL_DSL_AUTHOR_H_ */

// The C functions of a shared object with an author's kernels: what `ligerdsl --load FILE.so` calls. No C++ object
// crosses this boundary.
//
// Text formats: meta settings are "name=value" pairs separated by commas ("" = all defaults). Field lists have one line
// per field: name, type, default, the accepted values (comma separated, may be empty) and what another choice changes in
// the results (ligerdsl::Bits; may be missing), separated by tabs.
//
// Structs say how large they are in the eyes of who filled them in (struct_size). Later versions append fields of which
// 0 means what it was before; what one side does not know, the other takes to be 0.
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
  size_t struct_size; /* the same in all elements of an array */
  const char* name;
  int32_t rank; /* of a view; 0: a scalar */
  const int64_t* dims;
  const int64_t* strides;
  double number;      /* a scalar's value */
  int32_t is_integer; /* a scalar's value is `integer`, which `number` may round */
  int32_t is_pointer; /* a rank of 1: the elements behind it */
  int64_t integer;
} ligerdsl_author_argument;

/* All of ligerdsl::Launch. */
typedef struct ligerdsl_author_launch {
  size_t struct_size; /* the caller's; no more is written */
  int64_t grid[3];
  int32_t num_warps, num_ctas, num_stages, min_ctas_per_sm, max_registers, no_alias;
} ligerdsl_author_launch;

typedef struct ligerdsl_author_bytes {
  char* data; /* freed with free_bytes */
  size_t size;
} ligerdsl_author_bytes;

/* Functions that return int32_t give 0, or 1 with a message in *error. */
typedef struct ligerdsl_author_table {
  uint32_t version;     /* another one cannot be read at all */
  uint32_t struct_size; /* functions beyond it are not there */
  size_t (*count)(void);
  int32_t (*describe)(size_t index, ligerdsl_author_bytes* name, ligerdsl_author_bytes* description,
                      ligerdsl_author_bytes* fields, ligerdsl_author_bytes* error);
  int32_t (*record)(size_t index, const char* settings, ligerdsl_author_bytes* program, ligerdsl_author_bytes* error);
  int32_t (*launch)(size_t index, const char* settings, const ligerdsl_author_argument* arguments, size_t n_arguments,
                    ligerdsl_author_launch* launch, ligerdsl_author_bytes* error);
  void (*free_bytes)(ligerdsl_author_bytes bytes);
  /* record and launch for a device, of which the first `target_bytes` bytes are known. Where they are missing, no
   * kernel asks for it; where only the functions above are called, a kernel that asks for it fails. */
  int32_t (*record_for)(size_t index, const char* settings, const ligerdsl_target_t* target, size_t target_bytes,
                        ligerdsl_author_bytes* program, ligerdsl_author_bytes* error);
  int32_t (*launch_for)(size_t index, const char* settings, const ligerdsl_target_t* target, size_t target_bytes,
                        const ligerdsl_author_argument* arguments, size_t n_arguments, ligerdsl_author_launch* launch,
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
// The table over this binary's registry.
const ligerdsl_author_table* author_table();
// The kernels behind another binary's table; throws ligerdsl::Error on a table of another version.
std::vector<std::unique_ptr<AnyKernel>> kernels_of(const ligerdsl_author_table* table);
}  // namespace ligerdsl

// Exports the registry from a shared object.
#define LIGERDSL_EXPORT_KERNELS()                                                                              \
  extern "C" __attribute__((visibility("default"))) const ligerdsl_author_table* ligerdsl_author_entry(void) { \
    return ::ligerdsl::author_table();                                                                         \
  }                                                                                                            \
  static_assert(true, "a semicolon follows")
#endif /* __cplusplus */

#endif /* LIGERDSL_DSL_AUTHOR_H_ */

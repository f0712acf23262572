/* The part of DLPack 1.x that is used here: the C exchange API of an array type,
 * __dlpack_c_exchange_api__, and the two capsules of __dlpack__. A DLTensor has the layout of
 * ligerdsl_tensor_t. */
#ifndef LIGERDSL_DLPACK_EXCHANGE_H_
#define LIGERDSL_DLPACK_EXCHANGE_H_

#include <stdint.h>

#include "ligerdsl/ligerdsl.h"

enum { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3, DLPACK_CUDA_MANAGED = 13 };
#define DLPACK_READ_ONLY UINT64_C(1)

typedef struct {
  uint32_t major, minor;
} dlpack_version_t;

/* Contents of a capsule "dltensor". */
typedef struct {
  ligerdsl_tensor_t tensor;
  void* manager;
  void (*deleter)(void* self);
} dlpack_managed_t;

/* Contents of a capsule "dltensor_versioned". */
typedef struct {
  dlpack_version_t version;
  void* manager;
  void (*deleter)(void* self);
  uint64_t flags;
  ligerdsl_tensor_t tensor;
} dlpack_versioned_t;

typedef struct dlpack_api {
  dlpack_version_t version;
  struct dlpack_api* previous;
  int (*allocate)(ligerdsl_tensor_t* prototype, dlpack_versioned_t** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, dlpack_versioned_t** out);
  int (*object_from_managed)(dlpack_versioned_t* tensor, void** out);
  int (*tensor_from_object)(void* object,
                            ligerdsl_tensor_t* out); /* borrows the memory; may be NULL */
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
} dlpack_api_t;

#endif /* LIGERDSL_DLPACK_EXCHANGE_H_ */

/* The extension module ligerdsl._bind: operations of the C ABI on arrays of other libraries. It is built without them and
 * with Python's limited API, so one file serves every Python from 3.10 on and every version of PyTorch. */
#ifndef LIGERDSL_BIND_H_
#define LIGERDSL_BIND_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dlpack_exchange.h"
#include "ligerdsl/ligerdsl.h"

/* ---- library.c: the functions of libligerdsl.so, found at run time ------------------------------------------------- */

#define BIND_FUNCTIONS(X)                                                                                  \
  X(ligerdsl_status_name)                                                                                  \
  X(ligerdsl_last_error)                                                                                   \
  X(ligerdsl_version)                                                                                      \
  X(ligerdsl_build_info)                                                                                   \
  X(ligerdsl_context_create) X(ligerdsl_context_poll) X(ligerdsl_context_check) X(ligerdsl_context_target) \
      X(ligerdsl_context_calls) X(ligerdsl_buffer_alloc) X(ligerdsl_buffer_free) X(ligerdsl_buffer_fill)   \
          X(ligerdsl_kernel_create) X(ligerdsl_kernel_launch) X(ligerdsl_kernel_parameters) X(ligerdsl_kernel_destroy)
typedef struct {
#define BIND_POINTER(name) __typeof__(&name) name;
  BIND_FUNCTIONS(BIND_POINTER)
#undef BIND_POINTER
} Library;
extern Library library;

/* load(path): opens the library, once. */
PyObject* bind_load(PyObject* self, PyObject* path);
/* Sets a RuntimeError and returns 0 where no library is loaded. */
int bind_loaded(void);
/* set_error(callable): callable(status, name, text) makes the exception of a status. */
PyObject* bind_set_error(PyObject* self, PyObject* make);
/* Raises the exception of a status, with the text of this thread's latest failing call. Returns NULL. */
PyObject* bind_raise(ligerdsl_status_t status);
/* The same with a text of this module's own, which is formatted as PyErr_Format does. */
PyObject* bind_raise_text(ligerdsl_status_t status, const char* format, ...);

/* ---- describe.c: arrays as tensors of the C ABI -------------------------------------------------------------------- */

enum { BIND_MAX_RANK = 16 };
typedef struct {
  ligerdsl_tensor_t tensor;
  PyObject* owner;              /* keeps `tensor` alive beside the array, or NULL */
  const dlpack_api_t* exchange; /* of the array's type, or NULL */
  int from_torch;
  int read_only;
  int64_t sizes[BIND_MAX_RANK]; /* what `tensor` points to when the array has no exchange API */
  int64_t strides[BIND_MAX_RANK];
} Described;
/* `where` and `name` are for errors: "rms_norm_forward", "x". Returns 0 with an exception set. `array` must outlive it. */
int bind_describe(PyObject* array, const char* where, const char* name, Described* out);
/* The same of a tensor that torch has just made for this module, which is not asked about signs: it has none. */
int bind_describe_new(PyObject* tensor, const char* where, const char* name, Described* out);
void bind_release(Described* described);
/* The stream that is current for the array's library. Returns 0 with an exception set. */
int bind_stream(const Described* described, ligerdsl_stream_t* stream);
/* set_torch(Tensor, Parameter, number of dispatch modes, raw stream of a device, explanation): when ligerdsl.torch is
 * imported. The last takes a tensor that cannot be described, and says why, or gives None. */
PyObject* bind_set_torch(PyObject* self, PyObject* const* args, Py_ssize_t n);
/* plain(*tensors): True where every argument is None or a torch.Tensor that nothing is wrapped around, and no dispatch
 * mode is active: memory that may be read behind torch's back. */
PyObject* bind_plain(PyObject* self, PyObject* const* args, Py_ssize_t n);
int bind_are_plain(PyObject* const* tensors, Py_ssize_t n); /* the same; -1 with an exception set */

/* ---- context.c: one context for each device, made when it is first used -------------------------------------------- */

ligerdsl_context_t bind_context(ligerdsl_device_t device); /* NULL with an exception set */
/* Raises what a failing call left: an allocator's own exception, else that of the status. */
PyObject* bind_raise_call(ligerdsl_status_t status);
/* set_workspace(callable): callable(device index) gives a function, and that (bytes) an array of GPU memory for one call. */
PyObject* bind_set_workspace(PyObject* self, PyObject* source);
/* set_raw_workspace(allocate, give back, current device): allocate(bytes, stream) gives an address on the current device. */
PyObject* bind_set_raw_workspace(PyObject* self, PyObject* const* args, Py_ssize_t n);
enum { BIND_LABELS_OFF = 0, BIND_LABELS_LAZY = 1, BIND_LABELS_SYNC = 2 };
extern int bind_check_labels;
PyObject* bind_set_check_labels(PyObject* self, PyObject* mode); /* returns the mode before */
/* Reports labels out of range, as far as they are known. Returns 0 with an exception set. */
int bind_poll(ligerdsl_context_t context);
/* poll(): of every context. check(array): waits for the array's stream first. */
PyObject* bind_poll_all(PyObject* self, PyObject* unused);
PyObject* bind_check(PyObject* self, PyObject* array);
PyObject* bind_calls(PyObject* self, PyObject* operation); /* calls(operation): on all contexts together */
PyObject* bind_devices(PyObject* self, PyObject* unused);  /* devices(): (type, id) of the contexts that exist */
PyObject* bind_open_device(PyObject* self, PyObject* const* args, Py_ssize_t n); /* open_device(type, id) */

/* ---- call.c: operations ---------------------------------------------------------------------------------------------- */

typedef enum { BIND_INT32, BIND_INT64, BIND_FLOAT } NumberType;
typedef enum { BIND_IN, BIND_OUT, BIND_INOUT, BIND_LIST } ArgumentKind; /* a list's length follows its pointer */
typedef struct {
  const char* name;
  size_t offset; /* in args */
  ArgumentKind kind;
} TensorArgument;
typedef struct {
  const char* name;
  int in_desc; /* else in args */
  size_t offset;
  NumberType type;
} NumberArgument;
typedef ligerdsl_status_t (*OperationFunction)(ligerdsl_context_t, const void* desc, const void* args,
                                               ligerdsl_stream_t);
typedef struct {
  const char *name, *symbol;
  const void *desc, *args; /* initialised structs */
  size_t desc_size, args_size;
  const TensorArgument* tensors;
  int n_tensors;
  const NumberArgument* numbers;
  int n_numbers;
  int has_labels; /* labels or indices that may be out of range */
} Operation;
extern const Operation bind_operations[]; /* generated */
extern const int bind_n_operations;
extern OperationFunction bind_functions[];   /* of the loaded library, by operation */
extern PyMethodDef bind_operation_methods[]; /* generated: one method for each operation */

/* operation(*tensors, *numbers): None stands for a tensor that is not passed. Returns None. */
PyObject* bind_call(int operation, PyObject* const* args, Py_ssize_t n);
/* What is known of an argument beside the object. */
typedef struct {
  uint8_t is_new; /* torch has just made it for this call */
  uint8_t part;   /* 0: all of it; else the argument is array[part - 1] */
} ArgumentHint;
/* The same; `hints` has one for each tensor. */
PyObject* bind_call_with(int operation, PyObject* const* args, Py_ssize_t n, const ArgumentHint* hints);

/* ---- direct.c: Functions of autograd without a frame of Python --------------------------------------------------------- */

/* set_autograd(is_grad_enabled, empty_like, increment_version, float32, count): when ligerdsl.torch is imported.
 * count(operation, "gradient", tensor) counts a gradient that is copied to be contiguous. */
PyObject* bind_set_autograd(PyObject* self, PyObject* const* args, Py_ssize_t n);
/* set_main_grad(bool): gradients are added to parameters' main_grad, which the Functions' own backward does. */
PyObject* bind_set_main_grad(PyObject* self, PyObject* on);
/* direct_forward(forward, ...): a function that takes the place of a Function's forward, which it calls for what it does
 * not take; ligerdsl/torch/direct.py says what the rest is. direct_backward(that, class of the Function's nodes). */
PyObject* bind_direct_forward(PyObject* self, PyObject* args);
PyObject* bind_direct_backward(PyObject* self, PyObject* const* args, Py_ssize_t n);
/* DIRECT_*: the numbers that plans are made of. Returns 0 with an exception set. */
int bind_add_direct_constants(PyObject* module);

/* ---- kernel.c: kernels of their own, by programs as ligerdsl/dsl.h records them ------------------------------------ */

/* kernel_create(device type, device id, program, num_warps, num_ctas, num_stages, max_registers, no_alias,
 * min_ctas_per_sm): a capsule */
PyObject* bind_kernel_create(PyObject* self, PyObject* const* args, Py_ssize_t n);
PyObject* bind_kernel_parameters(PyObject* self, PyObject* kernel); /* tuples (name, kind, dtype, rank, written) */
/* kernel_launch(kernel, grid x, y, z, hidden, *arguments); hidden: the kernel counts programs itself. */
PyObject* bind_kernel_launch(PyObject* self, PyObject* const* args, Py_ssize_t n);
PyObject* bind_target(PyObject* self, PyObject* const* args, Py_ssize_t n); /* target(type, id): the struct's bytes */
PyObject* bind_look(PyObject* self, PyObject* array); /* look(array): (device type, id, dtype, shape, strides) */

#endif /* LIGERDSL_BIND_H_ */

/* The extension module ligerdsl._bind: operations of the C ABI on arrays of other libraries. It is
 * built without their headers and with Python's limited API, so one file works with every Python
 * from 3.10 on and every version of PyTorch. */
#ifndef LIGERDSL_BIND_H_
#define LIGERDSL_BIND_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dlpack_exchange.h"
#include "ligerdsl/ligerdsl.h"

/* ---- library.c: the functions of libligerdsl.so, found at run time --------------------------- */

#define BIND_FUNCTIONS(X)                                                         \
  X(ligerdsl_status_name)                                                         \
  X(ligerdsl_last_error)                                                          \
  X(ligerdsl_version)                                                             \
  X(ligerdsl_build_info)                                                          \
  X(ligerdsl_context_create)                                                      \
  X(ligerdsl_context_poll)                                                        \
  X(ligerdsl_context_check)                                                       \
  X(ligerdsl_context_target)                                                      \
  X(ligerdsl_context_calls) X(ligerdsl_buffer_alloc) X(ligerdsl_buffer_free)      \
      X(ligerdsl_buffer_fill) X(ligerdsl_kernel_create) X(ligerdsl_kernel_launch) \
          X(ligerdsl_kernel_parameters) X(ligerdsl_kernel_destroy)
typedef struct {
#define BIND_POINTER(name) __typeof__(&name) name;
  BIND_FUNCTIONS(BIND_POINTER)
#undef BIND_POINTER
} Library;
extern Library library;

/* load(path): opens the library. May be called once. */
PyObject* bind_load(PyObject* self, PyObject* path);
/* Returns 0 and sets a RuntimeError if no library is loaded. */
int bind_loaded(void);
/* set_error(callable): callable(status, name, text) creates the exception for a status. */
PyObject* bind_set_error(PyObject* self, PyObject* make);
/* Raises the exception for a status, with the text of this thread's last failed call. Returns
 * NULL. */
PyObject* bind_raise(ligerdsl_status_t status);
/* The same with this module's own text, formatted like PyErr_Format. */
PyObject* bind_raise_text(ligerdsl_status_t status, const char* format, ...);

/* ---- describe.c: arrays as tensors of the C ABI ---------------------------------------------- */

enum { BIND_MAX_RANK = 16 };
typedef struct {
  ligerdsl_tensor_t tensor;
  PyObject* owner;              /* keeps `tensor` alive in addition to the array, or NULL */
  const dlpack_api_t* exchange; /* exchange API of the array's type, or NULL */
  int from_torch;
  int read_only;
  int64_t sizes[BIND_MAX_RANK]; /* `tensor` points here if the array has no exchange API */
  int64_t strides[BIND_MAX_RANK];
} Described;
/* Describes `array`, which must outlive `out`. Returns 0 with an exception set, whose
 * text contains `where` and `name`: "rms_norm_forward", "x". */
int bind_describe(PyObject* array, const char* where, const char* name, Described* out);
/* The same for a tensor that torch has just made for this module, without the check for lazy
 * negation. */
int bind_describe_new(PyObject* tensor, const char* where, const char* name, Described* out);
void bind_release(Described* described);
/* Finds the current stream of the array's library. Returns 0 with an exception set. */
int bind_stream(const Described* described, ligerdsl_stream_t* stream);
/* set_torch(Tensor, Parameter, number of dispatch modes, raw stream of a device, explanation):
 * called when ligerdsl.torch is imported. explanation(tensor) returns why a tensor cannot be
 * described, or None. */
PyObject* bind_set_torch(PyObject* self, PyObject* const* args, Py_ssize_t n);
/* plain(*tensors): True if every argument is None or a torch.Tensor without a wrapper or subclass,
 * and no dispatch mode is active. The memory of such tensors may be read without torch. */
PyObject* bind_plain(PyObject* self, PyObject* const* args, Py_ssize_t n);
int bind_are_plain(PyObject* const* tensors,
                   Py_ssize_t n); /* the same in C; -1 with an exception set */

/* ---- context.c: one context per device, created at its first use ----------------------------- */

ligerdsl_context_t bind_context(ligerdsl_device_t device); /* NULL with an exception set */
/* Raises the exception of a failed call: an allocator's own exception, else that of the status. */
PyObject* bind_raise_call(ligerdsl_status_t status);
/* set_workspace(callable): callable(device index) returns a function that takes a number of bytes
 * and returns an array of GPU memory for one call. */
PyObject* bind_set_workspace(PyObject* self, PyObject* source);
/* set_raw_workspace(allocate, free, current device): allocate(bytes, stream) returns an address on
 * the current device. */
PyObject* bind_set_raw_workspace(PyObject* self, PyObject* const* args, Py_ssize_t n);
enum { BIND_LABELS_OFF = 0, BIND_LABELS_LAZY = 1, BIND_LABELS_SYNC = 2 };
extern int bind_check_labels;
PyObject* bind_set_check_labels(PyObject* self, PyObject* mode); /* returns the previous mode */
/* Raises for labels out of range that kernels have reported so far. Returns 0 with an exception
 * set. */
int bind_poll(ligerdsl_context_t context);
/* poll(): polls every context. check(array): waits for the array's stream first. */
PyObject* bind_poll_all(PyObject* self, PyObject* unused);
PyObject* bind_check(PyObject* self, PyObject* array);
PyObject* bind_calls(PyObject* self,
                     PyObject* operation); /* calls(operation): number of calls in all contexts */
PyObject* bind_devices(PyObject* self,
                       PyObject* unused); /* devices(): (type, id) of the existing contexts */
PyObject* bind_open_device(PyObject* self, PyObject* const* args,
                           Py_ssize_t n); /* open_device(type, id) */

/* ---- call.c: operations ---------------------------------------------------------------------- */

typedef enum { BIND_INT32, BIND_INT64, BIND_FLOAT } NumberType;
typedef enum {
  BIND_IN,
  BIND_OUT,
  BIND_INOUT,
  BIND_LIST
} ArgumentKind; /* a list's length follows its pointer */
typedef struct {
  const char* name;
  size_t offset; /* offset in the args struct */
  ArgumentKind kind;
} TensorArgument;
typedef struct {
  const char* name;
  int in_desc; /* true: in the desc struct; false: in args */
  size_t offset;
  NumberType type;
} NumberArgument;
typedef ligerdsl_status_t (*OperationFunction)(ligerdsl_context_t, const void* desc,
                                               const void* args, ligerdsl_stream_t);
typedef struct {
  const char *name, *symbol;
  const void *desc, *args; /* initialised structs */
  size_t desc_size, args_size;
  const TensorArgument* tensors;
  int n_tensors;
  const NumberArgument* numbers;
  int n_numbers;
  int has_labels; /* has labels or indices that may be out of range */
} Operation;
extern const Operation bind_operations[]; /* generated */
extern const int bind_n_operations;
extern OperationFunction bind_functions[];   /* functions of the loaded library, by operation */
extern PyMethodDef bind_operation_methods[]; /* generated: one method for each operation */

/* operation(*tensors, *numbers): None stands for a tensor that is not given. Returns None. */
PyObject* bind_call(int operation, PyObject* const* args, Py_ssize_t n);
/* Additional information about an argument. */
typedef struct {
  uint8_t is_new; /* torch has just made the argument for this call */
  uint8_t part;   /* 0: the whole array; else the argument is array[part - 1] */
} ArgumentHint;
/* bind_call() with one hint per tensor. */
PyObject* bind_call_with(int operation, PyObject* const* args, Py_ssize_t n,
                         const ArgumentHint* hints);

/* ---- direct.c: autograd Functions without a Python frame ------------------------------------- */

/* set_autograd(is_grad_enabled, empty_like, increment_version, float32, count): called when
 * ligerdsl.torch is imported. count(operation, tensor) counts a contiguous copy of a gradient. */
PyObject* bind_set_autograd(PyObject* self, PyObject* const* args, Py_ssize_t n);
/* set_main_grad(bool): if true, gradients are added to main_grad, which only the Functions' own
 * backward does. */
PyObject* bind_set_main_grad(PyObject* self, PyObject* on);
/* direct_forward(forward, ...): returns a replacement for a Function's forward, which it calls for
 * input that it does not support; ligerdsl/torch/direct.py describes the other arguments.
 * direct_backward(replacement, class of the nodes). */
PyObject* bind_direct_forward(PyObject* self, PyObject* args);
PyObject* bind_direct_backward(PyObject* self, PyObject* const* args, Py_ssize_t n);
/* Adds the constants DIRECT_* for encoding plans. Returns 0 with an exception set. */
int bind_add_direct_constants(PyObject* module);

/* ---- kernel.c: authors' kernels, from programs that ligerdsl/dsl.h records ------------------- */

/* kernel_create(device type, device id, program, num_warps, num_ctas, num_stages, max_registers,
 * no_alias, min_ctas_per_sm): returns a capsule. */
PyObject* bind_kernel_create(PyObject* self, PyObject* const* args, Py_ssize_t n);
PyObject* bind_kernel_parameters(PyObject* self,
                                 PyObject* kernel); /* tuples (name, kind, dtype, rank, written) */
/* kernel_launch(kernel, grid x, y, z, *arguments): launches the kernel. */
PyObject* bind_kernel_launch(PyObject* self, PyObject* const* args, Py_ssize_t n);
PyObject* bind_target(PyObject* self, PyObject* const* args,
                      Py_ssize_t n); /* target(type, id): the struct as bytes */
PyObject* bind_look(PyObject* self,
                    PyObject* array); /* look(array): (device type, id, dtype, shape, strides) */

#endif /* LIGERDSL_BIND_H_ */

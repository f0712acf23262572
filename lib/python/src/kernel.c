#include <string.h>

#include "bind.h"

#define KERNEL_CAPSULE "ligerdsl.kernel"
enum { MAX_PARAMETERS = 64 };

typedef struct {
  ligerdsl_kernel_t handle;
  ligerdsl_device_t device;
  size_t count;
  ligerdsl_kernel_parameter_t parameters[MAX_PARAMETERS];
} Kernel;

static void destroy(PyObject* capsule) {
  Kernel* kernel = PyCapsule_GetPointer(capsule, KERNEL_CAPSULE);
  library.ligerdsl_kernel_destroy(kernel->handle);
  PyMem_Free(kernel);
}

static Kernel* kernel_of(PyObject* capsule) {
  return PyCapsule_GetPointer(capsule, KERNEL_CAPSULE);
}

static int read_int(PyObject* object, int32_t* out) {
  const long value = PyLong_AsLong(object);
  if (value == -1 && PyErr_Occurred()) return 0;
  if (value < INT32_MIN || value > INT32_MAX) {
    PyErr_SetString(PyExc_OverflowError, "expected an integer of 32 bits");
    return 0;
  }
  *out = (int32_t)value;
  return 1;
}

static PyObject* created(Kernel* kernel) {
  kernel->count = MAX_PARAMETERS;
  const ligerdsl_status_t status = library.ligerdsl_kernel_parameters(
      kernel->handle, kernel->parameters, sizeof kernel->parameters[0], &kernel->count);
  if (status != LIGERDSL_SUCCESS) return bind_raise(status);
  if (kernel->count > MAX_PARAMETERS) {
    PyErr_Format(PyExc_ValueError, "expected a kernel with at most %d arguments, got %zd",
                 MAX_PARAMETERS, (Py_ssize_t)kernel->count);
    return NULL;
  }
  return PyCapsule_New(kernel, KERNEL_CAPSULE, destroy);
}

PyObject* bind_kernel_create(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  (void)self;
  ligerdsl_device_t device;
  ligerdsl_kernel_options_t options = LIGERDSL_KERNEL_OPTIONS_INIT;
  char* program;
  Py_ssize_t size;
  if (n != 9) {
    PyErr_SetString(PyExc_TypeError, "kernel_create: expected 9 arguments");
    return NULL;
  }
  if (!read_int(args[0], &device.type) || !read_int(args[1], &device.id) ||
      PyBytes_AsStringAndSize(args[2], &program, &size) != 0 ||
      !read_int(args[3], &options.num_warps) || !read_int(args[4], &options.num_ctas) ||
      !read_int(args[5], &options.num_stages) || !read_int(args[6], &options.max_registers) ||
      !read_int(args[7], &options.no_alias) || !read_int(args[8], &options.min_ctas_per_sm))
    return NULL;
  const ligerdsl_context_t context = bind_context(device);
  if (!context) return NULL;
  Kernel* kernel = PyMem_Malloc(sizeof *kernel);
  if (!kernel) return PyErr_NoMemory();
  kernel->handle = NULL;
  kernel->device = device;
  ligerdsl_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status =
      library.ligerdsl_kernel_create(context, program, (size_t)size, &options, &kernel->handle);
  Py_END_ALLOW_THREADS;
  PyObject* capsule = status == LIGERDSL_SUCCESS ? created(kernel) : bind_raise(status);
  if (capsule) return capsule;
  library.ligerdsl_kernel_destroy(kernel->handle);
  PyMem_Free(kernel);
  return NULL;
}

PyObject* bind_kernel_parameters(PyObject* self, PyObject* capsule) {
  (void)self;
  const Kernel* kernel = kernel_of(capsule);
  PyObject* list = kernel ? PyTuple_New((Py_ssize_t)kernel->count) : NULL;
  for (size_t i = 0; list && i < kernel->count; ++i) {
    const ligerdsl_kernel_parameter_t* p = &kernel->parameters[i];
    PyObject* row =
        Py_BuildValue("siiii", p->name, (int)p->kind, (int)p->dtype, (int)p->rank, (int)p->written);
    if (!row)
      Py_CLEAR(list);
    else
      PyTuple_SetItem(list, (Py_ssize_t)i, row);
  }
  return list;
}

static int read_argument(const ligerdsl_kernel_parameter_t* parameter, PyObject* given,
                         ligerdsl_kernel_arg_t* out, Described* described, int* is_array) {
  memset(out, 0, sizeof *out);
  out->kind = parameter->kind;
  *is_array = parameter->kind == LIGERDSL_ARG_TENSOR || parameter->kind == LIGERDSL_ARG_POINTER;
  if (*is_array) {
    if (!bind_describe(given, "kernel", parameter->name, described)) return 0;
    if (parameter->written && described->read_only) {
      PyErr_Format(PyExc_ValueError, "`%s`: the array is read-only, but the kernel writes to it",
                   parameter->name);
      bind_release(described);
      return 0;
    }
    out->tensor = &described->tensor;
    out->pointer = (char*)described->tensor.data + described->tensor.byte_offset;
    return 1;
  }
  if (parameter->kind == LIGERDSL_ARG_INTEGER)
    out->integer = PyLong_AsLongLong(given);
  else
    out->number = PyFloat_AsDouble(given);
  return !PyErr_Occurred();
}

static PyObject* launch(const Kernel* kernel, const ligerdsl_kernel_arg_t* arguments,
                        const int32_t* grid, const Described* first) {
  ligerdsl_stream_t stream = NULL;
  if (first && !bind_stream(first, &stream)) return NULL;
  ligerdsl_status_t status;
  if (kernel->device.type == LIGERDSL_CUDA) {
    status = library.ligerdsl_kernel_launch(kernel->handle, arguments, kernel->count, grid, stream);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    status = library.ligerdsl_kernel_launch(kernel->handle, arguments, kernel->count, grid, stream);
    Py_END_ALLOW_THREADS;
  }
  if (status != LIGERDSL_SUCCESS) return bind_raise(status);
  Py_RETURN_NONE;
}

PyObject* bind_kernel_launch(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  (void)self;
  const Kernel* kernel = n >= 4 ? kernel_of(args[0]) : NULL;
  int32_t grid[3];
  if (n < 4)
    PyErr_SetString(PyExc_TypeError, "kernel_launch: expected a kernel, a grid and the arguments");
  if (!kernel) return NULL;
  for (int i = 0; i < 3; ++i) {
    if (!read_int(args[1 + i], &grid[i])) return NULL;
  }
  if ((size_t)n - 4 != kernel->count) {
    PyErr_Format(PyExc_TypeError, "kernel_launch: expected %zd arguments, got %zd",
                 (Py_ssize_t)kernel->count, n - 4);
    return NULL;
  }
  ligerdsl_kernel_arg_t arguments[MAX_PARAMETERS];
  Described described[MAX_PARAMETERS];
  const Described* first = NULL;
  int n_described = 0, ok = 1;
  for (size_t i = 0; ok && i < kernel->count; ++i) {
    int is_array;
    Described* place = &described[n_described];
    ok = read_argument(&kernel->parameters[i], args[4 + i], &arguments[i], place, &is_array);
    if (ok && is_array) ++n_described;
    if (ok && is_array && !first) first = place;
  }
  PyObject* result = ok ? launch(kernel, arguments, grid, first) : NULL;
  for (int i = 0; i < n_described; ++i) bind_release(&described[i]);
  return result;
}

PyObject* bind_target(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  (void)self;
  ligerdsl_device_t device;
  if (n != 2) {
    PyErr_SetString(PyExc_TypeError, "target: expected a type and a number");
    return NULL;
  }
  if (!read_int(args[0], &device.type) || !read_int(args[1], &device.id)) return NULL;
  const ligerdsl_context_t context = bind_context(device);
  ligerdsl_target_t target;
  if (!context) return NULL;
  const ligerdsl_status_t status = library.ligerdsl_context_target(context, &target, sizeof target);
  if (status != LIGERDSL_SUCCESS) return bind_raise(status);
  return PyBytes_FromStringAndSize((const char*)&target, sizeof target);
}

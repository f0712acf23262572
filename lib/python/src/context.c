#include <stdlib.h>

#include "bind.h"

enum { MAX_DEVICES = 64 };
static ligerdsl_context_t
    contexts[3][MAX_DEVICES];           /* index: LIGERDSL_CPU or LIGERDSL_CUDA, device number */
static int32_t device_ids[MAX_DEVICES]; /* `user` argument of the callbacks */
int bind_check_labels = BIND_LABELS_LAZY;

/* ---- Workspace. A call uses at most one block; on a GPU it is held until the launch. */

static PyObject* workspace_source;
static PyObject* workspace_of[MAX_DEVICES]; /* function that the source returned for a GPU */
static PyObject *raw_alloc, *raw_delete, *raw_device; /* or NULL */
static __thread PyObject* held;                       /* the array, or the address from raw_alloc */
static __thread int held_is_raw;
static __thread PyObject *pending_type, *pending_value,
    *pending_traceback; /* an allocator's exception */

static void* host_alloc(void* user, size_t bytes, size_t align, ligerdsl_stream_t stream) {
  (void)user, (void)stream;
  void* memory = NULL;
  return posix_memalign(&memory, align, bytes) == 0 ? memory : NULL;
}

static void host_free(void* user, void* pointer, ligerdsl_stream_t stream) {
  (void)user, (void)stream;
  free(pointer);
}

static void* aligned(uintptr_t start, size_t align) {
  return (void*)((start + align - 1) / align * align);
}

/* Allocates memory without creating an array. NULL without an exception: `device` is not the
 * current one, whose memory raw_alloc returns. */
static void* raw_alloc_locked(int32_t device, size_t bytes, size_t align,
                              ligerdsl_stream_t stream) {
  PyObject* current = PyObject_CallNoArgs(raw_device);
  const long id = current ? PyLong_AsLong(current) : -1;
  Py_XDECREF(current);
  if (id != device) return NULL;
  PyObject *size = PyLong_FromSize_t(bytes + align), *handle = PyLong_FromVoidPtr(stream);
  PyObject* address =
      size && handle ? PyObject_CallFunctionObjArgs(raw_alloc, size, handle, NULL) : NULL;
  Py_XDECREF(handle);
  Py_XDECREF(size);
  void* start = address ? PyLong_AsVoidPtr(address) : NULL;
  if (!start) {
    Py_XDECREF(address);
    return NULL;
  }
  held = address;
  held_is_raw = 1;
  return aligned((uintptr_t)start, align);
}

static void* gpu_alloc_locked(int32_t device, size_t bytes, size_t align,
                              ligerdsl_stream_t stream) {
  if (raw_alloc) {
    void* memory = raw_alloc_locked(device, bytes, align, stream);
    if (memory || PyErr_Occurred()) return memory;
  }
  if (!workspace_source) {
    PyErr_SetString(PyExc_RuntimeError, "workspace on a GPU: import ligerdsl.torch first");
    return NULL;
  }
  if (!workspace_of[device])
    workspace_of[device] = PyObject_CallFunction(workspace_source, "i", (int)device);
  PyObject* size = workspace_of[device] ? PyLong_FromSize_t(bytes + align) : NULL;
  PyObject* array = size ? PyObject_CallFunctionObjArgs(workspace_of[device], size, NULL) : NULL;
  Py_XDECREF(size);
  Described described;
  if (!array || !bind_describe(array, "workspace", "memory", &described)) {
    Py_XDECREF(array);
    return NULL;
  }
  const uintptr_t start = (uintptr_t)described.tensor.data + described.tensor.byte_offset;
  bind_release(&described);
  held = array;
  held_is_raw = 0;
  return aligned(start, align);
}

static void* gpu_alloc(void* user, size_t bytes, size_t align, ligerdsl_stream_t stream) {
  const PyGILState_STATE state = PyGILState_Ensure();
  void* memory = gpu_alloc_locked(*(const int32_t*)user, bytes, align, stream);
  if (!memory) PyErr_Fetch(&pending_type, &pending_value, &pending_traceback);
  PyGILState_Release(state);
  return memory;
}

static void gpu_free(void* user, void* pointer, ligerdsl_stream_t stream) {
  (void)user, (void)pointer, (void)stream;
  const PyGILState_STATE state = PyGILState_Ensure();
  if (held && held_is_raw) {
    PyObject* nothing = PyObject_CallFunctionObjArgs(raw_delete, held, NULL);
    if (!nothing) PyErr_WriteUnraisable(raw_delete);
    Py_XDECREF(nothing);
  }
  Py_CLEAR(held);
  PyGILState_Release(state);
}

PyObject* bind_set_raw_workspace(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  (void)self;
  if (n != 3 || !PyCallable_Check(args[0]) || !PyCallable_Check(args[1]) ||
      !PyCallable_Check(args[2])) {
    PyErr_SetString(PyExc_TypeError, "set_raw_workspace: expected three functions");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < n; ++i)
    Py_INCREF(args[i]); /* never released: a call may still hold their memory */
  raw_alloc = args[0];
  raw_delete = args[1];
  raw_device = args[2];
  Py_RETURN_NONE;
}

PyObject* bind_set_workspace(PyObject* self, PyObject* source) {
  (void)self;
  if (!PyCallable_Check(source)) {
    PyErr_SetString(PyExc_TypeError, "set_workspace: expected a function");
    return NULL;
  }
  Py_INCREF(source);
  PyObject* before = workspace_source;
  workspace_source = source;
  Py_XDECREF(before);
  for (int id = 0; id < MAX_DEVICES; ++id) Py_CLEAR(workspace_of[id]);
  Py_RETURN_NONE;
}

PyObject* bind_raise_call(ligerdsl_status_t status) {
  if (!pending_type) return bind_raise(status);
  PyErr_Restore(pending_type, pending_value, pending_traceback);
  pending_type = pending_value = pending_traceback = NULL;
  return NULL;
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static ligerdsl_context_t create(ligerdsl_device_t device) {
  if (!bind_loaded()) return NULL;
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  const int gpu = device.type == LIGERDSL_CUDA;
  device_ids[device.id] = device.id;
  config.device = device;
  config.user = &device_ids[device.id];
  config.workspace_alloc = gpu ? gpu_alloc : host_alloc;
  config.workspace_free = gpu ? gpu_free : host_free;
  ligerdsl_context_t context = NULL;
  const ligerdsl_status_t status = library.ligerdsl_context_create(&config, &context);
  if (status != LIGERDSL_SUCCESS) {
    bind_raise(status);
    return NULL;
  }
  contexts[device.type][device.id] = context;
  return context;
}

ligerdsl_context_t bind_context(ligerdsl_device_t device) {
  if ((device.type != LIGERDSL_CPU && device.type != LIGERDSL_CUDA) || device.id < 0 ||
      device.id >= MAX_DEVICES) {
    PyErr_Format(PyExc_ValueError,
                 "expected an array on a CPU or a CUDA GPU, got one on DLPack's device (%i, %i)",
                 (int)device.type, (int)device.id);
    return NULL;
  }
  const ligerdsl_context_t context = contexts[device.type][device.id];
  return context ? context : create(device);
}

int bind_poll(ligerdsl_context_t context) {
  ligerdsl_fault_t fault;
  const ligerdsl_status_t status = library.ligerdsl_context_poll(context, &fault, sizeof fault);
  if (status == LIGERDSL_SUCCESS) return 1;
  bind_raise(status);
  return 0;
}

PyObject* bind_poll_all(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  for (int type = LIGERDSL_CPU; type <= LIGERDSL_CUDA; ++type) {
    for (int id = 0; id < MAX_DEVICES; ++id) {
      if (contexts[type][id] && !bind_poll(contexts[type][id])) return NULL;
    }
  }
  Py_RETURN_NONE;
}

PyObject* bind_check(PyObject* self, PyObject* array) {
  (void)self;
  Described described;
  if (!bind_describe(array, "check", "array", &described)) return NULL;
  const ligerdsl_context_t context = bind_context(described.tensor.device);
  ligerdsl_stream_t stream;
  ligerdsl_status_t status = LIGERDSL_SUCCESS;
  const int ready = context && bind_stream(&described, &stream);
  if (ready) {
    Py_BEGIN_ALLOW_THREADS;
    status = library.ligerdsl_context_check(context, stream);
    Py_END_ALLOW_THREADS;
  }
  bind_release(&described);
  if (!ready) return NULL;
  if (status != LIGERDSL_SUCCESS) return bind_raise(status);
  Py_RETURN_NONE;
}

PyObject* bind_set_check_labels(PyObject* self, PyObject* mode) {
  (void)self;
  const long value = PyLong_AsLong(mode);
  if (value == -1 && PyErr_Occurred()) return NULL;
  const int before = bind_check_labels;
  bind_check_labels = (int)value;
  return PyLong_FromLong(before);
}

PyObject* bind_calls(PyObject* self, PyObject* operation) {
  (void)self;
  const char* name = PyUnicode_AsUTF8AndSize(operation, NULL);
  if (!name || !bind_loaded()) return NULL;
  int64_t total = 0;
  for (int type = LIGERDSL_CPU; type <= LIGERDSL_CUDA; ++type) {
    for (int id = 0; id < MAX_DEVICES; ++id) {
      int64_t calls = 0;
      if (!contexts[type][id]) continue;
      const ligerdsl_status_t status =
          library.ligerdsl_context_calls(contexts[type][id], name, &calls);
      if (status != LIGERDSL_SUCCESS) return bind_raise(status);
      total += calls;
    }
  }
  return PyLong_FromLongLong(total);
}

PyObject* bind_devices(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  PyObject* list = PyList_New(0);
  for (int type = LIGERDSL_CPU; list && type <= LIGERDSL_CUDA; ++type) {
    for (int id = 0; id < MAX_DEVICES; ++id) {
      if (!contexts[type][id]) continue;
      PyObject* pair = Py_BuildValue("ii", type, id);
      const int failed = !pair || PyList_Append(list, pair) != 0;
      Py_XDECREF(pair);
      if (failed) {
        Py_DECREF(list);
        return NULL;
      }
    }
  }
  return list;
}

PyObject* bind_open_device(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  (void)self;
  if (n != 2) {
    PyErr_SetString(PyExc_TypeError, "open_device: expected a type and a number");
    return NULL;
  }
  const ligerdsl_device_t device = {(int32_t)PyLong_AsLong(args[0]),
                                    (int32_t)PyLong_AsLong(args[1])};
  if (PyErr_Occurred() || !bind_context(device)) return NULL;
  Py_RETURN_NONE;
}

#include <string.h>

#include "bind.h"

/* How arrays of a type are read. */
typedef enum { READ_EXCHANGE, READ_ATTRIBUTES, READ_PROTOCOL, READ_REFUSED } Reading;
typedef struct {
  PyTypeObject* type; /* an owned reference */
  Reading reading;
  const dlpack_api_t* exchange;
  int from_torch;
} KnownType;

enum { KNOWN_TYPES = 8 };
static KnownType known_types[KNOWN_TYPES];
static int next_known;

static PyTypeObject *torch_tensor, *torch_parameter;
static PyObject *torch_modes, *torch_raw_stream, *torch_explained;

PyObject* bind_set_torch(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  (void)self;
  if (n != 5 || !PyType_Check(args[0]) || !PyType_Check(args[1]) || !PyCallable_Check(args[2]) ||
      (args[3] != Py_None && !PyCallable_Check(args[3])) || !PyCallable_Check(args[4])) {
    PyErr_SetString(PyExc_TypeError, "set_torch: expected two types and three functions");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < n; ++i) Py_INCREF(args[i]);  // never released
  torch_tensor = (PyTypeObject*)args[0];
  torch_parameter = (PyTypeObject*)args[1];
  torch_modes = args[2];
  torch_raw_stream = args[3];
  torch_explained = args[4];
  Py_RETURN_NONE;
}

int bind_are_plain(PyObject* const* tensors, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    const PyTypeObject* type = Py_TYPE(tensors[i]);
    if (tensors[i] != Py_None && type != torch_tensor && type != torch_parameter) return 0;
  }
  if (!torch_modes) return 0;
  PyObject* modes = PyObject_CallNoArgs(torch_modes);
  if (!modes) return -1;
  const long active = PyLong_AsLong(modes);
  Py_DECREF(modes);
  return active == -1 && PyErr_Occurred() ? -1 : active == 0;
}

PyObject* bind_plain(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  (void)self;
  const int plain = bind_are_plain(args, n);
  return plain < 0 ? NULL : PyBool_FromLong(plain);
}

/* Returns 1 if the type overrides __torch_dispatch__, so that its own memory is not its value; -1:
 * an exception. */
static int overrides_dispatch(PyObject* type, int* from_torch) {
  PyObject* dispatch = PyObject_GetAttrString(type, "__torch_dispatch__");
  if (!dispatch) {
    PyErr_Clear();
    *from_torch = 0;
    return 0;
  }
  *from_torch = 1;
  PyObject* torch = PyImport_ImportModule("torch._C");
  PyObject* none = torch ? PyObject_GetAttrString(torch, "_disabled_torch_dispatch_impl") : NULL;
  const int overrides = none ? dispatch != none : -1;
  Py_XDECREF(none);
  Py_XDECREF(torch);
  Py_DECREF(dispatch);
  return overrides;
}

static const dlpack_api_t* exchange_of(PyObject* type) {
  PyObject* capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
  const dlpack_api_t* api = NULL;
  if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
    api = PyCapsule_GetPointer(capsule,
                               "dlpack_exchange_api");  // by the protocol it has static lifetime
  if (!capsule) PyErr_Clear();
  Py_XDECREF(capsule);
  while (api && api->version.major != 1) api = api->previous;
  return api && api->tensor_from_object && api->current_stream ? api : NULL;
}

static int has(PyObject* object, const char* attribute) {
  PyObject* value = PyObject_GetAttrString(object, attribute);
  if (!value) PyErr_Clear();
  Py_XDECREF(value);
  return value != NULL;
}

static int classify(PyTypeObject* type, KnownType* out) {
  PyObject* object = (PyObject*)type;
  memset(out, 0, sizeof *out);
  out->type = type;
  const int overrides = overrides_dispatch(object, &out->from_torch);
  if (overrides < 0) return 0;
  out->exchange = overrides ? NULL : exchange_of(object);
  if (overrides)
    out->reading = READ_REFUSED;
  else if (out->exchange)
    out->reading = READ_EXCHANGE;
  else
    out->reading = out->from_torch ? READ_ATTRIBUTES : READ_PROTOCOL;
  return 1;
}

/* Returns the entry of a type, or NULL with an exception set. */
static const KnownType* known(PyTypeObject* type) {
  for (int i = 0; i < KNOWN_TYPES; ++i) {
    if (known_types[i].type == type) return &known_types[i];
  }
  KnownType made;
  if (!classify(type, &made)) return NULL;
  KnownType* place = &known_types[next_known];
  next_known = (next_known + 1) % KNOWN_TYPES;
  PyTypeObject* before = place->type;
  Py_INCREF((PyObject*)type);
  *place = made;
  Py_XDECREF((PyObject*)before);
  return place;
}

static int fail(PyObject* exception, const char* where, const char* name, const char* text) {
  PyErr_Format(exception, "%s: `%s`: %s", where, name, text);
  return 0;
}

/* Names of attributes and methods, interned once. */
typedef enum {
  NAME_IS_NEG,
  NAME_DATA_PTR,
  NAME_SHAPE,
  NAME_STRIDE,
  NAME_DTYPE,
  NAME_DEVICE,
  NAMES
} Name;
static PyObject* names[NAMES];

static int make_names(void) {
  static const char* const texts[NAMES] = {"is_neg", "data_ptr", "shape",
                                           "stride", "dtype",    "device"};
  for (int i = 0; i < NAMES; ++i) {
    if (!names[i] && !(names[i] = PyUnicode_InternFromString(texts[i]))) return 0;
  }
  return 1;
}

static PyObject* call_method(PyObject* object, Name name) {
  return PyObject_CallMethodObjArgs(object, names[name], NULL);
}

/* Returns an integer and takes the reference to `value`. Clears *ok on failure. */
static int64_t integer_of(PyObject* value, int* ok) {
  const long long number = value ? PyLong_AsLongLong(value) : -1;
  if (!value || (number == -1 && PyErr_Occurred())) *ok = 0;
  Py_XDECREF(value);
  return number;
}

static int read_sequence(PyObject* sequence, int64_t* out, int* rank, const char* where,
                         const char* name) {
  if (!sequence) return 0;
  const Py_ssize_t n = PySequence_Size(sequence);
  if (n > BIND_MAX_RANK) {
    Py_DECREF(sequence);
    return fail(PyExc_ValueError, where, name, "expected at most 16 dimensions");
  }
  int ok = n >= 0;
  for (Py_ssize_t i = 0; ok && i < n; ++i)
    out[i] = integer_of(PySequence_GetItem(sequence, i), &ok);
  *rank = (int)n;
  Py_DECREF(sequence);
  return ok;
}

static const struct {
  const char* name;
  int32_t code;
} torch_dtypes[] = {
    {"torch.float32", LIGERDSL_F32},
    {"torch.bfloat16", LIGERDSL_BF16},
    {"torch.float16", LIGERDSL_F16},
    {"torch.int64", LIGERDSL_I64},
    {"torch.int32", LIGERDSL_I32},
    {"torch.int16", LIGERDSL_I16},
    {"torch.int8", LIGERDSL_I8},
    {"torch.bool", LIGERDSL_BOOL},
    {"torch.float8_e4m3fn", LIGERDSL_F8E4M3},
    {"torch.float8_e5m2", LIGERDSL_F8E5M2},
    /* Unsupported dtypes, which the library refuses with its own text. */
    {"torch.float64", 0x00014002},
    {"torch.uint8", 0x00010801},
    {"torch.complex64", 0x00014005},
};

/* dtype objects live as long as the process. Those already seen are found by address. */
enum { KNOWN_DTYPES = sizeof torch_dtypes / sizeof torch_dtypes[0] };
static PyObject* known_dtypes[KNOWN_DTYPES];

static int dtype_index(PyObject* dtype) {
  for (int i = 0; i < KNOWN_DTYPES; ++i) {
    if (known_dtypes[i] == dtype) return i;
  }
  PyObject* text = PyObject_Str(dtype);
  const char* given = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  int found = -1;
  for (int i = 0; given && i < KNOWN_DTYPES; ++i) {
    if (strcmp(given, torch_dtypes[i].name) == 0) found = i;
  }
  Py_XDECREF(text);
  if (found < 0 || known_dtypes[found]) return found;
  Py_INCREF(dtype);
  known_dtypes[found] = dtype;
  return found;
}

static int read_torch_dtype(PyObject* array, ligerdsl_dtype_t* out, const char* where,
                            const char* name) {
  PyObject* dtype = PyObject_GetAttr(array, names[NAME_DTYPE]);
  const int index = dtype ? dtype_index(dtype) : -1;
  if (index >= 0) *out = ligerdsl_dtype_of(torch_dtypes[index].code);
  if (dtype && index < 0 && !PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "%s: `%s`: the dtype %S is not supported", where, name, dtype);
  Py_XDECREF(dtype);
  return index >= 0;
}

static int read_torch_device(PyObject* array, ligerdsl_device_t* out, const char* where,
                             const char* name) {
  PyObject* device = PyObject_GetAttr(array, names[NAME_DEVICE]);
  PyObject* type = device ? PyObject_GetAttrString(device, "type") : NULL;
  const char* text = type ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
  int ok = text != NULL;
  if (ok && strcmp(text, "cpu") == 0) {
    out->type = LIGERDSL_CPU;
    out->id = 0;
  } else if (ok && strcmp(text, "cuda") == 0) {
    out->type = LIGERDSL_CUDA;
    out->id = (int32_t)integer_of(PyObject_GetAttrString(device, "index"), &ok);
  } else if (ok) {
    PyErr_Format(PyExc_ValueError, "%s: `%s`: expected a tensor on cpu or cuda, got one on %s",
                 where, name, text);
    ok = 0;
  }
  Py_XDECREF(type);
  Py_XDECREF(device);
  return ok;
}

/* Reads a tensor of PyTorch before 2.10 by its attributes. */
static int read_attributes(PyObject* array, const char* where, const char* name, Described* out) {
  int rank = 0, ok = 1;
  ligerdsl_tensor_t* tensor = &out->tensor;
  tensor->data = (void*)(uintptr_t)integer_of(call_method(array, NAME_DATA_PTR), &ok);
  if (!ok ||
      !read_sequence(PyObject_GetAttr(array, names[NAME_SHAPE]), out->sizes, &rank, where, name) ||
      !read_sequence(call_method(array, NAME_STRIDE), out->strides, &rank, where, name))
    return 0;
  tensor->ndim = rank;
  tensor->shape = out->sizes;
  tensor->strides = out->strides;
  return read_torch_dtype(array, &tensor->dtype, where, name) &&
         read_torch_device(array, &tensor->device, where, name);
}

static int read_protocol_device(PyObject* array, const char* where, const char* name) {
  PyObject* device = PyObject_CallMethod(array, "__dlpack_device__", NULL);
  int ok = device && PyTuple_Check(device) && PyTuple_Size(device) == 2;
  if (device && !ok) fail(PyExc_TypeError, where, name, "__dlpack_device__() must return a pair");
  const int64_t type = ok ? integer_of(PySequence_GetItem(device, 0), &ok) : 0;
  Py_XDECREF(device);
  if (!ok) return 0;
  if (type == DLPACK_CPU || type == DLPACK_CUDA_HOST) return 1;
  return fail(PyExc_ValueError, where, name,
              "on a GPU, expected a torch.Tensor, got an array that has only __dlpack__");
}

static PyObject* capsule_of(PyObject* array) {
  PyObject* method = PyObject_GetAttrString(array, "__dlpack__");
  if (!method) return NULL;
  PyObject* none = PyTuple_New(0);
  PyObject* version = none ? Py_BuildValue("{s:(ii)}", "max_version", 1, 1) : NULL;
  PyObject* capsule = version ? PyObject_Call(method, none, version) : NULL;
  if (!capsule && version &&
      PyErr_ExceptionMatches(PyExc_TypeError)) {  // the array's __dlpack__ does not know versions
    PyErr_Clear();
    capsule = PyObject_CallNoArgs(method);
  }
  Py_XDECREF(version);
  Py_XDECREF(none);
  Py_DECREF(method);
  return capsule;
}

static int read_protocol(PyObject* array, const char* where, const char* name, Described* out) {
  if (!has(array, "__dlpack__") || !has(array, "__dlpack_device__")) {
    PyErr_Format(PyExc_TypeError,
                 "%s: `%s`: expected a torch.Tensor, a numpy.ndarray or another array with "
                 "__dlpack__, got %R",
                 where, name, (PyObject*)Py_TYPE(array));
    return 0;
  }
  if (!read_protocol_device(array, where, name)) return 0;
  PyObject* capsule = capsule_of(array);
  if (!capsule) return 0;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const dlpack_versioned_t* managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->version.major != 1) {
      Py_DECREF(capsule);
      return fail(PyExc_BufferError, where, name, "expected DLPack version 1, got another version");
    }
    out->tensor = managed->tensor;
    out->read_only = (managed->flags & DLPACK_READ_ONLY) != 0;
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    out->tensor = ((const dlpack_managed_t*)PyCapsule_GetPointer(capsule, "dltensor"))->tensor;
  } else {
    Py_DECREF(capsule);
    return fail(PyExc_TypeError, where, name, "__dlpack__() must return a capsule with a tensor");
  }
  out->owner = capsule;  // the release of `owner` frees the description
  const int32_t type = out->tensor.device.type;
  if (type == DLPACK_CPU || type == DLPACK_CUDA_HOST) return 1;
  bind_release(out);
  return fail(PyExc_ValueError, where, name,
              "__dlpack_device__() reports a CPU, but __dlpack__() reports another device");
}

/* Fails for a tensor with a lazy negation, which the exchange API and data_ptr() do not report. */
static int refuse_negated(PyObject* array, const char* where, const char* name) {
  PyObject* answer = call_method(array, NAME_IS_NEG);
  if (!answer) return 0;
  const int negated = answer != Py_False;
  Py_DECREF(answer);
  return negated ? fail(PyExc_ValueError, where, name,
                        "a view that torch has not negated in memory yet; call resolve_neg()")
                 : 1;
}

/* Replaces torch's exception by the package's explanation, if there is one: for a tensor of the
 * meta device, of a torch.func transform, or a sparse one. */
static void explain(PyObject* array, const char* where, const char* name) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* text = PyObject_CallFunctionObjArgs(torch_explained, array, NULL);
  PyErr_Clear();
  if (!text || !PyUnicode_Check(text)) {
    PyErr_Restore(type, value, traceback);
  } else {
    PyErr_Format(PyExc_TypeError, "%s: `%s`: %U", where, name, text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
  Py_XDECREF(text);
}

/* Keeps the first line of torch's exception, which is pages long if it contains a stack. */
static int shorten(const char* where, const char* name) {
  PyObject *type = NULL, *value = NULL, *traceback = NULL;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* text = value ? PyObject_Str(value) : NULL;
  PyObject* lines = text ? PyUnicode_Splitlines(text, 0) : NULL;
  PyObject* first = lines && PyList_Size(lines) > 0 ? PyList_GetItem(lines, 0) : NULL;  // borrowed
  PyErr_Clear();
  if (first)
    PyErr_Format(PyExc_TypeError, "%s: `%s`: the array's library cannot describe it: %U", where,
                 name, first);
  else
    fail(PyExc_TypeError, where, name, "the array's library cannot describe it");
  Py_XDECREF(lines);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return 0;
}

static int fill(const KnownType* kind, PyObject* array, const char* where, const char* name,
                Described* out) {
  switch (kind->reading) {
    case READ_EXCHANGE:
      return kind->exchange->tensor_from_object(array, &out->tensor) == 0 || shorten(where, name);
    case READ_ATTRIBUTES:
      return read_attributes(array, where, name, out);
    case READ_PROTOCOL:
      return read_protocol(array, where, name, out);
    default:
      PyErr_Format(
          PyExc_TypeError,
          "%s: `%s`: a %R does not hold its values in its own memory; call torch.ops.ligerdsl.%s",
          where, name, (PyObject*)kind->type, where);
      return 0;
  }
}

/* Checks that a description from another library is readable: rank, shape and elements. NULL
 * strides mean a contiguous array. */
static int check_layout(const ligerdsl_tensor_t* tensor, const char* where, const char* name) {
  if (tensor->ndim < 0 || tensor->ndim > BIND_MAX_RANK) {
    PyErr_Format(PyExc_ValueError, "%s: `%s`: expected 0 to %i dimensions, got %i", where, name,
                 BIND_MAX_RANK, (int)tensor->ndim);
    return 0;
  }
  if (tensor->ndim > 0 && !tensor->shape) {
    PyErr_Format(PyExc_ValueError, "%s: `%s`: expected %i sizes, got a shape that is NULL", where,
                 name, (int)tensor->ndim);
    return 0;
  }
  for (int i = 0; i < tensor->ndim; ++i) {
    if (tensor->shape[i] >= 0) continue;
    PyErr_Format(PyExc_ValueError,
                 "%s: `%s`: expected sizes of 0 or more, got %lli in dimension %i", where, name,
                 (long long)tensor->shape[i], i);
    return 0;
  }
  if (tensor->dtype.lanes == 1) return 1;
  PyErr_Format(PyExc_TypeError, "%s: `%s`: expected elements of 1 lane, got %i", where, name,
               (int)tensor->dtype.lanes);
  return 0;
}

/* No system maps memory below this. Such an address is an offset into freed storage, of which the
 * tensor is a view. */
enum { LOWEST_ADDRESS = 1 << 16 };

static int describe(PyObject* array, const char* where, const char* name, int is_new,
                    Described* out) {
  const KnownType* found = known(Py_TYPE(array));
  if (!found || (!names[NAMES - 1] && !make_names())) return 0;
  const KnownType kind = *found;  // a copy, because Python code below may replace the entry
  out->owner = NULL;
  out->exchange = kind.exchange;
  out->from_torch = kind.from_torch;
  out->read_only = 0;
  out->tensor.byte_offset = 0;
  const int may_be_negated = out->from_torch && !is_new && kind.reading != READ_REFUSED;
  if (may_be_negated && !refuse_negated(array, where, name)) return 0;
  if (!fill(&kind, array, where, name, out)) {
    if (!PyErr_Occurred())
      fail(PyExc_TypeError, where, name, "the array's library returned no description");
    if (out->from_torch && torch_explained) explain(array, where, name);
    return 0;
  }
  if (!check_layout(&out->tensor, where, name)) {
    bind_release(out);
    return 0;
  }
  if (out->tensor.data && (uintptr_t)out->tensor.data < LOWEST_ADDRESS) {
    bind_release(out);
    return fail(PyExc_ValueError, where, name,
                "the tensor's storage was freed; pass a tensor that has memory");
  }
  if (out->tensor.device.type == DLPACK_CUDA_HOST)
    out->tensor.device = (ligerdsl_device_t){LIGERDSL_CPU, 0};
  if (out->tensor.device.type == DLPACK_CUDA_MANAGED) out->tensor.device.type = LIGERDSL_CUDA;
  return 1;
}

int bind_describe(PyObject* array, const char* where, const char* name, Described* out) {
  return describe(array, where, name, 0, out);
}

int bind_describe_new(PyObject* tensor, const char* where, const char* name, Described* out) {
  return describe(tensor, where, name, 1, out);
}

void bind_release(Described* described) {
  Py_XDECREF(described->owner);
  described->owner = NULL;
}

int bind_stream(const Described* described, ligerdsl_stream_t* stream) {
  const ligerdsl_device_t device = described->tensor.device;
  *stream = NULL;
  if (device.type != LIGERDSL_CUDA) return 1;
  if (described->exchange) {
    void* current = NULL;
    if (described->exchange->current_stream(device.type, device.id, &current) != 0) {
      if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "the array's library returned no stream");
      return 0;
    }
    *stream = current;
    return 1;
  }
  if (!torch_raw_stream || torch_raw_stream == Py_None) {
    PyErr_SetString(PyExc_RuntimeError, "tensors on a GPU: import ligerdsl.torch first");
    return 0;
  }
  int ok = 1;
  *stream = (ligerdsl_stream_t)(uintptr_t)integer_of(
      PyObject_CallFunction(torch_raw_stream, "i", (int)device.id), &ok);
  return ok;
}

PyObject* bind_look(PyObject* self, PyObject* array) {
  (void)self;
  Described described;
  if (!bind_describe(array, "look", "array", &described)) return NULL;
  const ligerdsl_tensor_t* t = &described.tensor;
  PyObject *shape = PyTuple_New(t->ndim), *strides = PyTuple_New(t->ndim);
  uint64_t contiguous = 1; /* unsigned: sizes from another library may overflow */
  for (int i = t->ndim - 1; shape && strides && i >= 0; --i) {
    PyTuple_SetItem(shape, i, PyLong_FromLongLong(t->shape[i]));
    PyTuple_SetItem(strides, i,
                    PyLong_FromLongLong(t->strides ? t->strides[i] : (int64_t)contiguous));
    contiguous *= (uint64_t)t->shape[i];
  }
  PyObject* result = NULL;
  if (shape && strides)
    result = Py_BuildValue("iiiOO", (int)t->device.type, (int)t->device.id,
                           (int)(t->dtype.code | t->dtype.bits << 8 | t->dtype.lanes << 16), shape,
                           strides);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  bind_release(&described);
  return result;
}

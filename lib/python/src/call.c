#include <string.h>

#include "bind.h"
#include "call_limits.h"

OperationFunction bind_functions[BIND_MAX_OPERATIONS];

/* One call's arguments, converted from Python. */
typedef struct {
  union {
    uint64_t align;
    char bytes[BIND_MAX_STRUCT];
  } desc, args;
  Described tensors[BIND_MAX_TENSORS];
  int n_tensors;   /* described so far */
  Described* list; /* elements of a tensor list, and the array that the struct points to */
  ligerdsl_tensor_t* list_tensors;
  Py_ssize_t n_list;
  const Described* first; /* determines device and stream */
} Call;

static void store(char* bytes, size_t offset, const void* value, size_t size) {
  memcpy(bytes + offset, value, size);
}

static int read_list(const Operation* op, const TensorArgument* argument, PyObject* given,
                     Call* call) {
  if (!PyList_Check(given) && !PyTuple_Check(given)) {
    PyErr_Format(PyExc_TypeError, "%s: `%s`: expected a list of tensors, got %R", op->name,
                 argument->name, (PyObject*)Py_TYPE(given));
    return 0;
  }
  const Py_ssize_t n = PySequence_Size(given);
  call->list = PyMem_Malloc((size_t)(n ? n : 1) * sizeof *call->list);
  call->list_tensors = PyMem_Malloc((size_t)(n ? n : 1) * sizeof *call->list_tensors);
  if (!call->list || !call->list_tensors) {
    PyErr_NoMemory();
    return 0;
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    /* PySequence_GetItem returns an own reference: another thread may change the list. */
    PyObject* item = PySequence_GetItem(given, i);
    if (!item) return 0;
    const int ok = bind_describe(item, op->name, argument->name, &call->list[i]);
    if (!ok) {
      Py_DECREF(item);
      return 0;
    }
    if (!call->list[i].owner)
      call->list[i].owner = item;
    else
      Py_DECREF(item);
    call->list_tensors[i] = call->list[i].tensor;
    call->n_list = i + 1;
  }
  const int64_t count = n;
  store(call->args.bytes, argument->offset, &call->list_tensors, sizeof call->list_tensors);
  store(call->args.bytes, argument->offset + sizeof(void*), &count, sizeof count);
  if (!call->first && n > 0) call->first = &call->list[0];
  return 1;
}

/* Replaces the description of a tensor by that of tensor[index]. */
static int take_part(const Operation* op, const TensorArgument* argument, int index,
                     ligerdsl_tensor_t* tensor) {
  if (tensor->ndim < 1 || tensor->shape[0] <= index || !tensor->strides) {
    PyErr_Format(PyExc_ValueError,
                 "%s: `%s`: expected a tensor with at least %i parts along its "
                 "first dimension",
                 op->name, argument->name, index + 1);
    return 0;
  }
  if (tensor->data)
    tensor->data = (char*)tensor->data + index * tensor->strides[0] * (tensor->dtype.bits / 8);
  --tensor->ndim;
  ++tensor->shape;
  ++tensor->strides;
  return 1;
}

static int read_tensor(const Operation* op, const TensorArgument* argument, PyObject* given,
                       const ArgumentHint* hint, Call* call) {
  if (argument->kind == BIND_LIST) return read_list(op, argument, given, call);
  if (given == Py_None) return 1;
  Described* described = &call->tensors[call->n_tensors];
  const int ok = hint && hint->is_new
                     ? bind_describe_new(given, op->name, argument->name, described)
                     : bind_describe(given, op->name, argument->name, described);
  if (!ok) return 0;
  ++call->n_tensors;
  if (hint && hint->part && !take_part(op, argument, hint->part - 1, &described->tensor)) return 0;
  if (argument->kind != BIND_IN && described->read_only) {
    PyErr_Format(PyExc_ValueError,
                 "%s: `%s`: the array is read-only, but the operation writes to it", op->name,
                 argument->name);
    return 0;
  }
  const ligerdsl_tensor_t* pointer = &described->tensor;
  store(call->args.bytes, argument->offset, &pointer, sizeof pointer);
  if (!call->first) call->first = described;
  return 1;
}

static int wrong_number(const Operation* op, const NumberArgument* number, PyObject* given,
                        const char* expected) {
  if (PyErr_ExceptionMatches(PyExc_OverflowError))
    PyErr_Format(PyExc_ValueError, "%s: `%s`: expected %s, got %R", op->name, number->name,
                 expected, given);
  else if (PyErr_ExceptionMatches(PyExc_TypeError))
    PyErr_Format(PyExc_TypeError, "%s: `%s`: expected %s, got %R", op->name, number->name, expected,
                 given);
  return 0;
}

static int read_number(const Operation* op, const NumberArgument* number, PyObject* given,
                       Call* call) {
  if (given == Py_None) return 1; /* the struct already has the default */
  char* bytes = number->in_desc ? call->desc.bytes : call->args.bytes;
  if (number->type == BIND_FLOAT) {
    const double value = PyFloat_AsDouble(given);
    if (value == -1.0 && PyErr_Occurred()) return wrong_number(op, number, given, "a number");
    const float rounded = (float)value;
    store(bytes, number->offset, &rounded, sizeof rounded);
    return 1;
  }
  const long long value = PyLong_AsLongLong(given);
  if (value == -1 && PyErr_Occurred())
    return wrong_number(op, number, given, "an integer of 64 bits");
  if (number->type == BIND_INT64) {
    const int64_t wide = value;
    store(bytes, number->offset, &wide, sizeof wide);
    return 1;
  }
  if (value < INT32_MIN || value > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "%s: `%s`: expected an integer of 32 bits, got %R", op->name,
                 number->name, given);
    return 0;
  }
  const int32_t narrow = (int32_t)value;
  store(bytes, number->offset, &narrow, sizeof narrow);
  return 1;
}

static int read_arguments(const Operation* op, PyObject* const* args, Py_ssize_t n,
                          const ArgumentHint* hints, Call* call) {
  if (n != op->n_tensors + op->n_numbers) {
    PyErr_Format(PyExc_TypeError, "%s: expected %i tensors and %i numbers, got %zd arguments",
                 op->name, op->n_tensors, op->n_numbers, n);
    return 0;
  }
  memcpy(call->desc.bytes, op->desc, op->desc_size);
  memcpy(call->args.bytes, op->args, op->args_size);
  for (int i = 0; i < op->n_tensors; ++i) {
    if (!read_tensor(op, &op->tensors[i], args[i], hints ? &hints[i] : NULL, call)) return 0;
  }
  for (int i = 0; i < op->n_numbers; ++i) {
    if (!read_number(op, &op->numbers[i], args[op->n_tensors + i], call)) return 0;
  }
  if (call->first) return 1;
  PyErr_Format(PyExc_TypeError, "%s: `%s`: expected a tensor, got none", op->name,
               op->tensors[0].name);
  return 0;
}

static void release(Call* call) {
  for (int i = 0; i < call->n_tensors; ++i) bind_release(&call->tensors[i]);
  for (Py_ssize_t i = 0; i < call->n_list; ++i) bind_release(&call->list[i]);
  PyMem_Free(call->list);
  PyMem_Free(call->list_tensors);
}

/* ---- Configurations that have run. The first call of a configuration may compile for a second or
 * more, so it releases the interpreter's lock. Later calls are launches, which end before another
 * thread could take the lock. */

enum { SEEN = 4096 };
static uint64_t seen[SEEN];
static int n_seen;

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

static uint64_t configuration(const Operation* op, const Call* call) {
  uint64_t hash = mix((uint64_t)(uintptr_t)op, (uint64_t)call->first->tensor.device.id), word = 0;
  for (size_t i = 0; i < op->desc_size; i += sizeof word) {
    const size_t left = op->desc_size - i;
    word = 0;
    memcpy(&word, call->desc.bytes + i, left < sizeof word ? left : sizeof word);
    hash = mix(hash, word);
  }
  for (int i = 0; i < call->n_tensors; ++i) {
    const ligerdsl_tensor_t* t = &call->tensors[i].tensor;
    const uint64_t dtype = (uint64_t)t->dtype.code << 8 | t->dtype.bits;
    hash = mix(hash, dtype << 48 ^ (uint64_t)(t->ndim ? t->shape[t->ndim - 1] : 0));
  }
  return hash | 1;
}

static uint64_t* place_of(uint64_t hash) {
  uint64_t at = hash % SEEN;
  while (seen[at] && seen[at] != hash) at = (at + 1) % SEEN;
  return &seen[at];
}

static void remember(uint64_t hash) {
  uint64_t* place = place_of(hash);
  if (*place || n_seen >= SEEN / 2) return;
  *place = hash;
  ++n_seen;
}

/* ---- */

static ligerdsl_status_t run(int index, const Call* call, ligerdsl_context_t context,
                             ligerdsl_stream_t stream) {
  const Operation* op = &bind_operations[index];
  const int gpu = call->first->tensor.device.type == LIGERDSL_CUDA;
  const uint64_t hash = gpu ? configuration(op, call) : 0;
  ligerdsl_status_t status;
  if (gpu && *place_of(hash) == hash)
    return bind_functions[index](context, call->desc.bytes, call->args.bytes, stream);
  Py_BEGIN_ALLOW_THREADS;
  status = bind_functions[index](context, call->desc.bytes, call->args.bytes, stream);
  Py_END_ALLOW_THREADS;
  if (gpu && status == LIGERDSL_SUCCESS) remember(hash);
  return status;
}

/* Checks labels according to check_labels. On a CPU the call has ended, so nothing has to be waited
 * for. */
static int check_labels(const Call* call, ligerdsl_context_t context, ligerdsl_stream_t stream) {
  if (bind_check_labels == BIND_LABELS_OFF) return 1;
  if (call->first->tensor.device.type == LIGERDSL_CPU) return bind_poll(context);
  if (bind_check_labels == BIND_LABELS_LAZY) return 1;
  ligerdsl_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = library.ligerdsl_context_check(context, stream);
  Py_END_ALLOW_THREADS;
  if (status != LIGERDSL_SUCCESS) bind_raise(status);
  return status == LIGERDSL_SUCCESS;
}

static PyObject* call_described(int index, const Call* call) {
  const Operation* op = &bind_operations[index];
  const ligerdsl_context_t context = bind_context(call->first->tensor.device);
  ligerdsl_stream_t stream;
  if (!context || !bind_stream(call->first, &stream)) return NULL;
  if (op->has_labels && bind_check_labels != BIND_LABELS_OFF && !bind_poll(context)) return NULL;
  const ligerdsl_status_t status = run(index, call, context, stream);
  if (status != LIGERDSL_SUCCESS) return bind_raise_call(status);
  if (op->has_labels && !check_labels(call, context, stream)) return NULL;
  Py_RETURN_NONE;
}

PyObject* bind_call(int index, PyObject* const* args, Py_ssize_t n) {
  return bind_call_with(index, args, n, NULL);
}

PyObject* bind_call_with(int index, PyObject* const* args, Py_ssize_t n,
                         const ArgumentHint* hints) {
  if (!bind_loaded()) return NULL;
  Call call;
  call.n_tensors = 0;
  call.list = NULL;
  call.list_tensors = NULL;
  call.n_list = 0;
  call.first = NULL;
  PyObject* result = read_arguments(&bind_operations[index], args, n, hints, &call)
                         ? call_described(index, &call)
                         : NULL;
  release(&call);
  return result;
}

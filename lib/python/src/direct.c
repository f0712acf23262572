/* Autograd Functions whose forward and backward run here, without a Python frame: if every tensor
 * is plain memory and no second derivative is wanted. Otherwise the Function's own forward and
 * backward run.
 *
 * A plan gives the source of each argument of the operations. Tensors have slots. In the forward
 * these are the inputs and then the results; in backward the gradients, the saved tensors and then
 * the results. */
#include <string.h>

#include "bind.h"
#include "call_limits.h"

enum { MAX_ARGUMENTS = 32, MAX_SLOTS = 24, MAX_STEPS = 4, BYTES_OF_ARGUMENT = 4 };
enum { NOTHING = 255 }; /* instead of a slot */

/* Flags of a plan. */
enum {
  KEEPS_NONE = 1, /* missing gradients remain None */
  COLUMNS_TOGETHER =
      2, /* a gradient's last dimension must be contiguous; others may have any strides */
  REPORTS_LABELS = 4, /* backward reports known labels out of range */
};

typedef enum {
  FROM_SLOT,   /* an existing tensor */
  FROM_NUMBER, /* an element of the Function's tuple of numbers */
  FROM_ZERO,
  FROM_NONE,
  NEW_LIKE,  /* shape and dtype of a slot */
  NEW_ROWS,  /* f32 with the leading sizes of a slot */
  NEW_GATED, /* like a slot; if that is None, half of each row of the tensor two slots later */
  NEW_LOSS,  /* f32 loss: a scalar, or with reduction 0 like the labels, which are in the next slot
              */
  NEW_OVER,  /* a slot's own memory, overwritten; increments its version */
  NEW_PAIR,  /* f32, two of NEW_ROWS in one tensor: [2, leading sizes] */
} Origin;

typedef struct {
  uint8_t origin, source;
  uint8_t wanted; /* bits of inputs: pass or create only if one wants a gradient. 0: always */
  uint8_t part;   /* see ArgumentHint */
} Argument;

typedef struct {
  int operation, n;
  Argument arguments[MAX_ARGUMENTS];
  ArgumentHint hints[MAX_ARGUMENTS];
} Step;

typedef struct {
  uint8_t n, slots[MAX_SLOTS];
} Slots;

typedef struct {
  PyTypeObject* backward_class;
  PyObject *forward, *apply; /* the Function's own */
  int n_inputs, n_gradients, flags;
  int spends;  /* backward overwrites saved tensors and sets ctx.spent; the Function then raises */
  int chooses; /* the forward's results depend on which inputs want gradients */
  Step forward_step, backward_steps[MAX_STEPS];
  int n_steps; /* steps of backward; if there are several, those whose first tensor is None are
                  skipped */
  Slots saved, returned, gradients;
} Plan;

/* Never freed: nodes may live as long as the process, also those of reloaded modules. */
static Plan** plans;
static int n_plans, room_for_plans;

static PyObject *grad_enabled, *empty_like, *increment_version, *count_copy, *kwargs_f32, *zero;
static PyObject *name_numbers, *name_spent, *name_save, *name_saved, *name_needs, *name_keep_none,
    *name_new_empty, *name_shape, *name_contiguous, *name_stride, *minus_one;
int bind_main_grad;

PyObject* bind_set_main_grad(PyObject* self, PyObject* on) {
  (void)self;
  const int value = PyObject_IsTrue(on);
  if (value < 0) return NULL;
  bind_main_grad = value;
  Py_RETURN_NONE;
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Returns like.new_empty(*sizes) with f32 or the dtype of `like`. Steals the reference to sizes,
 * which is not empty. */
static PyObject* new_empty(PyObject* like, PyObject* sizes, int f32) {
  PyObject* method = sizes ? PyObject_GetAttr(like, name_new_empty) : NULL;
  PyObject* made = method ? PyObject_Call(method, sizes, f32 ? kwargs_f32 : NULL) : NULL;
  Py_XDECREF(method);
  Py_XDECREF(sizes);
  return made;
}

/* Returns a tuple of the first n sizes, with `first` before and `last` after them unless negative.
 * No sizes at all: a tuple with one empty tuple. */
static PyObject* sizes_of(int64_t first, PyObject* shape, Py_ssize_t n, int64_t last) {
  const Py_ssize_t before = first >= 0, all = before + n + (last >= 0);
  PyObject* sizes = PyTuple_New(all ? all : 1);
  if (sizes && before) PyTuple_SetItem(sizes, 0, PyLong_FromLongLong(first));
  for (Py_ssize_t i = 0; sizes && i < n; ++i) {
    PyObject* size = PyTuple_GetItem(shape, i);
    Py_XINCREF(size);
    PyTuple_SetItem(sizes, before + i, size);
  }
  if (sizes && last >= 0) PyTuple_SetItem(sizes, all - 1, PyLong_FromLongLong(last));
  if (sizes && !all) PyTuple_SetItem(sizes, 0, PyTuple_New(0));
  return sizes;
}

/* Returns the sizes of a tensor without the last one, or with half of it, preceded by `first`
 * unless that is negative. */
static PyObject* leading_sizes(const char* operation, PyObject* tensor, int64_t first,
                               int and_half) {
  PyObject* shape = PyObject_GetAttr(tensor, name_shape);
  const Py_ssize_t rank = shape ? PyTuple_Size(shape) : -1;
  PyObject* sizes = NULL;
  if (rank > 0) {
    const int64_t last = and_half ? PyLong_AsLongLong(PyTuple_GetItem(shape, rank - 1)) / 2 : -1;
    sizes = sizes_of(first, shape, rank - 1, last);
  } else if (rank == 0) {
    PyErr_Format(PyExc_ValueError,
                 "%s: expected a tensor with at least one dimension, got one without", operation);
  }
  Py_XDECREF(shape);
  return sizes;
}

static PyObject* new_loss(PyObject* logits, PyObject* labels, PyObject* numbers) {
  const long reduction = PyLong_AsLong(PyTuple_GetItem(numbers, 1));
  if (reduction == -1 && PyErr_Occurred()) return NULL;
  PyObject* shape = reduction == 0 ? PyObject_GetAttr(labels, name_shape) : PyTuple_New(0);
  PyObject* sizes = shape ? sizes_of(-1, shape, PyTuple_Size(shape), -1) : NULL;
  Py_XDECREF(shape);
  return new_empty(logits, sizes, 1);
}

/* Returns two f32 tensors with a tensor's leading sizes in one. Both begin at a multiple of 16
 * bytes, because the kernels for such tensors are fast. */
static PyObject* new_pair(const char* operation, PyObject* tensor) {
  PyObject* sizes = leading_sizes(operation, tensor, 2, 0);
  if (!sizes) return NULL;
  int64_t rows = 1;
  for (Py_ssize_t i = 1; i < PyTuple_Size(sizes); ++i)
    rows *= PyLong_AsLongLong(PyTuple_GetItem(sizes, i));
  if (PyErr_Occurred()) {
    Py_DECREF(sizes);
    return NULL;
  }
  if (rows % 4 == 0) return new_empty(tensor, sizes, 1);
  PyObject* both = new_empty(tensor, Py_BuildValue("(iL)", 2, (long long)((rows + 3) / 4 * 4)), 1);
  PyObject* used = both ? PyObject_CallMethod(both, "narrow", "iiL", 1, 0, (long long)rows) : NULL;
  PyObject* made = used ? PyObject_CallMethod(used, "view", "(O)", sizes) : NULL;
  Py_XDECREF(used);
  Py_XDECREF(both);
  Py_DECREF(sizes);
  return made;
}

static PyObject* make(const char* operation, const Argument* a, PyObject* const* slots,
                      PyObject* numbers) {
  PyObject* source = slots[a->source];
  if (source == Py_None && a->origin == NEW_GATED) {
    source = slots[a->source + 2];
    return new_empty(source, leading_sizes(operation, source, -1, 1), 0);
  }
  if (source == Py_None) {
    Py_INCREF(source);
    return source;
  }
  switch (a->origin) {
    case NEW_ROWS:
      return new_empty(source, leading_sizes(operation, source, -1, 0), 1);
    case NEW_PAIR:
      return new_pair(operation, source);
    case NEW_LOSS:
      return new_loss(source, slots[a->source + 1], numbers);
    case NEW_OVER:
      Py_INCREF(source);
      return source;
    default:
      return PyObject_CallFunctionObjArgs(empty_like, source, NULL);
  }
}

/* ---- A step ---------------------------------------------------------------------------------- */

typedef struct {
  PyObject* items[MAX_SLOTS];
  int n, borrowed; /* the first `borrowed` are the caller's, the others are owned */
} Values;

static void release(Values* values) {
  for (int i = values->borrowed; i < values->n; ++i) Py_DECREF(values->items[i]);
}

static int report_overwritten(const Step* step, PyObject* const* args) {
  for (int i = 0; i < step->n; ++i) {
    if (step->arguments[i].origin != NEW_OVER || args[i] == Py_None) continue;
    PyObject* result = PyObject_CallFunctionObjArgs(increment_version, args[i], NULL);
    if (!result) return 0;
    Py_DECREF(result);
  }
  return 1;
}

/* Calls the operation and appends new tensors to `values`. Returns 0 with an exception set.
 * optional: does nothing if the first tensor is None. */
static int run(const Step* step, Values* values, PyObject* numbers, unsigned wanted, int optional) {
  PyObject* args[MAX_ARGUMENTS];
  for (int i = 0; i < step->n; ++i) {
    const Argument* a = &step->arguments[i];
    const int left_out = a->wanted && !(a->wanted & wanted);
    if (a->origin == FROM_SLOT) {
      args[i] = left_out ? Py_None : values->items[a->source];
    } else if (a->origin == FROM_NUMBER) {
      args[i] = PyTuple_GetItem(numbers, a->source);
    } else if (a->origin == FROM_ZERO) {
      args[i] = zero;
    } else if (a->origin == FROM_NONE) {
      args[i] = Py_None;
    } else {
      PyObject* made = left_out
                           ? Py_None
                           : make(bind_operations[step->operation].name, a, values->items, numbers);
      if (!made) return 0;
      if (left_out) Py_INCREF(made);
      args[i] = values->items[values->n++] = made;
    }
    if (!args[i]) return 0;
  }
  if (optional && args[0] == Py_None) return 1;
  PyObject* nothing = bind_call_with(step->operation, args, step->n, step->hints);
  Py_XDECREF(nothing);
  return nothing && report_overwritten(step, args);
}

/* Returns a tuple of n elements: the contents of the slots, then None. */
static PyObject* tuple_of(const Slots* slots, const Values* values, Py_ssize_t n, unsigned wanted) {
  PyObject* tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; ++i) {
    const int there = i < slots->n && slots->slots[i] != NOTHING && (wanted >> i & 1);
    PyObject* item = there ? values->items[slots->slots[i]] : Py_None;
    Py_INCREF(item);
    PyTuple_SetItem(tuple, i, item);
  }
  return tuple;
}

static PyObject* call_with(PyObject* function, PyObject* first, PyObject* const* args,
                           Py_ssize_t n) {
  PyObject* all = PyTuple_New(n + (first != NULL));
  for (Py_ssize_t i = 0; all && i < n + (first != NULL); ++i) {
    PyObject* item = first ? (i ? args[i - 1] : first) : args[i];
    Py_INCREF(item);
    PyTuple_SetItem(all, i, item);
  }
  PyObject* result = all ? PyObject_CallObject(function, all) : NULL;
  Py_XDECREF(all);
  return result;
}

/* ---- Forward: (ctx, *inputs, numbers) -------------------------------------------------------- */

/* Does the same as ctx.save_for_backward(*tensors) and ctx.set_materialize_grads(False), which each
 * take a Python frame. Steals the reference to the tuple. */
static int save(const Plan* plan, PyObject* ctx, PyObject* tensors) {
  const int saved = tensors && PyObject_SetAttr(ctx, name_save, tensors) == 0;
  Py_XDECREF(tensors);
  return saved &&
         (!(plan->flags & KEEPS_NONE) || PyObject_SetAttr(ctx, name_keep_none, Py_False) == 0);
}

static int wanted_of(PyObject* ctx, unsigned* wanted) {
  PyObject* needs = PyObject_GetAttr(ctx, name_needs);
  const Py_ssize_t n = needs ? PyTuple_Size(needs) : -1;
  *wanted = 0;
  for (Py_ssize_t i = 0; i < n && i < 32; ++i)
    *wanted |= (unsigned)(PyTuple_GetItem(needs, i) == Py_True) << i;
  Py_XDECREF(needs);
  return n >= 0;
}

static PyObject* forward(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const Plan* plan = PyCapsule_GetPointer(self, NULL);
  if (!plan) return NULL;
  const int is_plain =
      n == plan->n_inputs + 2 && PyTuple_Check(args[n - 1]) ? bind_are_plain(args + 1, n - 2) : 0;
  if (is_plain < 0) return NULL;
  if (!is_plain) return call_with(plan->forward, NULL, args, n);
  PyObject *ctx = args[0], *numbers = args[n - 1], *result = NULL;
  Values values = {{0}, plan->n_inputs, plan->n_inputs};
  memcpy(values.items, args + 1, (size_t)plan->n_inputs * sizeof *args);
  unsigned wanted = ~0u;
  if (plan->chooses && !wanted_of(ctx, &wanted)) return NULL;
  if (run(&plan->forward_step, &values, numbers, wanted, 0) &&
      PyObject_SetAttr(ctx, name_numbers, numbers) == 0 &&
      save(plan, ctx, tuple_of(&plan->saved, &values, plan->saved.n, ~0u))) {
    if (plan->returned.n == 1) {
      result = values.items[plan->returned.slots[0]];
      Py_INCREF(result);
    } else {
      result = tuple_of(&plan->returned, &values, plan->returned.n, ~0u);
    }
  }
  release(&values);
  return result;
}

/* ---- Backward: what autograd calls as apply() of the node ------------------------------------ */

static const Plan* plan_of(PyTypeObject* type) {
  for (int i = n_plans - 1; i >= 0; --i) {
    if (plans[i]->backward_class == type) return plans[i];
  }
  return NULL;
}

/* Returns 1 if gradients of gradients are wanted, -1 with an exception set. */
static int differentiates(void) {
  PyObject* enabled = PyObject_CallNoArgs(grad_enabled);
  if (!enabled) return -1;
  Py_DECREF(enabled);
  return enabled == Py_True;
}

/* Returns 1 if the operation can read the gradients, -1 with an exception set. */
static int suits(const Plan* plan, PyObject* const* gradients, Py_ssize_t n) {
  if (bind_main_grad || n != plan->n_gradients || gradients[0] == Py_None) return 0;
  const int again = differentiates();
  return again ? (again < 0 ? -1 : 0) : bind_are_plain(gradients, n);
}

/* Returns 1 if the last dimension has a stride of 1, -1 with an exception set. */
static int has_columns_together(PyObject* tensor) {
  PyObject* stride = PyObject_CallMethodObjArgs(tensor, name_stride, minus_one, NULL);
  if (!stride) return -1;
  const long long value = PyLong_AsLongLong(stride);
  Py_DECREF(stride);
  return value == -1 && PyErr_Occurred() ? -1 : value == 1;
}

static int report_copy(const Plan* plan, PyObject* tensor) {
  const char* operation = bind_operations[plan->backward_steps[0].operation].name;
  PyObject* nothing = PyObject_CallFunction(count_copy, "sO", operation, tensor);
  Py_XDECREF(nothing);
  return nothing != NULL;
}

/* Makes the gradients contiguous where the kernels need it: autograd may pass one element with
 * strides of 0. */
static int read_gradients(const Plan* plan, PyObject* const* gradients, Values* values) {
  for (int i = 0; i < plan->n_gradients; ++i) {
    PyObject* given = gradients[i];
    int as_it_is = given == Py_None;
    if (!as_it_is && plan->flags & COLUMNS_TOGETHER) as_it_is = has_columns_together(given);
    if (as_it_is < 0) return 0;
    PyObject* taken = given;
    if (as_it_is)
      Py_INCREF(taken);
    else if (!(taken = PyObject_CallMethodObjArgs(given, name_contiguous, NULL)))
      return 0;
    values->items[values->n++] = taken;
    if (taken != given && !report_copy(plan, given)) return 0;
  }
  return 1;
}

static int report_labels(void) {
  if (bind_check_labels == BIND_LABELS_OFF) return 1;
  PyObject* nothing = bind_poll_all(NULL, NULL);
  Py_XDECREF(nothing);
  return nothing != NULL;
}

/* Returns 1 if an earlier backward has overwritten saved tensors, -1 with an exception set. */
static int is_spent(PyObject* ctx) {
  PyObject* spent = PyObject_GetAttr(ctx, name_spent);
  if (!spent) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 0;
  }
  Py_DECREF(spent);
  return 1;
}

/* Returns NotImplemented (borrowed) if another thread's backward ran first, while this one called
 * Python. */
static PyObject* run_backward(const Plan* plan, PyObject* ctx, PyObject* saved,
                              PyObject* const* gradients) {
  Values values = {{0}, 0, 0};
  unsigned wanted;
  PyObject *numbers = PyObject_GetAttr(ctx, name_numbers), *result = NULL;
  int ok = numbers && wanted_of(ctx, &wanted) && read_gradients(plan, gradients, &values);
  for (int i = 0; ok && i < plan->saved.n; ++i) {
    PyObject* item = PyTuple_GetItem(saved, i);
    Py_INCREF(item);
    values.items[values.n++] = item;
  }
  if (ok && plan->spends) { /* no other thread can run in between; set even if the call fails */
    const int spent = is_spent(ctx);
    if (spent > 0) result = Py_NotImplemented;
    ok = spent == 0 && PyObject_SetAttr(ctx, name_spent, Py_True) == 0;
  }
  for (int i = 0; ok && i < plan->n_steps; ++i)
    ok = run(&plan->backward_steps[i], &values, numbers, wanted, plan->n_steps > 1);
  if (ok) result = tuple_of(&plan->gradients, &values, plan->n_inputs + 1, wanted);
  Py_XDECREF(numbers);
  release(&values);
  return result;
}

static PyObject* backward(PyObject* ctx, PyObject* const* args, Py_ssize_t n) {
  const Plan* plan = plan_of(Py_TYPE(ctx));
  if (!plan) {
    PyErr_SetString(PyExc_RuntimeError, "apply: the node belongs to no Function of this library");
    return NULL;
  }
  int suitable = suits(plan, args, n);
  if (suitable < 0) return NULL;
  if (suitable && plan->flags & REPORTS_LABELS && !report_labels()) return NULL;
  if (!suitable) return call_with(plan->apply, ctx, args, n);
  /* Must precede the read of saved_tensors: saved-tensor hooks do not notice the overwrite. */
  const int spent = plan->spends ? is_spent(ctx) : 0;
  if (spent) return spent < 0 ? NULL : call_with(plan->apply, ctx, args, n);
  PyObject* saved = PyObject_GetAttr(ctx, name_saved);
  if (!saved) return NULL;
  PyObject* items[MAX_SLOTS];
  suitable = PyTuple_Size(saved) == plan->saved.n;
  for (int i = 0; suitable && i < plan->saved.n; ++i) items[i] = PyTuple_GetItem(saved, i);
  if (suitable)
    suitable = bind_are_plain(items, plan->saved.n); /* hooks may have put something else there */
  PyObject* result = NULL;
  if (suitable > 0) result = run_backward(plan, ctx, saved, args);
  if (result == Py_NotImplemented)
    result = call_with(plan->apply, ctx, args, n);
  else if (suitable == 0)
    result = call_with(plan->apply, ctx, args, n);
  Py_DECREF(saved);
  return result;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

PyObject* bind_set_autograd(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  (void)self;
  if (n != 5 || !PyCallable_Check(args[0]) || !PyCallable_Check(args[1]) ||
      !PyCallable_Check(args[2]) || !PyCallable_Check(args[4])) {
    PyErr_SetString(
        PyExc_TypeError,
        "set_autograd: expected is_grad_enabled, empty_like, increment_version, float32 and count");
    return NULL;
  }
  static const struct {
    PyObject** name;
    const char* text;
  } names[] = {{&name_numbers, "numbers"},        {&name_spent, "spent"},
               {&name_save, "to_save"},           {&name_saved, "saved_tensors"},
               {&name_needs, "needs_input_grad"}, {&name_keep_none, "materialize_grads"},
               {&name_new_empty, "new_empty"},    {&name_shape, "shape"},
               {&name_contiguous, "contiguous"},  {&name_stride, "stride"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (!*names[i].name && !(*names[i].name = PyUnicode_InternFromString(names[i].text)))
      return NULL;
  }
  kwargs_f32 = Py_BuildValue("{s:O}", "dtype", args[3]);
  zero = PyLong_FromLong(0);
  minus_one = PyLong_FromLong(-1);
  if (!kwargs_f32 || !zero || !minus_one) return NULL;
  Py_INCREF(args[0]);
  Py_INCREF(args[1]);
  Py_INCREF(args[2]);
  Py_INCREF(args[4]);
  grad_enabled = args[0];
  empty_like = args[1];
  increment_version = args[2];
  count_copy = args[4];
  Py_RETURN_NONE;
}

/* Reads the step of the first operation in `name` from the bytes at *at. Returns the rest of
 * `name`, or NULL. */
static const char* read_step(const char* name, const char* bytes, Py_ssize_t size, Py_ssize_t* at,
                             Step* step) {
  const size_t length = strcspn(name, " ");
  const int left = (int)((size - *at) / BYTES_OF_ARGUMENT);
  for (step->operation = 0; step->operation < bind_n_operations; ++step->operation) {
    const Operation* op = &bind_operations[step->operation];
    if (strncmp(op->name, name, length) != 0 || op->name[length]) continue;
    step->n = op->n_tensors + op->n_numbers;
    if (size % BYTES_OF_ARGUMENT || step->n > left || step->n > MAX_ARGUMENTS) break;
    for (int i = 0; i < step->n; ++i, *at += BYTES_OF_ARGUMENT)
      step->arguments[i] = (Argument){(uint8_t)bytes[*at], (uint8_t)bytes[*at + 1],
                                      (uint8_t)bytes[*at + 2], (uint8_t)bytes[*at + 3]};
    return name + length + (name[length] == ' ');
  }
  PyErr_Format(PyExc_ValueError, "direct: %s: no operation with %i arguments", name, left);
  return NULL;
}

/* Returns the number of steps in `names`, which spaces separate, or 0 with an exception set. */
static int read_steps(const char* names, const char* bytes, Py_ssize_t size, Step* steps,
                      int most) {
  Py_ssize_t at = 0;
  int n = 0;
  const char* rest = names;
  while (*rest && n < most) {
    if (!(rest = read_step(rest, bytes, size, &at, &steps[n]))) return 0;
    ++n;
  }
  if (n && !*rest && at == size) return n;
  PyErr_Format(PyExc_ValueError,
               "direct: %s: expected 1 to %i operations and their arguments, got %zd arguments",
               names, most, size / BYTES_OF_ARGUMENT);
  return 0;
}

static int read_slots(const char* bytes, Py_ssize_t size, Slots* out) {
  out->n = (uint8_t)size;
  if (size <= MAX_SLOTS) memcpy(out->slots, bytes, (size_t)size);
  return size <= MAX_SLOTS;
}

/* Returns the number of slots in use after a step that begins with n, or MAX_SLOTS + 1 if it reads
 * an unused slot. */
static int slots_after(const Step* step, int n) {
  for (int i = 0; i < step->n; ++i) {
    const Argument* a = &step->arguments[i];
    const int reads = a->source + (a->origin == NEW_GATED ? 2 : a->origin == NEW_LOSS ? 1 : 0);
    if ((a->origin == FROM_SLOT || a->origin >= NEW_LIKE) && reads >= n) return MAX_SLOTS + 1;
    if (a->origin > NEW_PAIR) return MAX_SLOTS + 1;
    n += a->origin >= NEW_LIKE;
  }
  return n;
}

/* Records in the step's hints which arguments the plan creates. *made: bits of created slots; n
 * slots are in use before. */
static int give_hints(Step* step, int n, uint32_t* made) {
  for (int i = 0; i < step->n; ++i) {
    const Argument* a = &step->arguments[i];
    if (a->origin >= NEW_LIKE) *made |= (uint32_t)(a->origin != NEW_OVER) << n;
    const int slot = a->origin >= NEW_LIKE ? n++ : a->source;
    const int has_slot = a->origin == FROM_SLOT || a->origin >= NEW_LIKE;
    step->hints[i] = (ArgumentHint){(uint8_t)(has_slot && (*made >> slot & 1)), a->part};
  }
  return n;
}

static int are_there(const Slots* slots, int n, int or_nothing) {
  for (int i = 0; i < slots->n; ++i) {
    if (slots->slots[i] >= n && !(or_nothing && slots->slots[i] == NOTHING)) return 0;
  }
  return 1;
}

static void give_all_hints(Plan* plan) {
  uint32_t made = 0;
  give_hints(&plan->forward_step, plan->n_inputs, &made);
  made = 0;
  int n = plan->n_gradients + plan->saved.n;
  for (int i = 0; i < plan->n_steps; ++i) n = give_hints(&plan->backward_steps[i], n, &made);
}

static int is_sound(const Plan* plan) {
  if (plan->n_inputs < 1 || plan->n_inputs > 8 || plan->n_gradients < 1 ||
      plan->n_gradients > MAX_SLOTS)
    return 0;
  const int forward_slots = slots_after(&plan->forward_step, plan->n_inputs);
  int backward_slots = plan->n_gradients + plan->saved.n;
  for (int i = 0; i < plan->n_steps && backward_slots <= MAX_SLOTS; ++i)
    backward_slots = slots_after(&plan->backward_steps[i], backward_slots);
  return forward_slots <= MAX_SLOTS && backward_slots <= MAX_SLOTS &&
         are_there(&plan->saved, forward_slots, 0) &&
         are_there(&plan->returned, forward_slots, 1) &&
         are_there(&plan->gradients, backward_slots, 1) && plan->returned.n == plan->n_gradients &&
         plan->gradients.n == plan->n_inputs;
}

static int make_room_for_a_plan(void) {
  if (n_plans < room_for_plans) return 1;
  const int room = room_for_plans ? 2 * room_for_plans : 32;
  Plan** more = PyMem_Realloc(plans, (size_t)room * sizeof *plans);
  if (!more) return 0;
  plans = more;
  room_for_plans = room;
  return 1;
}

int bind_add_direct_constants(PyObject* module) {
#define NAMED(name) \
  { "DIRECT_" #name, name }
  static const struct {
    const char* name;
    int value;
  } constants[] = {NAMED(FROM_SLOT),        NAMED(FROM_NUMBER),   NAMED(FROM_ZERO),
                   NAMED(FROM_NONE),        NAMED(NEW_LIKE),      NAMED(NEW_ROWS),
                   NAMED(NEW_GATED),        NAMED(NEW_LOSS),      NAMED(NEW_OVER),
                   NAMED(NEW_PAIR),         NAMED(KEEPS_NONE),    NAMED(NOTHING),
                   NAMED(COLUMNS_TOGETHER), NAMED(REPORTS_LABELS)};
#undef NAMED
  for (size_t i = 0; i < sizeof constants / sizeof constants[0]; ++i) {
    if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) != 0) return 0;
  }
  return 1;
}

static PyMethodDef forward_method = {"forward", (PyCFunction)(void (*)(void))forward, METH_FASTCALL,
                                     NULL};
static PyMethodDef backward_method = {"apply", (PyCFunction)(void (*)(void))backward, METH_FASTCALL,
                                      NULL};

PyObject* bind_direct_forward(PyObject* self, PyObject* args) {
  (void)self;
  const char *forward_name, *backward_name, *bytes[5];
  Py_ssize_t sizes[5];
  PyObject* function;
  Plan read = {0};
  if (!grad_enabled) {
    PyErr_SetString(PyExc_RuntimeError, "direct_forward: import ligerdsl.torch first");
    return NULL;
  }
  if (!PyArg_ParseTuple(args, "Oiiisy#sy#y#y#y#", &function, &read.n_inputs, &read.n_gradients,
                        &read.flags, &forward_name, &bytes[0], &sizes[0], &backward_name, &bytes[1],
                        &sizes[1], &bytes[2], &sizes[2], &bytes[3], &sizes[3], &bytes[4],
                        &sizes[4]))
    return NULL;
  if (!read_steps(forward_name, bytes[0], sizes[0], &read.forward_step, 1) ||
      !(read.n_steps =
            read_steps(backward_name, bytes[1], sizes[1], read.backward_steps, MAX_STEPS)))
    return NULL;
  if (!read_slots(bytes[2], sizes[2], &read.saved) ||
      !read_slots(bytes[3], sizes[3], &read.returned) ||
      !read_slots(bytes[4], sizes[4], &read.gradients) || !is_sound(&read)) {
    PyErr_Format(PyExc_ValueError, "direct: %s, %s: the tensors of the plan are inconsistent",
                 forward_name, backward_name);
    return NULL;
  }
  give_all_hints(&read);
  for (int i = 0; i < read.n_steps; ++i) {
    for (int k = 0; k < read.backward_steps[i].n; ++k) {
      const Argument* a = &read.backward_steps[i].arguments[k];
      read.spends |= a->origin == NEW_OVER && a->source >= read.n_gradients;
    }
  }
  for (int i = 0; i < read.forward_step.n; ++i)
    read.chooses |= read.forward_step.arguments[i].wanted != 0;
  if (!make_room_for_a_plan()) return PyErr_NoMemory();
  Plan* plan = PyMem_Malloc(sizeof *plan);
  if (!plan) return PyErr_NoMemory();
  read.backward_class = NULL;
  read.apply = NULL;
  Py_INCREF(function);
  read.forward = function;
  *plan = read;
  plans[n_plans++] = plan;
  PyObject* capsule = PyCapsule_New(plan, NULL, NULL);
  PyObject* made = capsule ? PyCFunction_New(&forward_method, capsule) : NULL;
  Py_XDECREF(capsule);
  return made;
}

PyObject* bind_direct_backward(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  (void)self;
  Plan* plan = NULL;
  if (n == 2 && PyCFunction_CheckExact(args[0]) && PyType_Check(args[1])) {
    PyObject* capsule = PyCFunction_GetSelf(args[0]);
    plan = capsule && PyCapsule_CheckExact(capsule) ? PyCapsule_GetPointer(capsule, NULL) : NULL;
  }
  if (!plan) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError,
                      "direct_backward: expected direct_forward's result and a type");
    return NULL;
  }
  PyObject* own = PyObject_GetAttrString(args[1], "apply");
  PyObject* method = own ? PyDescr_NewMethod((PyTypeObject*)args[1], &backward_method) : NULL;
  if (!method || PyObject_SetAttrString(args[1], "apply", method) != 0) {
    Py_XDECREF(own);
    Py_XDECREF(method);
    return NULL;
  }
  Py_DECREF(method);
  Py_INCREF(args[1]);
  plan->apply = own;
  plan->backward_class = (PyTypeObject*)args[1];
  Py_RETURN_NONE;
}

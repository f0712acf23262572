#include <dlfcn.h>
#include <stdarg.h>

#include "bind.h"

Library library;
static PyObject* make_error;

static int find(void* handle, const char* name, void* out) {
  void* symbol = dlsym(handle, name);
  if (!symbol)
    PyErr_Format(PyExc_ImportError,
                 "the library has no function %s, so it is of another version; install the library "
                 "and the package of one release",
                 name);
  *(void**)out = symbol;
  return symbol != NULL;
}

PyObject* bind_load(PyObject* self, PyObject* path) {
  (void)self;
  const char* file = PyUnicode_AsUTF8AndSize(path, NULL);
  if (!file) return NULL;
  if (library.ligerdsl_version) {
    PyErr_SetString(PyExc_RuntimeError, "the library is loaded already");
    return NULL;
  }
  void* handle =
      dlopen(file, RTLD_NOW | RTLD_LOCAL);  // never closed: contexts live as long as the process
  if (!handle) {
    PyErr_SetString(PyExc_ImportError, dlerror());
    return NULL;
  }
  Library found;
#define BIND_FIND(name) \
  if (!find(handle, #name, &found.name)) return NULL;
  BIND_FUNCTIONS(BIND_FIND)
#undef BIND_FIND
  const uint32_t version = found.ligerdsl_version();
  if (version / 100 != LIGERDSL_VERSION / 100) {
    PyErr_Format(
        PyExc_ImportError,
        "%s has version %u, but the Python package has version %u; install both from one release",
        file, version, LIGERDSL_VERSION);
    return NULL;
  }
  for (int i = 0; i < bind_n_operations; ++i) {
    if (!find(handle, bind_operations[i].symbol, &bind_functions[i])) return NULL;
  }
  library = found;
  Py_RETURN_NONE;
}

int bind_loaded(void) {
  if (library.ligerdsl_version) return 1;
  PyErr_SetString(PyExc_RuntimeError, "ligerdsl._bind has no library yet; import ligerdsl");
  return 0;
}

PyObject* bind_set_error(PyObject* self, PyObject* make) {
  (void)self;
  if (!PyCallable_Check(make)) {
    PyErr_SetString(PyExc_TypeError, "set_error: expected a function");
    return NULL;
  }
  Py_INCREF(make);
  PyObject* before = make_error;
  make_error = make;
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

static PyObject* raise(ligerdsl_status_t status, PyObject* text) {
  if (!text) return NULL;
  if (!make_error) {
    PyErr_SetObject(PyExc_RuntimeError, text);
  } else {
    PyObject* error = PyObject_CallFunction(make_error, "isO", (int)status,
                                            library.ligerdsl_status_name(status), text);
    if (error) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
    Py_XDECREF(error);
  }
  Py_DECREF(text);
  return NULL;
}

PyObject* bind_raise(ligerdsl_status_t status) {
  const char* text = library.ligerdsl_last_error();
  return raise(status, PyUnicode_DecodeUTF8(text, (Py_ssize_t)__builtin_strlen(text), "replace"));
}

PyObject* bind_raise_text(ligerdsl_status_t status, const char* format, ...) {
  va_list list;
  va_start(list, format);
  PyObject* text = PyUnicode_FromFormatV(format, list);
  va_end(list);
  return raise(status, text);
}

#include "bind.h"

static PyObject* build_info(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return bind_loaded() ? PyUnicode_FromString(library.ligerdsl_build_info()) : NULL;
}

static PyMethodDef functions[] = {
    {"build_info", build_info, METH_NOARGS, NULL},
    {"load", bind_load, METH_O, NULL},
    {"set_error", bind_set_error, METH_O, NULL},
    {"set_torch", (PyCFunction)(void (*)(void))bind_set_torch, METH_FASTCALL, NULL},
    {"plain", (PyCFunction)(void (*)(void))bind_plain, METH_FASTCALL, NULL},
    {"set_autograd", (PyCFunction)(void (*)(void))bind_set_autograd, METH_FASTCALL, NULL},
    {"set_main_grad", bind_set_main_grad, METH_O, NULL},
    {"direct_forward", bind_direct_forward, METH_VARARGS, NULL},
    {"direct_backward", (PyCFunction)(void (*)(void))bind_direct_backward, METH_FASTCALL, NULL},
    {"set_workspace", bind_set_workspace, METH_O, NULL},
    {"set_raw_workspace", (PyCFunction)(void (*)(void))bind_set_raw_workspace, METH_FASTCALL, NULL},
    {"set_check_labels", bind_set_check_labels, METH_O, NULL},
    {"poll", bind_poll_all, METH_NOARGS, NULL},
    {"check", bind_check, METH_O, NULL},
    {"calls", bind_calls, METH_O, NULL},
    {"devices", bind_devices, METH_NOARGS, NULL},
    {"open_device", (PyCFunction)(void (*)(void))bind_open_device, METH_FASTCALL, NULL},
    {"kernel_create", (PyCFunction)(void (*)(void))bind_kernel_create, METH_FASTCALL, NULL},
    {"kernel_parameters", bind_kernel_parameters, METH_O, NULL},
    {"kernel_launch", (PyCFunction)(void (*)(void))bind_kernel_launch, METH_FASTCALL, NULL},
    {"target", (PyCFunction)(void (*)(void))bind_target, METH_FASTCALL, NULL},
    {"look", bind_look, METH_O, NULL},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "ligerdsl._bind",
    "Operations of libligerdsl on arrays; the package's modules wrap it.",
    -1,
    functions,
    NULL,
    NULL,
    NULL,
    NULL};

PyMODINIT_FUNC PyInit__bind(void) {
  PyObject* module = PyModule_Create(&definition);
  if (module && (PyModule_AddFunctions(module, bind_operation_methods) != 0 ||
                 !bind_add_direct_constants(module))) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}

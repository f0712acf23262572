"""Your own kernels on arrays, from the shared objects of `ligerdsl --load FILE.so`.

    kernels = ligerdsl.load("libmine.so")
    kernels["bias_gelu"](x=x, bias=b, y=y, cols=4096, block=1024)

Pass the kernel's arguments and the fields of its Meta by name. The first call with new field values
records and compiles."""

import ctypes as c
import os

from . import _bind, library  # noqa: F401  imported because it loads libligerdsl.so
from .errors import InvalidArgument

AUTHOR_VERSION = 2
MOST_KNOWN = 1024  # largest number of cached launches per kernel


class _Bytes(c.Structure):
    _fields_ = [("data", c.c_void_p), ("size", c.c_size_t)]


class _Argument(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("rank", c.c_int32),
                ("dims", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)),
                ("number", c.c_double), ("is_integer", c.c_int32), ("is_pointer", c.c_int32),
                ("integer", c.c_int64)]


class _Launch(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("grid", c.c_int64 * 3), ("num_warps", c.c_int32),
                ("num_ctas", c.c_int32), ("num_stages", c.c_int32), ("min_ctas_per_sm", c.c_int32),
                ("max_registers", c.c_int32), ("no_alias", c.c_int32)]


_OUT = c.POINTER(_Bytes)
_FUNCTIONS = [("count", c.CFUNCTYPE(c.c_size_t)),
              ("describe", c.CFUNCTYPE(c.c_int32, c.c_size_t, _OUT, _OUT, _OUT, _OUT)),
              ("record", c.CFUNCTYPE(c.c_int32, c.c_size_t, c.c_char_p, _OUT, _OUT)),
              ("launch",
               c.CFUNCTYPE(c.c_int32, c.c_size_t, c.c_char_p, c.POINTER(_Argument), c.c_size_t,
                           c.POINTER(_Launch), _OUT)),
              ("free_bytes", c.CFUNCTYPE(None, _Bytes)),
              ("record_for",
               c.CFUNCTYPE(c.c_int32, c.c_size_t, c.c_char_p, c.c_char_p, c.c_size_t, _OUT, _OUT)),
              ("launch_for",
               c.CFUNCTYPE(c.c_int32, c.c_size_t, c.c_char_p, c.c_char_p, c.c_size_t,
                           c.POINTER(_Argument), c.c_size_t, c.POINTER(_Launch), _OUT))]


class _Table(c.Structure):
    _fields_ = [("version", c.c_uint32), ("struct_size", c.c_uint32)] + _FUNCTIONS


MOST_KERNELS = 65536  # largest number of kernels in a shared object
# functions that every table of this version has, even the oldest one
_REQUIRED = ("count", "describe", "record", "launch", "free_bytes")


class _Library:
    """The functions of one shared object."""

    def __init__(self, path):
        self.path = path = os.fspath(path)
        try:
            self.handle = c.CDLL(path if "/" in path else "./" + path)
        except OSError as error:
            raise InvalidArgument(f"load: {error}") from None
        try:
            entry = self.handle.ligerdsl_author_entry
        except AttributeError:
            raise InvalidArgument(f"load: {path} has no kernels; add LIGERDSL_EXPORT_KERNELS(); to "
                                  "one of its source files") from None
        entry.restype = c.POINTER(_Table)
        table = entry()
        if not table:
            raise InvalidArgument(f"load: {path}: ligerdsl_author_entry() returned NULL, expected "
                                  "a table; export the kernels with LIGERDSL_EXPORT_KERNELS();")
        self.table = table.contents
        if self.table.version != AUTHOR_VERSION:
            raise InvalidArgument(f"load: {path}: expected version {AUTHOR_VERSION} of the table "
                                  f"of kernels, got {self.table.version}; build the file with this "
                                  "library's headers")
        missing = [name for name in _REQUIRED if not self._has(name)]
        if missing:
            raise InvalidArgument(f"load: {path}: the table of kernels has no function "
                                  f"{', '.join(missing)}; export the kernels with "
                                  "LIGERDSL_EXPORT_KERNELS();")
        self.takes_targets = self._has("record_for") and self._has("launch_for")

    def _has(self, name):
        """Returns true if the table includes this function and its entry is not NULL."""
        field = getattr(_Table, name)
        return (
            self.table.struct_size >= field.offset + field.size and bool(getattr(self.table, name)))

    def count(self):
        count = self.table.count()
        if count > MOST_KERNELS:
            raise InvalidArgument(f"load: {self.path}: expected at most {MOST_KERNELS} kernels, "
                                  f"got {count}")
        return count

    def take(self, given):
        value = c.string_at(given.data, given.size) if given.data and given.size else b""
        self.table.free_bytes(given)
        return value

    def check(self, status, error):
        if status:
            text = self.take(error).decode(errors="replace").removeprefix("error: ")
            raise InvalidArgument(
                text or f"{self.path}: the kernel's function failed and gave no message")

    def describe(self, index):
        name, description, fields, error = _Bytes(), _Bytes(), _Bytes(), _Bytes()
        self.check(self.table.describe(index, name, description, fields, error), error)
        return [self.take(each).decode(errors="replace") for each in (name, description, fields)]

    def record(self, index, settings, target):
        program, error = _Bytes(), _Bytes()
        place = (target, len(target)) if self.takes_targets else ()
        function = self.table.record_for if self.takes_targets else self.table.record
        self.check(function(index, settings.encode(), *place, program, error), error)
        return self.take(program)

    def launch(self, index, settings, target, arguments):
        launch, error = _Launch(c.sizeof(_Launch)), _Bytes()
        array = (_Argument * len(arguments))(*arguments)
        place = (target, len(target)) if self.takes_targets else ()
        function = self.table.launch_for if self.takes_targets else self.table.launch
        self.check(function(index, settings.encode(), *place, array, len(arguments), launch, error),
                   error)
        return launch


_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
           "int16": "i16", "int8": "i8", "bool": "i1"}


def _setting(value):
    """Returns a field's value in the syntax of the author's library: a number, a string
    or a dtype name."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (int, float, str)):
        return str(value)
    name = getattr(value, "__name__", None) or str(value)
    name = name.rpartition(".")[2]
    return _DTYPES.get(name, name)


def _described(name, value):
    """Returns an argument for the launch rule, its part of the cache key, and its device or
    None."""
    argument = _Argument(c.sizeof(_Argument), name.encode())
    if isinstance(value, (bool, int)):
        argument.is_integer, argument.integer, argument.number = 1, value, float(value)
        return argument, (name, value), None
    if isinstance(value, float):
        argument.number = value
        return argument, (name, value), None
    if isinstance(value, str):
        raise InvalidArgument(f"'{name}': expected an array or a number, because the kernel has no "
                              f"field with this name; got {value!r}")
    kind, number, _, shape, strides = _bind.look(value)
    argument.rank = len(shape)
    argument.dims = (c.c_int64 * len(shape))(*shape)
    argument.strides = (c.c_int64 * len(shape))(*strides)
    return argument, (name, shape, strides), (kind, number)


class Kernel:
    """One kernel of a shared object; call it with its arguments and fields by name."""

    def __init__(self, owner, index):
        self._owner, self._index = owner, index
        self.name, self.description, fields = owner.describe(index)
        lines = [line.split("\t") for line in fields.splitlines()]
        short = next((line for line in lines if len(line) < 3), None)
        if short is not None:
            raise InvalidArgument(f"load: {owner.path}: kernel '{self.name}': expected a field's "
                                  f"name, type and default between tabs, got {short!r}")
        self.fields = {line[0]: line[2] for line in lines}  # fields with their defaults
        self._programs, self._kernels, self._launches = {}, {}, {}

    def __repr__(self):
        return f"<ligerdsl kernel {self.name}: {self.description}>"

    def __call__(self, **given):
        settings = ",".join(f"{name}={_setting(given[name])}" for name in self.fields
                            if name in given)
        arguments = {name: value for name, value in given.items() if name not in self.fields}
        described = [_described(name, value) for name, value in arguments.items()]
        devices = {device for _, _, device in described if device}
        if len(devices) != 1:
            raise InvalidArgument(f"{self.name}: expected arrays on one device, got "
                                  f"{sorted(devices) or 'no array'}")
        device = devices.pop()
        key = (settings, device, tuple(key for _, key, _ in described))
        if key not in self._launches:
            if len(self._launches) == MOST_KNOWN:
                self._launches.clear()
            self._launches[key] = self._prepare(settings, device,
                                                [argument for argument, _, _ in described])
        kernel, names, grid = self._launches[key]
        _bind.kernel_launch(kernel, *grid, *self._in_order(names, arguments, grid))

    def _prepare(self, settings, device, arguments):
        target = _bind.target(*device)
        launch = self._owner.launch(self._index, settings, target, arguments)
        if (settings, device) not in self._programs:
            self._programs[settings, device] = self._owner.record(self._index, settings, target)
        resources = (launch.num_warps, launch.num_ctas, launch.num_stages, launch.max_registers,
                     launch.no_alias, launch.min_ctas_per_sm)
        key = (settings, device, resources)
        if key not in self._kernels:
            self._kernels[key] = _bind.kernel_create(*device, self._programs[settings, device],
                                                     *resources)
        kernel = self._kernels[key]
        return kernel, [row[0] for row in _bind.kernel_parameters(kernel)], tuple(launch.grid)

    def _in_order(self, names, arguments, grid):
        """Returns the arguments in the kernel's order.

        A kernel with a dynamic persistent schedule has two hidden first arguments: the counter and
        the number of programs."""
        hidden = (
            names[:2] if names and names[0] == "next_program" and "next_program" not in arguments
            else [])
        shown = names[len(hidden):]
        missing = [name for name in shown if name not in arguments]
        unknown = [name for name in arguments if name not in shown]
        if missing or unknown:
            text = ([f"missing {', '.join(missing)}"] * bool(missing)
                    + [f"unknown {', '.join(unknown)}"] * bool(unknown))
            fields = f"; fields: {', '.join(self.fields)}" if self.fields else ""
            raise InvalidArgument(f"{self.name}: {'; '.join(text)}; arguments: "
                                  f"{', '.join(shown)}{fields}")
        first = next(value for value in arguments.values()
                     if not isinstance(value, (bool, int, float)))
        return ([_zero(first), grid[0]] if hidden else []) + [arguments[name] for name in shown]


def _zero(like):
    """Returns one i32 that is 0, with the array library and device of `like`."""
    from .arrays import empty
    counter = empty(like, (1,), "i32")
    counter[:] = 0
    return counter


def load(path):
    """Returns the kernels of a shared object, by name."""
    owner = _Library(path)
    kernels = [Kernel(owner, index) for index in range(owner.count())]
    return {kernel.name: kernel for kernel in kernels}

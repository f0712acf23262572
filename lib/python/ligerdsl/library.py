"""Finds and loads libligerdsl.so, and wraps the functions that query it."""

import os
import pathlib
import platform
import sys

from . import _bind, errors

HERE = pathlib.Path(__file__).absolute().parent
# LIGERDSL_LIBRARY names another build of the library, for its developers.
PATH = pathlib.Path(os.environ.get("LIGERDSL_LIBRARY") or HERE / "lib" / "libligerdsl.so")

_bind.set_error(errors.make)
_bind.load(str(PATH))


def build_info():
    """Returns the version and build id of the library."""
    return _bind.build_info()


def version():
    return build_info().split("-")[0]


def calls(operation):
    """Returns how often an operation ran in this process. `operation`: its name, such as
    "rms_norm_forward"."""
    return _bind.calls(operation)


def poll():
    """Raises LabelError if a kernel has reported a label or index out of bounds, and BoundsError
    for the bounds of groups or sequences. Does not wait for running kernels."""
    _bind.poll()


def check(array):
    """Waits for the stream on the array's device, then calls poll()."""
    _bind.check(array)


def doctor():
    """Returns a text that lists which parts work on this machine, and why others do not."""
    lines = [f"ligerdsl   {build_info()}", f"library    {PATH}",
             f"python     {platform.python_version()} {sys.executable}"]
    torch = sys.modules.get("torch")
    if torch:
        exchange = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
        lines.append(f"torch      {torch.__version__}, read by "
                     f"{'its C exchange API' if exchange else 'attributes'}")
    else:
        lines.append("torch      not imported")
    devices = [(1, 0, "cpu")]
    if torch and torch.cuda.is_available():
        devices += [(2, i, f"cuda:{i} {torch.cuda.get_device_name(i)}")
                    for i in range(torch.cuda.device_count())]
    for kind, number, name in devices:
        try:
            _bind.open_device(kind, number)
            lines.append(f"{name:10} ready")
        except errors.Error as error:
            lines.append(f"{name:10} {error}")
    lines.append(f"compiler   {_compiler()}")
    return "\n".join(lines)


def _compiler():
    """Returns "works" if vector_add on two numbers compiles and runs, else the error."""
    import array
    from .arrays import Host
    a, b, out = (Host(array.array("f", values)) for values in ([1, 2], [3, 4], [0, 0]))
    try:
        _bind.vector_add(a, b, out)
    except errors.Error as error:
        return str(error)
    return (
        "works" if list(out.values) == [4.0, 6.0] else f"wrong: 1 + 3, 2 + 4 = {list(out.values)}")

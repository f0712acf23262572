"""Exceptions with the library's text and status. All are subclasses of Error."""


class Error(RuntimeError):
    """`status`: number from ligerdsl.h; `name`: its name, for example "INVALID_SHAPE"."""

    status, name = 4000, "INTERNAL_ERROR"


class InvalidArgument(Error, ValueError):
    """The call is invalid: a shape, dtype or device is wrong, or a number is out of range."""


class LabelError(InvalidArgument, IndexError):
    """A label or an index was out of bounds. The text names the operation and the row."""


class BoundsError(InvalidArgument, IndexError):
    """Group offsets or sequence bounds were out of bounds. The text names the operation and the
    group or sequence."""


class NotSupported(Error, NotImplementedError):
    """The request is valid but is not supported here."""


class CompileError(Error):
    """The compiler or the library failed."""


class ExecutionError(Error):
    """A launch failed, or memory was not available."""


class CopyWarning(UserWarning):
    """A tensor was copied to make it contiguous; ligerdsl.torch.config.copies counts the copies."""


# class of errors by status // 1000
CLASSES = {2: InvalidArgument, 3: NotSupported, 4: CompileError, 5: ExecutionError}
OWN_CLASSES = {2007: LabelError, 2010: BoundsError}  # key: status


def make(status, name, text):
    kind = OWN_CLASSES.get(status) or CLASSES.get(status // 1000, Error)
    error = kind(f"{name}: {text}")
    error.status, error.name = status, name
    return error

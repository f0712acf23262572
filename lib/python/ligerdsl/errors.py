"""Exceptions with the library's text. All of the library's are an Error, and have its status."""


class Error(RuntimeError):
    """`status`: the number of ligerdsl.h; `name`: its name, "INVALID_SHAPE"."""

    status, name = 4000, "INTERNAL_ERROR"


class InvalidArgument(Error, ValueError):
    """The call is wrong: a shape, a dtype, a device, a number out of its range."""


class LabelError(InvalidArgument, IndexError):
    """A label or an index was out of bounds. Says operation and row."""


class BoundsError(InvalidArgument, IndexError):
    """Offsets of groups or bounds of sequences were out of bounds. Says operation and group or sequence."""


class NotSupported(Error, NotImplementedError):
    """What was asked for is not to be had here."""


class CompileError(Error):
    """The compiler or the library failed."""


class ExecutionError(Error):
    """A launch failed, or memory was not to be had."""


class CopyWarning(UserWarning):
    """A tensor was copied to be contiguous; ligerdsl.torch.config.copies counts."""


CLASSES = {2: InvalidArgument, 3: NotSupported, 4: CompileError, 5: ExecutionError}  # by the thousands of a status
OWN_CLASSES = {2007: LabelError, 2010: BoundsError}  # by status


def make(status, name, text):
    kind = OWN_CLASSES.get(status) or CLASSES.get(status // 1000, Error)
    error = kind(f"{name}: {text}")
    error.status, error.name = status, name
    return error

"""The kernels to compare, one function each: build(context, *shape, dtype) -> Case.

Every module of this folder is imported. common.py's `case` registers a function by its name.
"""

import importlib
import pkgutil

from .common import BUILDERS, DTYPES, GATES, Case, Contender, Pass, nbytes, placed

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")


def build(context, wanted):
    """Returns the case of a sets.Wanted on the context's device."""
    with placed(wanted.address, wanted.pitch):
        return BUILDERS[wanted.kernel](context, *wanted.shape, dtype=DTYPES[wanted.dtype])

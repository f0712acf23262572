"""The C ABI's operations in the order of ops.h. Their rows are in kernels/<family>/<name>.op.py,
sorted by family, then by file.

A row's text becomes the comment in ops.h. It must be complete, so it refers to no other document.
"""

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rows_of(path):
    """Returns the rows of one file. `place` is its path without .op.py.

    The rows' `kind` and `title` are the file's KIND and TITLE.
    """
    place = path.relative_to(ROOT).as_posix().removesuffix(".op.py")
    spec = importlib.util.spec_from_file_location(place.replace("/", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for op in module.OPS:
        op.place, op.kind, op.title = place, module.KIND, module.TITLE
    return module.OPS


OPS = [op for path in sorted((ROOT / "kernels").glob("*/*.op.py")) for op in rows_of(path)]

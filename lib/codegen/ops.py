"""The operations of the C ABI, in the order of ops.h: kernels/<family>/<name>.op.py hold their
rows, sorted by family, then by file.

A row's text becomes the comment in ops.h. It must be complete, so it refers to no other document.
"""

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rows_of(path):
    """Returns the rows of one file. `place` is its path without .op.py.

    `kind` and `title` are its KIND and TITLE.
    """
    place = path.relative_to(ROOT).as_posix().removesuffix(".op.py")
    spec = importlib.util.spec_from_file_location(place.replace("/", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for op in module.OPS:
        op.place, op.kind, op.title = place, module.KIND, module.TITLE
    return module.OPS


OPS = [op for path in sorted((ROOT / "kernels").glob("*/*.op.py")) for op in rows_of(path)]

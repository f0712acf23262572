"""python_functions.py: checks that functional.py publishes the functions of ligerdsl.torch.

functional.py, or another file, imports each public function of the files that functional.py names.
"""

import ast
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "lib/python/ligerdsl"
FILES = {path: ast.parse(path.read_text()) for path in FOLDER.rglob("*.py")}
imported = {name.name for tree in FILES.values() for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) for name in node.names}
failures = []

for node in FILES[FOLDER / "torch/functional.py"].body:
    if isinstance(node, ast.ImportFrom):
        failures += [
            f"{node.module}.py: functional.py does not import {each.name}; nor does another file"
            for each in FILES[FOLDER / f"torch/{node.module}.py"].body if isinstance(
                each, ast.FunctionDef) and each.name[0] != "_" and each.name not in imported
        ]

print("\n".join(failures))
sys.exit(bool(failures))

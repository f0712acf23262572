"""python_functions.py: checks that functional.py publishes the functions of ligerdsl.torch.

Each public function of the files from which functional.py imports must be imported by functional.py
or by another file.
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
            f"{node.module}.py: no file imports {each.name}; import it in functional.py, or begin "
            "its name with an underscore"
            for each in FILES[FOLDER / f"torch/{node.module}.py"].body if isinstance(
                each, ast.FunctionDef) and each.name[0] != "_" and each.name not in imported
        ]

print("\n".join(failures))
sys.exit(bool(failures))

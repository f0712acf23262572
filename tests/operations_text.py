"""operations_text.py: checks how ops.h wraps the text of the operations (lib/codegen/ops.py).

No word is lost. No line outside macros is too long; words that do not fit begin the next line.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib/codegen"))
from emit_header import emit, wrapped
from ops import OPS

WIDTH = 100
failures = []


def expect(condition, message):
    if not condition:
        failures.append(str(message))


for op in OPS:
    lines = wrapped(op.doc, WIDTH)
    expect(" ".join(lines).split() == op.doc.split(), f"{op.name}: wrapping changed the words of "
                                                      "the table's text")
    expect(max(map(len, lines)) <= WIDTH, f"{op.name}: expected lines of at most {WIDTH} "
                                          "characters, got one of "
           f"{max(map(len, lines))}")
for line in emit(OPS).splitlines():
    macro = line.startswith("#define") or line.endswith("\\")
    expect(len(line) <= WIDTH or macro, f"ops.h: expected at most {WIDTH} characters, got "
                                        f"{len(line)}: {line}")
for text, lines, why in [
        ("a bb cc\ndd ee", ["a bb", "cc dd", "ee"], "words that do not fit begin the next line"),
        ("a bb c.\ndd", ["a bb", "c.", "dd"], "the end of a sentence keeps its line"),
        ("a bb cc\n  dd", ["a bb", "cc", "  dd"], "nothing moves into an indented line"),
        ("a\n\nb c", ["a", "", "b c"], "lines that fit stay")]:
    expect(wrapped(text, 5) == lines, f"{why}: expected {lines}, got {wrapped(text, 5)}")

print("\n".join(failures))
sys.exit(bool(failures))

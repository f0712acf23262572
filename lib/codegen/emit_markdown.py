"""Writes docs/operations.md, the text of ops.h for readers without a build.

Also writes the README's table of operations.
"""

import textwrap

from emit_header import CONSTANTS, CONVENTIONS, field_note, with_range, wrapped
from table import Tensor, TensorList, Value

INTRODUCTION = """\
# Operations

Generated from `lib/codegen/ops.py` by `lib/codegen/reference.py`. The build makes `ligerdsl/ops.h`
from the same table. `ligerdsl.h` explains descriptors, plans, contexts and tensors. Every operation
NAME has

```c
ligerdsl_NAME_desc_t desc = LIGERDSL_NAME_DESC_INIT;   /* descriptor: the defaults of the first table */
ligerdsl_NAME_args_t args = LIGERDSL_NAME_ARGS_INIT;   /* arguments: the defaults of the second table */
ligerdsl_NAME_plan(context, &desc, &plan);             /* may compile; ligerdsl_plan_workspace_bytes_for(plan, rows) */
ligerdsl_NAME_execute(plan, &args, workspace, workspace_bytes, stream);
ligerdsl_NAME(context, &desc, &args, stream);          /* both in one call, with its own workspace */
```

Each returns a `ligerdsl_status_t`.
"""


def cell(text):
    return text.replace("*", "\\*").replace("|", "\\|")


def table(header, rows):
    return ["| " + " | ".join(header) + " |",
            "|" + "---|" * len(header)] + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def number(value):
    text = str(value)
    return text[:-1] if text.endswith("f") else text


def default(field):
    if field.role in ("dim", "dtype", "queries") and field.source:
        return f"`0`: from `{field.source}`"
    return f"`{number(field.default)}`"


def field_row(field):
    return [f"`{field.name}`", field.ctype.removesuffix("_t"), default(field),
            cell(field_note(field))]


def argument_rows(argument):
    name = f"`{argument.name}`"
    if isinstance(argument, Tensor):
        shape = ("any shape described above" if argument.shape == "?"
                 else "`[" + ", ".join(argument.shape.split()) + "]`")
        given = {"": "always", "!": f"unless `{argument.given[1:]}`"}.get(
            argument.given[:1], f"with `{argument.given}`")
        return [[name, argument.direction, shape, argument.dtype, given, cell(argument.doc)]]
    if isinstance(argument, TensorList):
        return [[name, "in", "list", "", "always", cell(argument.doc)],
                [f"`n_{argument.name}`", "in", "", "int64", "`0`", "length of the list"]]
    assert isinstance(argument, Value)
    return [[name, "in", "number", argument.ctype.removesuffix("_t"),
             f"`{number(argument.default)}`", cell(with_range(argument.doc, argument))]]


def section(op):
    out = [f"## {op.name}", "", cell(op.brief) + ".", "", "```text", *wrapped(op.doc, 110), "```",
           ""]
    out += table(["descriptor", "type", "default", "meaning"], [field_row(f) for f in op.fields])
    out += table(["argument", "", "shape", "dtype", "passed, or default", "meaning"],
                 [row for a in op.args for row in argument_rows(a)])
    if op.aliases:
        pairs = ", ".join(f"`{output}` = `{input}`" for output, input in op.aliases)
        out += [f"May be the same memory when `in_place` is set: {pairs}. Other outputs overlap no "
                "argument.",
                ""]
    else:
        out += ["Outputs overlap no argument.", ""]
    return out + [f"Rows, for the workspace: {op.rows}.", ""]


def kinds(ops):
    """Returns the README's table: the titles of the operations of each kind."""
    titles = {}
    for op in ops:
        titles.setdefault(op.kind, {})[op.title] = op
    return "\n".join(table(["kind", "operations"],
                           [[kind, ", ".join(found)] for kind, found in titles.items()]))


def emit(ops):
    out = [INTRODUCTION, *textwrap.wrap(CONVENTIONS.replace("N*", "`N*`").replace("\n", " "), 100),
           "", "Values of options:", ""]
    out += [f"* {cell(text)}: " + ", ".join(f"`{name}` = {value}" for name, value in names)
            for text, names in CONSTANTS]
    out += ["", " · ".join(f"[{op.name}](#{op.name})" for op in ops), ""]
    for op in ops:
        out += section(op)
    return "\n".join(out).rstrip("\n") + "\n"

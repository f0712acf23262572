"""Writes ligerdsl/ops.h: enumerations, desc and args structs, their initialisers, and the functions
of every operation."""

import re
import textwrap

from table import DTYPES, Tensor, TensorList, Value, range_text

WIDTH = 100
FIXED_SPACE = "\0"  # a space at which lines are not wrapped
CONSTANTS = [
    ("Rounding of RMSNorm: LLAMA rounds x * rstd before it multiplies by the weight, and the "
     "result; GEMMA and NONE round only the result",
     [("LIGERDSL_CASTING_LLAMA", 0), ("LIGERDSL_CASTING_GEMMA", 1), ("LIGERDSL_CASTING_NONE", 2)]),
    ("Activation function of activation_*, gated_matmul_nt and gated_matmul_nt_backward",
     [("LIGERDSL_ACTIVATION_GELU_TANH", 0), ("LIGERDSL_ACTIVATION_GELU_ERF", 1),
      ("LIGERDSL_ACTIVATION_SILU", 2), ("LIGERDSL_ACTIVATION_RELU", 3),
      ("LIGERDSL_ACTIVATION_RELU_SQUARED", 4)]),
    ("Function that a matmul's epilogue applies to its accumulator, one of those of "
     "activation_forward",
     [("LIGERDSL_EPILOGUE_NONE", 0), ("LIGERDSL_EPILOGUE_GELU_TANH", 1),
      ("LIGERDSL_EPILOGUE_GELU_ERF", 2), ("LIGERDSL_EPILOGUE_SILU", 3),
      ("LIGERDSL_EPILOGUE_RELU", 4), ("LIGERDSL_EPILOGUE_RELU_SQUARED", 5)]),
    ("Implementation of the matmuls of fused linear operations. AUTO: chosen as the operation's "
     "comment says, mostly cuBLASLt or CBLAS if one is found. LIBRARY: cuBLASLt or CBLAS. KERNELS: "
     "the library's own kernels",
     [("LIGERDSL_PRODUCTS_AUTO", 0), ("LIGERDSL_PRODUCTS_LIBRARY", 1),
      ("LIGERDSL_PRODUCTS_KERNELS", 2)]),
    ("Pairs of columns of a head that rope rotates",
     [("LIGERDSL_ROPE_HALF", 0), ("LIGERDSL_ROPE_INTERLEAVED", 1),
      ("LIGERDSL_ROPE_MULTIMODAL", 2)]),
    ("Reduction of a loss over its rows. BATCHMEAN, the sum divided by the number of rows that "
     "count, is only for divergences; their MEAN divides by the number of elements",
     [("LIGERDSL_REDUCTION_NONE", 0), ("LIGERDSL_REDUCTION_SUM", 1), ("LIGERDSL_REDUCTION_MEAN", 2),
      ("LIGERDSL_REDUCTION_BATCHMEAN", 3)]),
    ("Rule for the rows per chunk of fused_linear_cross_entropy: WORKSPACE, the most that the "
     "workspace limit allows; PUBLISHED, the rule published with the method",
     [("LIGERDSL_CHUNKING_WORKSPACE", 0), ("LIGERDSL_CHUNKING_PUBLISHED", 1)]),
]

CONVENTIONS = """\
Letters are sizes. A star as in N* stands for any number of leading dimensions with one common
stride. A number before a letter multiplies it. The last dimension has stride 1, but labels and
indices may have any stride. Rows may have any stride. The number of rows may be 0. Then nothing is
launched, unless the operation describes results without rows. The one-call form derives a field that
is 0 from the tensors if they determine it: shapes, dtypes, in_place, and which tensors are NULL.
The plan form needs these fields. A number outside the range at the end of a comment is
INVALID_ARGUMENT. So are NaN and infinity, unless the comment allows infinity."""

PREAMBLE = """\
/* The operations of libligerdsl. Included by ligerdsl.h; generated from lib/codegen/ops.py. */
#ifndef LIGERDSL_OPS_H_
#define LIGERDSL_OPS_H_

#include "ligerdsl/ligerdsl.h"

#ifdef __cplusplus
extern "C" {
#endif

"""


def wrapped(text, width):
    """Returns the text's lines. A long line's overflow begins the next line, unless the next line
    is empty or indented, or the overflow ends a sentence."""
    lines, left = [], ""
    for line in text.split("\n"):
        if left and (left.endswith(".") or not line or line[0] == " "):
            lines.append(left)
            left = ""
        lead = len(line) - len(line.lstrip())
        pieces = textwrap.wrap(f"{left} {line}" if left else line, width,
                               subsequent_indent=" " * lead) or [""]
        left = pieces.pop() if len(pieces) > 1 else ""
        lines += pieces
    return [*lines, left] if left else lines


def comment(text, indent=""):
    lines = wrapped(text, 94 - len(indent))
    if len(lines) == 1:
        return f"{indent}/* {lines[0]} */"
    return f"{indent}/* " + f"\n{indent}   ".join(lines) + " */"


def declaration(text):
    """Returns the lines of an enum or a prototype. Lines break only after commas."""
    head, bracket, rest = text.partition("(") if "(" in text else ("", "", text)
    text = f"{head}{bracket} " + re.sub(r"(?<!,) ", FIXED_SPACE, rest)
    lines = textwrap.wrap(text, WIDTH, subsequent_indent="    ", break_long_words=False)
    return [line.replace("( ", "(").replace(FIXED_SPACE, " ") for line in lines]


def heading(op):
    title = f"---- {op.name}: {op.brief} "
    return comment(title + "-" * max(4, 94 - len(title)))


def field_note(f):
    note = f.doc
    if f.role == "dtype":
        allowed = (
            ", ".join(DTYPES[d] for d in f.dtypes) + (f", or 0 = {f.zero}" if f.optional else ""))
        note = f"{note + ': ' if note else ''}{allowed}"
    elif f.role == "dim":
        note = f"{f.symbol}: {f.doc}"
    elif not f.doc.startswith("1:") and (f.high is None or f.high < 2**31 - 1):
        note = with_range(note, f)
    return note


def with_range(note, f):
    range_ = range_text(f)
    return f"{note}; {range_}" if range_ else note


def tensor_note(t):
    shape = (
        "any shape described above" if t.shape == "?" else "[" + ", ".join(t.shape.split()) + "]")
    return f"{t.direction}, {shape} {t.dtype}: {t.doc}"


def member(declaration, note):
    """Returns the lines of a struct's member. A long comment is above the member, a short one after
    it."""
    line = f"  {declaration}; /* {note} */"
    return [line] if len(line) <= WIDTH else [comment(note, "  "), f"  {declaration};"]


def desc_struct(op):
    out = [f"typedef struct ligerdsl_{op.name}_desc {{", "  LIGERDSL_STRUCT_HEADER;"]
    for f in op.fields:
        out += member(f"{f.ctype} {f.name}", field_note(f))
    out.append(f"}} ligerdsl_{op.name}_desc_t;")
    defaults = ", ".join(str(f.default) for f in op.fields)
    out.append(f"#define LIGERDSL_{op.name.upper()}_DESC_INIT "
               f"{{LIGERDSL_HEADER_OF(ligerdsl_{op.name}_desc_t), {defaults}}}")
    return out


def args_struct(op):
    out, defaults = [f"typedef struct ligerdsl_{op.name}_args {{", "  LIGERDSL_STRUCT_HEADER;"], []
    for a in op.args:
        if isinstance(a, Tensor):
            out += member(f"const ligerdsl_tensor_t *{a.name}", tensor_note(a))
            defaults.append("LIGERDSL_NULL")
        elif isinstance(a, TensorList):
            out += member(f"const ligerdsl_tensor_t *{a.name}", a.doc)
            out.append(f"  int64_t n_{a.name};")
            defaults += ["LIGERDSL_NULL", "0"]
        elif isinstance(a, Value):
            out += member(f"{a.ctype} {a.name}", with_range(a.doc, a))
            defaults.append(str(a.default))
    out.append(f"}} ligerdsl_{op.name}_args_t;")
    out.append(f"#define LIGERDSL_{op.name.upper()}_ARGS_INIT "
               f"{{LIGERDSL_HEADER_OF(ligerdsl_{op.name}_args_t), {', '.join(defaults)}}}")
    return out


def functions(op):
    d, a = f"const ligerdsl_{op.name}_desc_t *desc", f"const ligerdsl_{op.name}_args_t *args"
    status = "LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t"
    texts = [f"{status} ligerdsl_{op.name}_plan(ligerdsl_context_t context, {d}, ligerdsl_plan_t "
             "*plan);",
             f"{status} ligerdsl_{op.name}_execute(ligerdsl_plan_t plan, {a}, void *workspace, "
             "size_t workspace_bytes, ligerdsl_stream_t stream);",
             f"{status} ligerdsl_{op.name}(ligerdsl_context_t context, {d}, {a}, ligerdsl_stream_t "
             "stream);"]
    return [line for text in texts for line in declaration(text)]


def for_each(ops):
    """Returns an X-macro over the table."""
    rows = [f'  X({op.name}, "{" ".join(t.name for t in op.tensors if t.direction != "in")}")'
            for op in ops]
    return ["/* Every operation and the tensors that it writes, for bindings and for tests of all "
            "operations. */",
            "#define LIGERDSL_FOR_EACH_OPERATION(X) \\"] + [row + " \\" for row in rows[:-1]] + [
        rows[-1], ""]


def emit(ops):
    out = [PREAMBLE]
    for text, names in CONSTANTS:
        enumerators = ", ".join(f"{name} = {value}" for name, value in names)
        out += [comment(text + "."), *declaration("enum { " + enumerators + " };")]
    out += ["", comment("Conventions of all comments. " + CONVENTIONS.replace("\n", " ")), ""]
    out += for_each(ops)
    for op in ops:
        out.append(heading(op))
        out.append(comment(op.doc + f"\nRows of the workspace: {op.rows}."))
        out += desc_struct(op) + args_struct(op) + functions(op) + [""]
    out += ["#ifdef __cplusplus", "}", "#endif", "", "#endif /* LIGERDSL_OPS_H_ */", ""]
    return "\n".join(out)

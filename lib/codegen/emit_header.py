"""Writes ligerdsl/ops.h: enumerations, desc and args structs, their initialisers, and the functions of every operation."""

import textwrap

from table import DTYPES, Tensor, TensorList, Value, range_text

CONSTANTS = [
    ("Where RMSNorm rounds: Llama rounds x * rstd before the weight, Gemma once at the end, None once at the end",
     [("LIGERDSL_CASTING_LLAMA", 0), ("LIGERDSL_CASTING_GEMMA", 1), ("LIGERDSL_CASTING_NONE", 2)]),
    ("The function of activation_forward, activation_backward, gated_matmul_nt and gated_matmul_nt_backward",
     [("LIGERDSL_ACTIVATION_GELU_TANH", 0), ("LIGERDSL_ACTIVATION_GELU_ERF", 1), ("LIGERDSL_ACTIVATION_SILU", 2),
      ("LIGERDSL_ACTIVATION_RELU", 3), ("LIGERDSL_ACTIVATION_RELU_SQUARED", 4)]),
    ("What a product's epilogue applies to its sums; the functions are those of activation_forward",
     [("LIGERDSL_EPILOGUE_NONE", 0), ("LIGERDSL_EPILOGUE_GELU_TANH", 1), ("LIGERDSL_EPILOGUE_GELU_ERF", 2), ("LIGERDSL_EPILOGUE_SILU", 3),
      ("LIGERDSL_EPILOGUE_RELU", 4), ("LIGERDSL_EPILOGUE_RELU_SQUARED", 5)]),
    ("Who multiplies for the fused heads: what the operation says, mostly cuBLASLt or CBLAS where it is found; cuBLASLt or CBLAS; the own kernels",
     [("LIGERDSL_PRODUCTS_AUTO", 0), ("LIGERDSL_PRODUCTS_LIBRARY", 1), ("LIGERDSL_PRODUCTS_KERNELS", 2)]),
    ("Which columns of a head rope rotates against each other",
     [("LIGERDSL_ROPE_HALF", 0), ("LIGERDSL_ROPE_INTERLEAVED", 1), ("LIGERDSL_ROPE_MULTIMODAL", 2)]),
    ("What a loss is over its rows; BATCHMEAN, the sum by rows that count, is of divergences alone, whose MEAN is by elements",
     [("LIGERDSL_REDUCTION_NONE", 0), ("LIGERDSL_REDUCTION_SUM", 1), ("LIGERDSL_REDUCTION_MEAN", 2), ("LIGERDSL_REDUCTION_BATCHMEAN", 3)]),
    ("How fused_linear_cross_entropy chooses its chunks: by the memory they may take, or by the rule published with the method",
     [("LIGERDSL_CHUNKING_WORKSPACE", 0), ("LIGERDSL_CHUNKING_PUBLISHED", 1)]),
]

CONVENTIONS = """\
Letters are sizes, a star as in N* stands for any number of leading dimensions that are evenly strided, a number before
a letter multiplies it; the last dimension has a stride of 1; labels and indices may lie any even distance apart. Row
strides are free. Rows may be 0: nothing is launched, but where an operation says what comes of none.
The one-call form fills a field that is 0 in from the tensors where they say it: shapes, dtypes, in_place, and what is NULL
and what is not. The plan form needs it.
Numbers out of the range that ends a comment are INVALID_ARGUMENT, and so are NaN and, but where it is named, infinity."""

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
    """Lines as the table has them; what a longer one leaves over begins the next, unless that is indented or a sentence ended."""
    lines, left = [], ""
    for line in text.split("\n"):
        if left and (left.endswith(".") or not line or line[0] == " "):
            lines.append(left)
            left = ""
        lead = len(line) - len(line.lstrip())
        pieces = textwrap.wrap(f"{left} {line}" if left else line, width, subsequent_indent=" " * lead) or [""]
        left = pieces.pop() if len(pieces) > 1 else ""
        lines += pieces
    return [*lines, left] if left else lines


def comment(text, indent=""):
    lines = wrapped(text, 116 - len(indent))
    if len(lines) == 1:
        return f"{indent}/* {lines[0]} */"
    return f"{indent}/* " + f"\n{indent}   ".join(lines) + " */"


def field_note(f):
    note = f.doc
    if f.role == "dtype":
        allowed = ", ".join(DTYPES[d] for d in f.dtypes) + (f", or 0 = {f.zero}" if f.optional else "")
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
    shape = "any shape described above" if t.shape == "?" else "[" + ", ".join(t.shape.split()) + "]"
    return f"{t.direction}, {shape} {t.dtype}: {t.doc}"


def desc_struct(op):
    out = [f"typedef struct ligerdsl_{op.name}_desc {{", "  LIGERDSL_STRUCT_HEADER;"]
    out += [f"  {f.ctype} {f.name}; /* {field_note(f)} */" for f in op.fields]
    out.append(f"}} ligerdsl_{op.name}_desc_t;")
    defaults = ", ".join(str(f.default) for f in op.fields)
    out.append(f"#define LIGERDSL_{op.name.upper()}_DESC_INIT {{LIGERDSL_HEADER_OF(ligerdsl_{op.name}_desc_t), {defaults}}}")
    return out


def args_struct(op):
    out, defaults = [f"typedef struct ligerdsl_{op.name}_args {{", "  LIGERDSL_STRUCT_HEADER;"], []
    for a in op.args:
        if isinstance(a, Tensor):
            out.append(f"  const ligerdsl_tensor_t *{a.name}; /* {tensor_note(a)} */")
            defaults.append("LIGERDSL_NULL")
        elif isinstance(a, TensorList):
            out.append(f"  const ligerdsl_tensor_t *{a.name}; /* {a.doc} */")
            out.append(f"  int64_t n_{a.name};")
            defaults += ["LIGERDSL_NULL", "0"]
        elif isinstance(a, Value):
            out.append(f"  {a.ctype} {a.name}; /* {with_range(a.doc, a)} */")
            defaults.append(str(a.default))
    out.append(f"}} ligerdsl_{op.name}_args_t;")
    out.append(f"#define LIGERDSL_{op.name.upper()}_ARGS_INIT "
               f"{{LIGERDSL_HEADER_OF(ligerdsl_{op.name}_args_t), {', '.join(defaults)}}}")
    return out


def functions(op):
    d, a = f"const ligerdsl_{op.name}_desc_t *desc", f"const ligerdsl_{op.name}_args_t *args"
    status = "LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t"
    return [f"{status} ligerdsl_{op.name}_plan(ligerdsl_context_t context, {d}, ligerdsl_plan_t *plan);",
            f"{status} ligerdsl_{op.name}_execute(ligerdsl_plan_t plan, {a}, void *workspace, size_t workspace_bytes,"
            f" ligerdsl_stream_t stream);",
            f"{status} ligerdsl_{op.name}(ligerdsl_context_t context, {d}, {a}, ligerdsl_stream_t stream);"]


def for_each(ops):
    """An X-macro over the table."""
    rows = [f'  X({op.name}, "{" ".join(t.name for t in op.tensors if t.direction != "in")}")' for op in ops]
    return ["/* Every operation and the tensors that it writes, for bindings and for tests that must leave none out. */",
            "#define LIGERDSL_FOR_EACH_OPERATION(X) \\"] + [row + " \\" for row in rows[:-1]] + [rows[-1], ""]


def emit(ops):
    out = [PREAMBLE]
    for text, names in CONSTANTS:
        out += [comment(text + "."), "enum { " + ", ".join(f"{name} = {value}" for name, value in names) + " };"]
    out += ["", comment("In every comment: " + CONVENTIONS[0].lower() + CONVENTIONS[1:].replace("\n", " ")), ""]
    out += for_each(ops)
    for op in ops:
        out.append(f"/* ---- {op.name}: {op.brief} " + "-" * max(3, 100 - len(op.name + op.brief)) + " */")
        out.append(comment(op.doc + f"\nRows of the workspace: {op.rows}."))
        out += desc_struct(op) + args_struct(op) + functions(op) + [""]
    out += ["#ifdef __cplusplus", "}", "#endif", "", "#endif /* LIGERDSL_OPS_H_ */", ""]
    return "\n".join(out)

"""Writes ligerdsl/ops.hpp: for each operation a plan class and a one-call function that take
the C structs."""

import textwrap

PREAMBLE = """\
// Operations of libligerdsl in C++. Included by ligerdsl.hpp; generated from lib/codegen/ops.py.
#ifndef LIGERDSL_OPS_HPP_
#define LIGERDSL_OPS_HPP_

#include "ligerdsl/ligerdsl.hpp"

namespace ligerdsl {
"""


def wrapper(op):
    c, name = op.camel, op.name
    brief = "\n".join(textwrap.wrap(
        f"{op.brief}. See ops.h for formulas, shapes and aliasing.", 100, initial_indent="// ",
        subsequent_indent="// "))
    return f"""
{brief}
using {c}Desc = ligerdsl_{name}_desc_t;
using {c}Args = ligerdsl_{name}_args_t;
inline {c}Desc {name}_desc() {{ {c}Desc desc = LIGERDSL_{name.upper()}_DESC_INIT; return desc; }}
inline {c}Args {name}_args() {{ {c}Args args = LIGERDSL_{name.upper()}_ARGS_INIT; return args; }}
class {c}Plan : public Plan {{
 public:
  {c}Plan(const Context& context, const {c}Desc& desc) {{ check(ligerdsl_{name}_plan(context.get(), &desc, put())); }}
  void operator()(const {c}Args& args, void* workspace = nullptr, size_t workspace_bytes = 0, ligerdsl_stream_t stream = nullptr) const {{
    check(ligerdsl_{name}_execute(get(), &args, workspace, workspace_bytes, stream));
  }}
}};
inline void {name}(const Context& context, const {c}Desc& desc, const {c}Args& args, ligerdsl_stream_t stream = nullptr) {{
  check(ligerdsl_{name}(context.get(), &desc, &args, stream));
}}"""


def emit(ops):
    return (PREAMBLE + "\n".join(wrapper(op) for op in ops)
            + "\n\n}  // namespace ligerdsl\n\n#endif  // LIGERDSL_OPS_HPP_\n")

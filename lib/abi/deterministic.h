// Check of authors' kernels for LIGERDSL_DETERMINISTIC and LIGERDSL_CTX_DETERMINISTIC.
#pragma once

#include "program/program.h"

namespace ligerdsl::lib {

class Context;

// Throws NOT_SUPPORTED with the author's line if the context is deterministic and the program adds
// floats atomically. The order of these additions differs between runs, and so do the last bits of
// the result.
void require_deterministic(const Context& context, const program::Program& program);

}  // namespace ligerdsl::lib

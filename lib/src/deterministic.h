// What LIGERDSL_DETERMINISTIC and LIGERDSL_CTX_DETERMINISTIC refuse of authors' kernels.
#pragma once

#include "program/program.h"

namespace ligerdsl::lib {

class Context;

// Throws NOT_SUPPORTED with the author's line where the context is deterministic and the program adds floats atomically:
// the order of the additions differs between runs, and with it the last bits of the sum.
void require_deterministic(const Context& context, const program::Program& program);

}  // namespace ligerdsl::lib

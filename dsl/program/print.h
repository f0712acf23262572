// Prints a Program as text for people: the stage `program` of `ligerdsl compile --emit` and of
// dumps. There is no parser for it.
#pragma once

#include <string>

#include "program/program.h"

namespace ligerdsl::program {

struct PrintOptions {
  bool locations = true;  // append "// file:line" to every op
};

std::string print(const Program& program, const PrintOptions& options = {});

// Returns "f32", "bf16[4, 128]", "view bf16[?, 128] strides [?, 1]", "ptr f32" or "ptr f32[128]".
std::string print(const Type& type);

}  // namespace ligerdsl::program

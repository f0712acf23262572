// Versioned little-endian bytes for programs, options and artifacts. Equal inputs give equal bytes.
// Readers throw std::runtime_error with a reason if bytes are truncated, inconsistent or of another
// version. No input causes undefined behaviour.
#pragma once

#include <string>
#include <string_view>

#include "program/artifact.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::program {

// Largest nesting depth of regions in a program's body. It limits the recursion of parsers.
inline constexpr int kMaxRegionDepth = 64;

std::string serialize(const Program& program);
std::string serialize(const CompileOptions& options);
std::string serialize(const Artifact& artifact);

Program parseProgram(std::string_view bytes);  // also checks SSA order, operand counts and types
CompileOptions parseOptions(std::string_view bytes);
Artifact parseArtifact(std::string_view bytes);

}  // namespace ligerdsl::program

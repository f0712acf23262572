// Versioned little-endian bytes for programs, options and artifacts. Equal inputs give equal bytes.
// Readers throw std::runtime_error with a reason on bytes that are truncated, of another version,
// or inconsistent (never undefined behaviour).
#pragma once

#include <string>
#include <string_view>

#include "program/artifact.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::program {

// Largest nesting of regions below a program's body: parsers recurse.
inline constexpr int kMaxRegionDepth = 64;

std::string serialize(const Program& program);
std::string serialize(const CompileOptions& options);
std::string serialize(const Artifact& artifact);

Program parseProgram(std::string_view bytes);  // also checks SSA order, operand counts and types
CompileOptions parseOptions(std::string_view bytes);
Artifact parseArtifact(std::string_view bytes);

}  // namespace ligerdsl::program

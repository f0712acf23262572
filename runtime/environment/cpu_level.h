// Levels of x86-64 (LIGERDSL_CPU). A level names instruction sets that a processor must have.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ligerdsl::runtime {

// Returns "x86-64", "x86-64-v2", ... in ascending order. Each level includes the levels before it.
std::span<const std::string_view> cpu_levels();

// Throws NOT_SUPPORTED if a processor with these features ("+avx2,-sse4a,...", as LLVM writes them)
// cannot run code of the level. The message names a missing instruction set.
void require_cpu_level(std::string_view level, const std::string& features);

}  // namespace ligerdsl::runtime

// Levels of x86-64 (LIGERDSL_CPU). A level is a set of instructions that its processors have.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ligerdsl::runtime {

// Returns "x86-64", "x86-64-v2", ... as LLVM names them. Each level includes the previous ones.
std::span<const std::string_view> cpu_levels();

// Throws NOT_SUPPORTED with the missing instruction set if a processor with these features
// ("+avx2,-sse4a,...", as LLVM writes them) cannot run code of the level.
void require_cpu_level(std::string_view level, const std::string& features);

}  // namespace ligerdsl::runtime

// Levels of x86-64, each the processors that have a set of instructions: what LIGERDSL_CPU chooses from.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ligerdsl::runtime {

// "x86-64", "x86-64-v2" ... as LLVM names them, each with the instructions of those before it.
std::span<const std::string_view> cpu_levels();

// Throws NOT_SUPPORTED, naming an instruction set that is missing, unless a processor with these features
// ("+avx2,-sse4a,...", as LLVM writes them) runs code of the level.
void require_cpu_level(std::string_view level, const std::string& features);

}  // namespace ligerdsl::runtime

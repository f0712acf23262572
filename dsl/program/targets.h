// The GPU architectures that the compiler emits code for.
#pragma once

#include <array>
#include <string_view>

namespace ligerdsl::program {

inline constexpr std::array<std::string_view, 10> kGpuArchs = {"sm_80",  "sm_86",   "sm_89",  "sm_90",  "sm_90a",
                                                               "sm_100", "sm_100a", "sm_103", "sm_120", "sm_120a"};

}  // namespace ligerdsl::program

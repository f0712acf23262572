// What the formulas of this folder compute with.
#pragma once

#include <cstdint>
#include <vector>

namespace ligerdsl::oracle {

using Values = std::vector<double>;

}  // namespace ligerdsl::oracle

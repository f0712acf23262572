// Values of float64 references.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ligerdsl::reference {

using Values = std::vector<double>;

}  // namespace ligerdsl::reference

// Values that float64 references compute with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ligerdsl::reference {

using Values = std::vector<double>;

}  // namespace ligerdsl::reference

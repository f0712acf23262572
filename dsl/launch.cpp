// Computes the grid of a launch. This code is not in kernel.cpp, because the library must link
// without the registry of kernels.
#include <algorithm>

#include "ligerdsl/dsl/kernel.h"

namespace ligerdsl {

std::array<int64_t, 3> Launch::grid_at(int64_t rows) const {
  std::array<int64_t, 3> programs = {1, 1, 1};
  for (size_t axis = 0; axis < std::min(grid.size(), programs.size()); ++axis)
    programs[axis] = grid[axis].at(rows);
  return programs;
}

std::array<int64_t, 3> Launch::programs() const {
  if (grid.empty() || grid.size() > 3)
    throw Error("error: the grid of a launch has " + std::to_string(grid.size()) +
                " axes, expected 1 to 3");
  for (const Size& axis : grid) static_cast<void>(axis.number());
  return grid_at(0);
}

}  // namespace ligerdsl

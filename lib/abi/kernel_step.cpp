#include "lib/abi/kernel_step.h"

#include <algorithm>

#include "lib/abi/failure.h"

namespace ligerdsl::lib {

KernelStep::KernelStep(Context& context, const kernels::Step& step, const StepNames& names)
    : programs_(sizes_.add(step.launch)) {
  std::vector<ArgPromise> promises;
  for (const program::Argument& argument : step.program.arguments) {
    const program::Type& type = step.program.values[argument.value];
    if (const auto view = find_name(names.views, argument.name); view != names.views.end()) {
      arguments_.push_back({Source::view, view->second, 0, type.dtype});
      promises.push_back({.alias_class = static_cast<uint32_t>(view->second + 1)});
      continue;
    }
    promises.push_back({});
    if (const auto number = find_name(names.numbers, argument.name);
        number != names.numbers.end()) {
      arguments_.push_back({Source::number, number->second, 0, type.dtype});
    } else if (const auto real = find_name(names.constants, argument.name);
               real != names.constants.end()) {
      arguments_.push_back({Source::constant, 0, bits_of(type.dtype, real->second), type.dtype});
    } else if (const auto integer = find_name(names.integers, argument.name);
               integer != names.integers.end()) {
      arguments_.push_back({Source::constant, 0, bits_of(type.dtype, integer->second), type.dtype});
    } else {
      fail(Status::internal_error, "kernel " + step.program.name + " has an argument " +
                                       argument.name +
                                       ", but the operation has no view, number or constant of "
                                       "this name");
    }
  }
  launcher_ = std::make_unique<Launcher>(context, step.program, step.launch, promises);
}

void KernelStep::run(const BoundTensor* views, const int64_t* numbers, int64_t rows,
                     runtime::Stream stream) const {
  SizeTable::Values sizes;
  sizes_.compute(rows, &sizes);
  const kernels::Grid grid = {sizes[programs_[0]], sizes[programs_[1]], sizes[programs_[2]]};
  if (std::find(grid.begin(), grid.end(), 0) != grid.end()) return;
  Launcher::Pack pack(*launcher_);
  for (const Argument& argument : arguments_) {
    switch (argument.source) {
      case Source::view:
        pack.view(views[argument.index]);
        break;
      case Source::number:
        pack.bits(bits_of(argument.type, numbers[argument.index]));
        break;
      case Source::constant:
        pack.bits(argument.bits);
        break;
    }
  }
  pack.launch({grid[0], grid[1], grid[2]}, stream);
}

}  // namespace ligerdsl::lib

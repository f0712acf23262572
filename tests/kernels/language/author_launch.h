// Launches an author's kernel directly, without an operation around it.
#pragma once

#include "tests/kernels/shapes.h"

namespace ligerdsl::test {

struct Given {
  std::string name;
  Tensor tensor;
};

// Launches the kernel once, with the grid and options of its launch rule.
template <class Meta>
void run(const Kernel<Meta>& kernel, const Meta& meta, const std::vector<Given>& tensors,
         Arguments arguments = {}) {
  std::vector<LaunchArguments::Argument> sizes;
  for (const Given& given : tensors) {
    arguments.tensor(given.name, given.tensor);
    sizes.push_back(
        {.name = given.name, .dims = given.tensor.shape(), .strides = given.tensor.strides()});
  }
  const kernels::Step step{
      .program = record(kernel, meta, machine()),
      .launch = kernel.launch(meta, LaunchArguments(std::move(sizes), machine()))};
  backend().run({.steps = {step}}, 1, std::move(arguments));  // the grid does not depend on rows
  for (const Given& given : tensors) EXPECT_TRUE(given.tensor.untouched_outside()) << given.name;
}

}  // namespace ligerdsl::test

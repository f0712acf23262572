#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"
#include "program/op_info.h"

namespace ligerdsl::kernels {
namespace {

program::Program record_reset() {
  KernelBuilder k("reset_next_program");
  k.view("next_program", i32, {1}).store({0}, 0);
  return k.finish();
}

}  // namespace

void add_step(Operation& operation, Step step) {
  if (program::isDynamicPersistent(step.program)) {
    operation.workspace.push_back({.name = "next_program", .dtype = i32, .shape = {1}});
    operation.steps.push_back({.program = record_reset(), .launch = library_launch(1, 1)});
  }
  operation.steps.push_back(std::move(step));
}

Operation operation_of(Step step) {
  Operation operation;
  add_step(operation, std::move(step));
  return operation;
}

}  // namespace ligerdsl::kernels

#include "kernels/launch.h"
#include "kernels/tile_shape.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {
namespace {

program::Program record_reset() {
  KernelBuilder k("reset_tickets");
  k.view("tickets", i32, {1}).store({0}, 0);
  return k.finish();
}

}  // namespace

void add_by_tickets(Operation& operation, Step step) {
  operation.workspace.push_back({.name = "tickets", .dtype = i32, .shape = {1}});
  operation.steps.push_back({.program = record_reset(), .launch = library_launch(1, 1)});
  operation.steps.push_back(std::move(step));
}

void add_rows(Operation& operation, Step step, const RowParts& parts) {
  if (!parts.shared()) {
    operation.steps.push_back(std::move(step));
    return;
  }
  step.launch.num_warps = parts.num_warps;
  step.launch.num_ctas = parts.num_ctas;
  step.launch.min_ctas_per_sm = parts.ctas_per_sm;
  add_by_tickets(operation, std::move(step));
}

Operation row_operation(Step step, const RowParts& parts) {
  Operation operation;
  add_rows(operation, std::move(step), parts);
  return operation;
}

}  // namespace ligerdsl::kernels

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

void add_by_tickets(Operation& operation, Launch launch) {
  operation.workspace.push_back({.name = "tickets", .dtype = i32, .shape = [](Count) { return Extents{1}; }});
  operation.launches.push_back({.program = record_reset(), .num_warps = 1, .grid = [](Count) { return grid_of(1); }});
  operation.launches.push_back(std::move(launch));
}

void add_rows(Operation& operation, Launch launch, const RowParts& parts) {
  if (!parts.shared()) {
    operation.launches.push_back(std::move(launch));
    return;
  }
  launch.num_warps = parts.num_warps;
  launch.num_ctas = parts.num_ctas;
  launch.min_ctas_per_sm = parts.ctas_per_sm;
  add_by_tickets(operation, std::move(launch));
}

Operation row_operation(Launch launch, const RowParts& parts) {
  Operation operation;
  add_rows(operation, std::move(launch), parts);
  return operation;
}

}  // namespace ligerdsl::kernels

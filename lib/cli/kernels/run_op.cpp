#include "lib/cli/kernels/run_op.h"

#include <fmt/format.h>

#include "lib/cli/kernels/inputs.h"
#include "lib/cli/kernels/op_reference.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::cli {

std::vector<RunOutput> run_op(const lib::ContextRef& context, const std::string& operation,
                              const std::vector<std::string>& settings,
                              const std::map<std::string, Array>& inputs, bool check) {
  OpInstance instance(find_op(operation), settings);
  const auto plan = plan_with_inputs(instance, context, inputs);
  instance.prepare(*plan);  // checks sizes before the reference relies on them
  Expected expected;
  if (check)
    expected =
        expected_outputs(instance, bytes_of(instance));  // before outputs overwrite inputs in place
  plan->execute(&instance.call());
  context->check(nullptr);
  std::vector<RunOutput> outputs;
  for (const OpInstance::Slot& slot : instance.slots()) {
    if (!slot.info || slot.info->direction == lib::Direction::in) continue;
    outputs.push_back({slot.name, slot.dtype, slot.shape, instance.read(slot), {}, {}});
    if (check)
      outputs.back().difference = compare(outputs.back().bytes, expected.at(slot.name), slot.dtype);
  }
  return outputs;
}

std::string fault_of(const RunOutput& output) {
  const Difference& d = output.difference;
  if (d.beyond > 0)
    return fmt::format("WRONG: {} of {} elements beyond the gate ({}); [{}] is {}, expected {}{}",
                       d.beyond, d.elements, d.gate, d.first, d.got, d.expected,
                       d.by_rounding ? ": an intermediate value is too large for its type" : "");
  const interpreter::AccessLog::Extent& left = output.unwritten;
  if (left.elements > 0)
    return fmt::format(
        "NOT WRITTEN: {} of {} elements, the first is [{}]; if that is intended, give {} initial "
        "values with {}=SHAPE:0..0 or --in",
        left.elements, d.elements, left.first, output.name, output.name);
  return "";
}

}  // namespace ligerdsl::cli

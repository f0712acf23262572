#include "lib/cli/kernels/inputs.h"

#include <fmt/format.h>

#include "lib/abi/structs.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

std::map<std::string, Array> read_inputs(const std::vector<std::string>& specs) {
  std::map<std::string, Array> inputs;
  for (const std::string& spec : specs) {
    const size_t equal = spec.find('=');
    if (equal == std::string::npos)
      throw Failure(kUsage, fmt::format("--in {}: expected name=FILE.npy", spec));
    const std::string name = spec.substr(0, equal);
    if (inputs.count(name))
      throw Failure(kUsage, fmt::format("--in {}: given twice; omit one", name));
    inputs[name] = read_npy(spec.substr(equal + 1));
  }
  return inputs;
}

std::unique_ptr<lib::Plan> plan_with_inputs(OpInstance& instance, const lib::ContextRef& context,
                                            const std::map<std::string, Array>& inputs) {
  lib::check_desc(instance.info(), instance.desc());
  for (const auto& [name, array] : inputs) instance.take_shape(name, array);
  auto plan = instance.plan(context);
  instance.allocate(context);
  for (const auto& [name, array] : inputs) {
    OpInstance::Slot* slot = instance.find(name);
    if (elements(slot->shape) != elements(array.shape)) {
      throw Failure(kUsage, fmt::format("--in {}: expected {} elements, got {}", name,
                                        elements(slot->shape), elements(array.shape)));
    }
    instance.write(*slot, convert(array, slot->dtype));
  }
  return plan;
}

}  // namespace ligerdsl::cli

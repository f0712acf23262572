#include "lib/cli/kernels/op_reference.h"

#include "interpreter/convert.h"
#include "lib/instance/npy.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

using reference::Values;

class InstanceCall final : public reference::ReferenceCall {
 public:
  using ReferenceCall::integer;
  using ReferenceCall::number;

  InstanceCall(const OpInstance& instance, const TensorBytes& before)
      : op_(instance), bytes_(before) {}

  bool has(const std::string& tensor) const override { return bytes_.count(tensor) > 0; }
  // Converts a tensor when a reference first reads it. Converting all tensors would need gigabytes,
  // and a reference does not read all.
  const Values& operator[](const std::string& tensor) const override {
    static const Values none;
    const auto found = bytes_.find(tensor);
    if (found == bytes_.end()) return none;
    const auto [values, is_new] = values_.try_emplace(tensor);
    if (is_new) values->second = to_doubles(found->second, type(tensor));
    return values->second;
  }
  Values row(const std::string& tensor, int64_t row, int64_t cols) const override {
    const DType dtype = type(tensor);
    const auto size = static_cast<size_t>(cols * size_of(dtype));
    return to_doubles(bytes_.at(tensor).substr(static_cast<size_t>(row) * size, size), dtype);
  }
  DType type(const std::string& tensor) const override { return op_.find(tensor)->dtype; }
  std::vector<std::string> tensors() const override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : bytes_) names.push_back(name);
    return names;
  }
  double number(const std::string& name, double missing) const override {
    return op_.number(name, missing);
  }
  int64_t integer(const std::string& name, int64_t missing) const override {
    return op_.integer(name, missing);
  }
  int64_t size(const std::string& letter) const override { return op_.size(letter); }
  double round_to(DType type, double value) const override {
    return interpreter::round_to(type, value);
  }

 private:
  const OpInstance& op_;
  const TensorBytes& bytes_;
  mutable std::map<std::string, Values> values_;
};

}  // namespace

TensorBytes bytes_of(const OpInstance& instance) {
  TensorBytes bytes;
  for (const OpInstance::Slot& slot : instance.slots()) bytes[slot.name] = instance.read(slot);
  return bytes;
}

Expected expected_outputs(const OpInstance& instance, const TensorBytes& before) {
  const auto found = reference::find_reference(instance.info().name);
  if (!found)
    throw Failure(kNothingFound,
                  std::string(instance.info().name) + " has no float64 reference to compare with");
  return found(InstanceCall(instance, before));
}

}  // namespace ligerdsl::cli

#include "tests/support/reference_call.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/core/reference.h"

namespace ligerdsl::test {
namespace {

using reference::Values;

// A call whose tensors are f32. Its values are not rounded.
class ValuesCall final : public reference::ReferenceCall {
 public:
  using ReferenceCall::integer;
  using ReferenceCall::number;

  ValuesCall(std::map<std::string, double> numbers, std::map<std::string, Values> tensors,
             std::set<std::string> wanted)
      : numbers_(std::move(numbers)), tensors_(std::move(tensors)), wanted_(std::move(wanted)) {}

  bool has(const std::string& tensor) const override {
    return wanted_.contains(tensor) || !(*this)[tensor].empty();
  }
  const Values& operator[](const std::string& tensor) const override {
    static const Values none;
    const auto found = tensors_.find(tensor);
    return found == tensors_.end() ? none : found->second;
  }
  Values row(const std::string& tensor, int64_t row, int64_t cols) const override {
    const auto begin = (*this)[tensor].begin() + row * cols;
    return {begin, begin + cols};
  }
  DType type(const std::string&) const override { return f32; }
  std::vector<std::string> tensors() const override {
    std::vector<std::string> names;
    for (const auto& [name, values] : tensors_) names.push_back(name);
    return names;
  }
  double number(const std::string& name, double missing) const override {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? missing : found->second;
  }
  int64_t integer(const std::string& name, int64_t missing) const override {
    return static_cast<int64_t>(number(name, static_cast<double>(missing)));
  }
  int64_t size(const std::string& letter) const override {
    return static_cast<int64_t>(numbers_.at(letter));
  }
  double round_to(DType, double value) const override { return value; }

 private:
  std::map<std::string, double> numbers_;
  std::map<std::string, Values> tensors_;
  std::set<std::string> wanted_;
};

}  // namespace

std::map<std::string, Values> expected_of(const std::string& operation,
                                          std::map<std::string, double> numbers,
                                          std::map<std::string, Values> tensors,
                                          std::set<std::string> wanted) {
  reference::Reference* const found = reference::find_reference(operation);
  if (!found) throw std::invalid_argument("no reference of " + operation);
  std::map<std::string, Values> outputs;
  for (auto& [name, expectation] :
       found(ValuesCall(std::move(numbers), std::move(tensors), std::move(wanted))))
    outputs[name] = std::move(expectation.values);
  return outputs;
}

}  // namespace ligerdsl::test

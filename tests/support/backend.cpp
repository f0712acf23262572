#include "tests/support/backend.h"

#include <map>
#include <stdexcept>

#include "kernels/core/workspace.h"

namespace ligerdsl::test {

Arguments& Arguments::tensor(const std::string& name, const Tensor& tensor) {
  entries_.push_back({.name = name, .tensor = tensor, .is_tensor = true});
  return *this;
}

Arguments& Arguments::number(const std::string& name, double value) {
  entries_.push_back({.name = name, .number = value, .integer = static_cast<int64_t>(value)});
  return *this;
}

Arguments& Arguments::integer(const std::string& name, int64_t value) {
  entries_.push_back({.name = name, .number = static_cast<double>(value), .integer = value});
  return *this;
}

const Arguments::Entry& Arguments::find(const std::string& name) const {
  for (const Entry& entry : entries_) {
    if (entry.name == name) return entry;
  }
  throw std::invalid_argument("the test binds no argument with the name " + name);
}

void Backend::run(const kernels::Operation& operation, int64_t rows, Arguments arguments) {
  std::vector<Tensor> scratch;
  for (const kernels::Scratch& buffer : operation.workspace) {
    Sizes shape;
    for (const Size& dim : buffer.shape) shape.push_back(dim.at(rows));
    Sizes strides(shape.size());
    kernels::workspace_strides(buffer.dtype, shape, strides.data());
    scratch.emplace_back(buffer.dtype, shape, strides);
    arguments.tensor(buffer.name, scratch.back());
  }
  for (const kernels::Step& step : operation.steps) {
    const kernels::Grid grid = step.launch.grid_at(rows);
    bool empty = false;
    for (int64_t programs : grid) empty = empty || programs == 0;
    Arguments bound = arguments;
    bound.integer("programs", grid[0]);
    if (!empty) launch(step, grid, bound);
  }
  for (const Tensor& buffer : scratch) {
    if (!buffer.untouched_outside())
      throw std::runtime_error("a kernel wrote outside a scratch buffer");
  }
}

namespace {

std::unique_ptr<Backend> current;

std::map<std::string, BackendChoice (*)()>& makers() {
  static std::map<std::string, BackendChoice (*)()> table;
  return table;
}

}  // namespace

BackendEntry::BackendEntry(const char* name, BackendChoice (*make)()) {
  makers()[name] = make;
}

BackendChoice make_backend(const std::string& name) {
  const auto maker = makers().find(name);
  if (maker != makers().end()) return maker->second();
  std::string known;
  for (const auto& entry : makers()) known += (known.empty() ? "" : ", ") + entry.first;
  return {nullptr, "expected one of " + known};
}

Backend& backend() {
  if (!current) throw std::logic_error("no backend was chosen");
  return *current;
}

void set_backend(std::unique_ptr<Backend> backend) {
  current = std::move(backend);
}

}  // namespace ligerdsl::test

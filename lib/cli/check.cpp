#include "lib/cli/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "interpreter/convert.h"
#include "interpreter/interpreter.h"
#include "lib/cli/npy.h"
#include "lib/src/failure.h"
#include "program/serialize.h"

namespace ligerdsl::cli {

namespace {

// A kernel that interprets its program on the launch's slots.
class InterpretedKernel final : public runtime::LoadedKernel {
 public:
  explicit InterpretedKernel(const std::string& program_bytes) : program_(program::parseProgram(program_bytes)) {}

  void launch(const uint64_t* slots, const runtime::Grid& grid, runtime::Stream) override {
    interpreter::Arguments arguments;
    for (const program::Argument& argument : program_.arguments) {
      const program::Type& type = program_.values[argument.value];
      if (type.kind == program::TypeKind::view) {
        const size_t rank = type.shape.size();
        const std::vector<int64_t> dims(slots + 1, slots + 1 + rank), strides(slots + 1 + rank, slots + 1 + 2 * rank);
        arguments.view(reinterpret_cast<void*>(*slots), type.dtype, dims, strides);
      } else if (type.kind == program::TypeKind::scalar && is_float(type.dtype)) {
        arguments.scalar(type.dtype, interpreter::read_float(type.dtype, slots));
      } else if (type.kind == program::TypeKind::scalar) {
        arguments.scalar(type.dtype, interpreter::read_integer(type.dtype, slots));
      } else {
        runtime::fail(runtime::Status::not_supported,
                      "--check needs views; argument " + argument.name + " is a bare pointer");
      }
      slots += program::slotCount(type);
    }
    interpreter::run(program_, arguments, {grid.x, grid.y, grid.z});
  }

 private:
  program::Program program_;
};

class InterpreterContext final : public lib::Context {
 public:
  explicit InterpreterContext(const kernels::Machine& machine)
      : Context({.kind = runtime::DeviceKind::cpu, .num_threads = 1}), machine_(machine) {}

  kernels::Machine machine() const override { return machine_; }
  program::CompileOptions base_options() override { return {}; }
  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program_bytes,
                                              const program::CompileOptions&) override {
    return std::make_shared<InterpretedKernel>(program_bytes);
  }

 private:
  kernels::Machine machine_;
};

struct Gate {
  double rtol, atol;
};

Gate gate_of(DType type) {
  if (type == DType::bf16) return {1.6e-2, 1e-4};
  if (type == DType::f16) return {2e-3, 1e-5};
  return {1e-5, 2e-6};
}

}  // namespace

lib::ContextRef interpreter_context(const kernels::Machine& machine) {
  return std::make_shared<InterpreterContext>(machine);
}

std::string gate_text(DType type) {
  if (is_integer(type)) return "equal";
  return fmt::format("{:g} |expected| + {:g} max|expected|", gate_of(type).rtol, gate_of(type).atol);
}

Difference compare(const std::string& got_bytes, const std::string& expected_bytes, DType type) {
  Difference difference;
  if (is_integer(type)) {
    const size_t size = static_cast<size_t>(size_of(type));
    difference.elements = static_cast<int64_t>(expected_bytes.size() / size);
    for (int64_t i = 0; i < difference.elements; ++i) {
      const auto got = interpreter::read_integer(type, got_bytes.data() + i * size_of(type));
      const auto expected = interpreter::read_integer(type, expected_bytes.data() + i * size_of(type));
      if (got == expected) continue;
      if (difference.beyond++ == 0) {
        difference.first = i;
        difference.got = static_cast<double>(got), difference.expected = static_cast<double>(expected);
      }
      difference.worst = 1;
    }
    return difference;
  }
  const std::vector<double> got = to_doubles(got_bytes, type), expected = to_doubles(expected_bytes, type);
  double scale = 0;
  for (const double value : expected) {
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  }
  if (scale == 0) scale = 1;
  const Gate gate = gate_of(type);
  difference.elements = static_cast<int64_t>(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool alike = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
    const double error = alike ? 0 : std::fabs(got[i] - expected[i]);
    const bool inside =
        alike || (std::isfinite(expected[i]) && error <= gate.atol * scale + gate.rtol * std::fabs(expected[i]));
    difference.worst = std::max(difference.worst, std::isfinite(error) ? error / scale : 1.0);
    if (inside) continue;
    if (difference.beyond++ == 0)
      difference.first = static_cast<int64_t>(i), difference.got = got[i], difference.expected = expected[i];
  }
  return difference;
}

}  // namespace ligerdsl::cli

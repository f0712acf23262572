#include "lib/cli/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "interpreter/convert.h"
#include "interpreter/interpreter.h"
#include "lib/cli/npy.h"
#include "lib/src/failure.h"
#include "program/op_info.h"
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

std::vector<std::string> interpret(const AuthorCall& call, Rounding rounding) {
  std::vector<std::string> memory;
  memory.reserve(call.arguments().size());  // what is passed stays where it is
  interpreter::Arguments arguments;
  for (size_t i = 0; i < call.arguments().size(); ++i) {
    const AuthorArgument& argument = call.arguments()[i];
    const DType type = argument.type.dtype;
    memory.push_back(argument.is_memory() ? argument.initial_bytes(i) : "");
    if (argument.is_view())
      arguments.view(memory.back().data(), type, argument.shape, strides_of(argument.shape));
    else if (argument.is_memory())
      arguments.pointer(memory.back().data(), memory.back().size());
    else if (is_float(type))
      arguments.scalar(type, argument.number);
    else
      arguments.scalar(type, argument.integer);
  }
  const interpreter::Options options{.round_every_op = rounding == Rounding::every_operation};
  interpreter::run(call.program(), arguments, {call.grid().x, call.grid().y, call.grid().z}, options);
  return memory;
}

namespace {

bool jumps(const program::Program& program, const program::Region& region) {
  for (const program::Op& op : region.ops) {
    const std::string_view name = program::opName(op.code);
    const bool whole = name == "floor" || name == "ceil" || name.starts_with("round");
    const bool to_integer = op.code == program::OpCode::cast && is_float(program.values[op.operands[0]].dtype) &&
                            is_integer(program.values[op.results[0]].dtype);
    if (whole || to_integer) return true;
    for (const program::Region& inner : op.regions) {
      if (jumps(program, inner)) return true;
    }
  }
  return false;
}

// The differences of one element: 0 where it is right whatever the gate.
double error_of(double got, double expected) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
  const double error = std::fabs(got - expected);
  return std::isfinite(error) ? error : INFINITY;
}

Difference compare_integers(const std::string& got, const std::vector<std::string>& expected, DType type) {
  const int64_t size = size_of(type);
  Difference difference{.elements = static_cast<int64_t>(expected.front().size()) / size};
  for (int64_t i = 0; i < difference.elements; ++i) {
    const int64_t value = interpreter::read_integer(type, got.data() + i * size);
    const auto is_value = [&](const std::string& one) {
      return interpreter::read_integer(type, one.data() + i * size) == value;
    };
    if (std::any_of(expected.begin(), expected.end(), is_value)) continue;
    difference.worst = 1;
    if (difference.beyond++ > 0) continue;
    difference.first = i;
    difference.got = std::to_string(value);
    difference.expected = std::to_string(interpreter::read_integer(type, expected.front().data() + i * size));
  }
  return difference;
}

double largest(const std::vector<double>& values) {
  double scale = 0;
  for (const double value : values) {
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  }
  return scale > 0 ? scale : 1;
}

}  // namespace

bool jumps(const program::Program& program) {
  return jumps(program, program.body);
}

Difference compare(const std::string& got_bytes, const std::vector<std::string>& expected_bytes, DType type) {
  if (is_integer(type)) return compare_integers(got_bytes, expected_bytes, type);
  const std::vector<double> got = to_doubles(got_bytes, type);
  std::vector<std::vector<double>> expected;
  for (const std::string& bytes : expected_bytes) expected.push_back(to_doubles(bytes, type));
  const double scale = largest(expected.front());
  const Gate gate = gate_of(type);
  Difference difference{.elements = static_cast<int64_t>(got.size())};
  for (size_t i = 0; i < got.size(); ++i) {
    double error = INFINITY;
    bool inside = false;
    for (const std::vector<double>& one : expected) {
      const double other = error_of(got[i], one[i]);
      inside =
          inside || other == 0 || (std::isfinite(one[i]) && other <= gate.atol * scale + gate.rtol * std::fabs(one[i]));
      error = std::min(error, other);
    }
    difference.worst = std::max(difference.worst, std::isfinite(error) ? error / scale : 1.0);
    if (inside || difference.beyond++ > 0) continue;
    difference.first = static_cast<int64_t>(i);
    difference.got = fmt::format("{:g}", got[i]);
    difference.expected = fmt::format("{:g}", expected.front()[i]);
  }
  return difference;
}

}  // namespace ligerdsl::cli

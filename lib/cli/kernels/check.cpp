#include "lib/cli/kernels/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "interpreter/convert.h"
#include "interpreter/interpreter.h"
#include "lib/instance/npy.h"
#include "lib/text/output.h"
#include "program/op_info.h"
#include "program/serialize.h"

namespace ligerdsl::cli {

namespace {

struct Gate {
  double rtol, atol;
  double floor = 0;  // f16: half the spacing of subnormal numbers; fp8: the whole spacing
};

Gate gate_of(DType type) {
  if (type == DType::f8e5m2) return {0.26, 1e-4, 0x1.001p-16};  // rtol: one rounding step
  if (type == DType::f8e4m3) return {0.13, 1e-4, 0x1.001p-9};
  if (type == DType::bf16) return {1.6e-2, 1e-4};
  if (type == DType::f16) return {2e-3, 1e-5, 0x1.001p-25};
  return {1e-5, 2e-6};
}

double norm_gate_of(DType type) {
  return type == DType::bf16 ? 6e-3 : type == DType::f16 ? 1e-3 : 1e-5;
}

std::string gate_text(DType type) {
  if (is_integer(type)) return "equality";
  return fmt::format("{:g} |expected| + {:g} max|expected|", gate_of(type).rtol,
                     gate_of(type).atol);
}

}  // namespace

std::vector<Interpreted> interpret(const AuthorCall& call, Rounding rounding,
                                   interpreter::NanBits nan_bits) {
  std::vector<Interpreted> results(call.arguments().size());
  interpreter::Arguments arguments;
  for (size_t i = 0; i < call.arguments().size(); ++i) {
    const AuthorArgument& argument = call.arguments()[i];
    const DType type = argument.type.dtype;
    std::string& bytes = results[i].bytes;
    if (argument.is_memory()) bytes = argument.initial_bytes(i);
    if (argument.is_view())
      arguments.view(bytes.data(), type, argument.shape, strides_of(argument.shape));
    else if (argument.is_memory())
      arguments.pointer(bytes.data(), bytes.size());
    else if (is_float(type))
      arguments.scalar(type, argument.number);
    else
      arguments.scalar(type, argument.integer);
  }
  const interpreter::Options options{.round_every_op = rounding == Rounding::every_operation,
                                     .no_alias = call.launch().no_alias,
                                     .nan_bits = nan_bits};
  interpreter::AccessLog log(call.program(), arguments);
  interpreter::run(call.program(), arguments, {call.grid().x, call.grid().y, call.grid().z},
                   options, &log);
  for (size_t i = 0; i < results.size(); ++i) {
    const AuthorArgument& argument = call.arguments()[i];
    if (!argument.written) continue;
    const int64_t n = elements(argument.shape), bytes = size_of(argument.type.dtype);
    results[i].read = log.read(results[i].bytes.data(), n, bytes);
    if (!argument.has_contents())
      results[i].unwritten = log.unwritten(results[i].bytes.data(), n, bytes);
  }
  return results;
}

namespace {

bool any_op(const program::Region& region, const std::function<bool(const program::Op&)>& is) {
  return std::any_of(region.ops.begin(), region.ops.end(), [&](const program::Op& op) {
    return is(op) || std::any_of(op.regions.begin(), op.regions.end(),
                                 [&](const program::Region& inner) { return any_op(inner, is); });
  });
}

// Returns true if this operation converts a float to an integer.
bool leaves_floats(const program::Program& program, const program::Op& op, program::OpCode code) {
  return op.code == code && is_float(program.values[op.operands[0]].dtype) &&
         is_integer(program.values[op.results[0]].dtype);
}

std::string text_of(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:g}", value);
}

// Returns the error of one element, 0 for equal values including two NaNs.
double error_of(double got, double expected) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
  const double error = std::fabs(got - expected);
  return std::isfinite(error) ? error : INFINITY;
}

bool is_free(const std::vector<bool>& free, size_t i) {
  return !free.empty() && free[i];
}

Difference compare_integers(const std::string& got, const std::vector<std::string>& expected,
                            DType type, const std::vector<bool>& free = {}) {
  const int64_t size = size_of(type);
  Difference difference{.elements = static_cast<int64_t>(expected.front().size()) / size,
                        .gate = gate_text(type)};
  for (int64_t i = 0; i < difference.elements; ++i) {
    const int64_t value = interpreter::read_integer(type, got.data() + i * size);
    const auto is_value = [&](const std::string& one) {
      return interpreter::read_integer(type, one.data() + i * size) == value;
    };
    if (is_free(free, static_cast<size_t>(i)) ||
        std::any_of(expected.begin(), expected.end(), is_value))
      continue;
    difference.worst = 1;
    if (difference.beyond++ > 0) continue;
    difference.first = i;
    difference.got = std::to_string(value);
    difference.expected =
        std::to_string(interpreter::read_integer(type, expected.front().data() + i * size));
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

bool takes_bits(const program::Program& program) {
  return any_op(program.body, [&](const program::Op& op) {
    return leaves_floats(program, op, program::OpCode::bitcast);
  });
}

bool jumps(const program::Program& program) {
  return takes_bits(program) || any_op(program.body, [&](const program::Op& op) {
           const std::string_view name = program::opName(op.code);
           return name == "floor" || name == "ceil" || name.starts_with("round") ||
                  leaves_floats(program, op, program::OpCode::cast);
         });
}

std::vector<bool> free_elements(const std::string& first, const std::string& second, DType type) {
  const size_t size = static_cast<size_t>(size_of(type));
  std::vector<bool> free(first.size() / size);
  for (size_t i = 0; i < free.size(); ++i)
    free[i] = first.compare(i * size, size, second, i * size, size) != 0;
  return free;
}

namespace {

Difference compare_reals(const std::vector<double>& got,
                         const std::vector<std::vector<double>>& expected, DType gate_of_type,
                         const std::vector<bool>& free = {}) {
  const double scale = largest(expected.front());
  const Gate gate = gate_of(gate_of_type);
  Difference difference{.elements = static_cast<int64_t>(got.size()),
                        .gate = gate_text(gate_of_type)};
  for (size_t i = 0; i < got.size(); ++i) {
    if (is_free(free, i)) continue;
    double error = INFINITY;
    bool inside = false;
    for (const std::vector<double>& one : expected) {
      if (!std::isfinite(got[i]) && &one != &expected.front()) continue;
      const double other = error_of(got[i], one[i]),
                   allowed = gate.atol * scale + gate.rtol * std::fabs(one[i]) + gate.floor;
      inside = inside || other == 0 || (std::isfinite(one[i]) && other <= allowed);
      error = std::min(error, other);
    }
    difference.worst = std::max(difference.worst, std::isfinite(error) ? error / scale : 1.0);
    if (inside || difference.beyond++ > 0) continue;
    difference.first = static_cast<int64_t>(i);
    difference.got = text_of(got[i]);
    difference.expected = text_of(expected.front()[i]);
    difference.overflow = !std::isfinite(got[i]) && std::isfinite(expected.front()[i]);
  }
  return difference;
}

// Compares the norm of the error with the norm of the expected values. If it exceeds the gate,
// all elements count as beyond the gate, otherwise none.
Difference compare_norms(const std::vector<double>& got, const std::vector<double>& expected,
                         DType rounding, double least_norm) {
  Difference difference{
      .elements = static_cast<int64_t>(got.size()),
      .gate = fmt::format("{:g} of the norm of all elements", norm_gate_of(rounding))};
  double errors = 0, squares = 0, worst = -1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = error_of(got[i], expected[i]);
    errors += error * error, squares += std::isfinite(expected[i]) ? expected[i] * expected[i] : 0;
    if (error <= worst) continue;
    worst = error;
    difference.first = static_cast<int64_t>(i);
    difference.got = text_of(got[i]);
    difference.expected = text_of(expected[i]);
  }
  difference.worst = worst > 0 ? std::min(worst / largest(expected), 1.0) : 0.0;
  const double norm = std::max(std::sqrt(squares), least_norm);
  if (std::sqrt(errors) > norm_gate_of(rounding) * (norm > 0 ? norm : 1))
    difference.beyond = difference.elements;
  return difference;
}

}  // namespace

Difference compare(const std::string& got, const std::vector<std::string>& expected, DType type,
                   const std::vector<bool>& free) {
  if (is_integer(type)) return compare_integers(got, expected, type, free);
  std::vector<std::vector<double>> values;
  for (const std::string& bytes : expected) values.push_back(to_doubles(bytes, type));
  return compare_reals(to_doubles(got, type), values, type, free);
}

Difference compare(const std::string& got, const Expectation& expected, DType type) {
  std::string bytes;
  bytes.reserve(got.size());
  for (const double value : expected.values) append(&bytes, type, value);
  if (bytes.size() != got.size())
    throw Failure(kNothingFound, fmt::format("the reference gives {} elements, the tensor has {}",
                                             expected.values.size(),
                                             got.size() / static_cast<size_t>(size_of(type))));
  if (is_integer(type)) return compare_integers(got, {bytes}, type);
  const std::vector<double> values = to_doubles(bytes, type);
  if (expected.over_rows)
    return compare_norms(to_doubles(got, type), values, expected.rounding, expected.norm);
  // The error of an earlier rounding remains in the result, whatever its dtype, so the rounded
  // dtype's gate applies.
  return compare_reals(to_doubles(got, type), {values},
                       expected.rounding == DType::f32 ? type : expected.rounding);
}

Evaluations::Evaluations(const AuthorCall& call) : all_{interpret(call, Rounding::none)} {
  if (jumps(call.program())) all_.push_back(interpret(call, Rounding::every_operation));
  if (!takes_bits(call.program())) return;
  for (const interpreter::NanBits bits :
       {interpreter::NanBits::first, interpreter::NanBits::second})
    other_nans_.push_back(interpret(call, Rounding::none, bits));
}

Difference Evaluations::compare(size_t argument, const std::string& got, DType type) const {
  std::vector<std::string> expected;
  for (const std::vector<Interpreted>& one : all_) expected.push_back(one[argument].bytes);
  std::vector<bool> free;
  if (!other_nans_.empty())
    free = free_elements(other_nans_[0][argument].bytes, other_nans_[1][argument].bytes, type);
  return cli::compare(got, expected, type, free);
}

}  // namespace ligerdsl::cli

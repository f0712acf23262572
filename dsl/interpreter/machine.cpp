#include "interpreter/machine.h"

#include <cstdio>
#include <sstream>

#include "interpreter/convert.h"
#include "ligerdsl/dsl/error.h"
#include "program/aliasing.h"

namespace ligerdsl::interpreter {

using program::AttrKey;
using program::Family;
using program::OpCode;
using program::TypeKind;

Shape row_major(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Machine::Machine(const program::Program& program, const Arguments& arguments,
                 const Options& options, Grid grid, AccessLog* log)
    : program_(program),
      options_(options),
      log_(log),
      ranges_(arguments.ranges()),
      wide_(arguments.memory() == Arguments::Memory::wide),
      values_(program.values.size()),
      views_(program.values.size()),
      grid_{grid.x, grid.y, grid.z} {
  bind_arguments(arguments);
  require_disjoint();
}

// Checks the aliasing rules of a launch.
void Machine::require_disjoint() const {
  const program::Aliasing aliasing(program_, options_.no_alias);
  std::string fault = aliasing.contradiction();
  std::vector<program::Strided> views;
  std::vector<size_t> positions;
  for (size_t i = 0; i < program_.arguments.size(); ++i) {
    const ValueId id = program_.arguments[i].value;
    const View& view = views_[id];
    if (type(id).kind != TypeKind::view) continue;
    views.push_back({reinterpret_cast<const std::byte*>(view.base), wide_ ? i64 : type(id).dtype,
                     static_cast<int>(view.dims.size()), view.dims.data(), view.strides.data()});
    positions.push_back(i);
  }
  if (fault.empty()) fault = aliasing.fault(views, positions);
  if (!fault.empty()) throw Error("error: program " + program_.name + ": " + fault);
}

void Machine::bind_arguments(const Arguments& arguments) {
  const std::vector<uint64_t>& slots = arguments.slots();
  size_t needed = 0;
  for (const program::Argument& argument : program_.arguments)
    needed += program::slotCount(type(argument.value));
  if (needed != slots.size()) {
    throw Error("error: program " + program_.name + " takes " + std::to_string(needed) +
                " argument slots, got " + std::to_string(slots.size()));
  }
  size_t at = 0;
  for (const program::Argument& argument : program_.arguments) {
    const Type& t = type(argument.value);
    const uint64_t* slot = &slots[at];
    at += program::slotCount(t);
    if (t.kind == TypeKind::view) {
      View& view = views_[argument.value];
      view.base = static_cast<int64_t>(slot[0]);
      for (size_t i = 0; i < t.shape.size(); ++i) {
        view.dims.push_back(static_cast<int64_t>(slot[1 + i]));
        view.strides.push_back(static_cast<int64_t>(slot[1 + t.shape.size() + i]));
        const auto require = [&](const char* what, int64_t declared, int64_t got) {
          if (declared != program::kDynamic && declared != got)
            throw Error("error: argument '" + argument.name + "': expected " + what + " " +
                        std::to_string(i) + " to be " + std::to_string(declared) +
                        ", as the program declares, got " + std::to_string(got));
        };
        require("dimension", t.shape[i], view.dims[i]);
        require("stride", t.strides[i], view.strides[i]);
      }
    } else if (t.kind == TypeKind::ptr) {
      data(argument.value).integer = {static_cast<int64_t>(slot[0])};
    } else if (is_float(t.dtype)) {
      data(argument.value).real = {read_float(t.dtype, slot)};
    } else {
      data(argument.value).integer = {read_integer(t.dtype, slot)};
    }
  }
}

void Machine::run_program(std::array<int64_t, 3> id) {
  id_ = id;
  residents_.clear();
  if (log_) log_->begin(id[0] + grid_[0] * (id[1] + grid_[1] * id[2]));
  run_ops(program_.body);
}

void Machine::fail(const Op& op, const std::string& message) const {
  throw Error(program_.files.at(op.loc.file) + ":" + std::to_string(op.loc.line) + ":" +
              std::to_string(op.loc.column) + ": error: " + program::opName(op.code) + ": " +
              message);
}

int64_t Machine::size(const Type& t) const {
  return program::tileElements(t.shape);
}

double Machine::rounded(DType dtype, double value) const {
  return options_.round_every_op ? round_to(dtype, value) : value;
}

Data& Machine::result(const Op& op, size_t i) {
  const Type& t = type(op.results[i]);
  Data& out = data(op.results[i]);
  const bool pointer = t.kind == TypeKind::ptr || t.kind == TypeKind::ptr_tile;
  if (is_float(t.dtype) && !pointer) {
    out.real.resize(size(t));
  } else {
    out.integer.resize(size(t));
  }
  return out;
}

std::vector<ValueId> Machine::run_ops(const Region& region) {
  for (const Op& op : region.ops) {
    if (op.code == OpCode::yield) return op.operands;
    run_op(op);
  }
  return {};
}

void Machine::run_op(const Op& op) {
  const program::OpInfo& info = program::info(op.code);
  switch (info.family) {
    case Family::creation:
      return creation(op, static_cast<program::CreationOp>(op.code));
    case Family::shape:
      return shape(op, static_cast<program::ShapeOp>(op.code));
    case Family::elementwise:
      return elementwise(op, static_cast<program::ElementwiseOp>(op.code));
    case Family::arithmetic:
      return arithmetic(op, static_cast<program::ArithmeticOp>(op.code));
    case Family::integer:
      return integer(op, static_cast<program::IntegerOp>(op.code));
    case Family::sign:
      return sign(op, static_cast<program::SignOp>(op.code));
    case Family::math:
      return math(op, static_cast<program::MathOp>(op.code));
    case Family::reduction:
      return reduction(op, static_cast<program::ReductionOp>(op.code));
    case Family::contraction:
      return contraction(op, static_cast<program::ContractionOp>(op.code));
    case Family::memory:
      return memory(op, static_cast<program::MemoryOp>(op.code));
    case Family::atomic:
      return atomic(op, static_cast<program::AtomicOp>(op.code));
    case Family::control:
      return control(op, static_cast<program::ControlOp>(op.code));
    case Family::hint:
      return hint(op, static_cast<program::HintOp>(op.code));
  }
}

void Machine::control(const Op& op, program::ControlOp code) {
  switch (code) {
    case program::ControlOp::for_range:
      return for_range(op);
    case program::ControlOp::if_else:
      return if_else(op);
    case program::ControlOp::while_loop:
      return while_loop(op);
    case program::ControlOp::yield:
      return;  // run_ops ends there
  }
}

void Machine::hint(const Op& op, program::HintOp code) {
  switch (code) {
    case program::HintOp::device_print:
      return print(op);
    case program::HintOp::assume:
      if (data(op.operands[0]).integer[0] == 0) fail(op, "the assumption does not hold");
      return;
    case program::HintOp::assume_divisible:
      if (data(op.operands[0]).integer[0] % op.integer(AttrKey::divisor) != 0) {
        fail(op, std::to_string(data(op.operands[0]).integer[0]) + " is not a multiple of " +
                     std::to_string(op.integer(AttrKey::divisor)));
      }
      return copy_values(op.operands, op.results);
  }
}

void Machine::copy_values(const std::vector<ValueId>& from, const std::vector<ValueId>& to,
                          size_t first_from, size_t first_to) {
  // Copies all values first: a loop may yield its own arguments in another order.
  std::vector<Data> moved;
  for (size_t i = first_from; i < from.size(); ++i) moved.push_back(data(from[i]));
  for (size_t i = 0; i < moved.size(); ++i) data(to[first_to + i]) = std::move(moved[i]);
}

void Machine::for_range(const Op& op) {
  const int64_t lo = data(op.operands[0]).integer[0];
  const int64_t hi = data(op.operands[1]).integer[0];
  const int64_t step = data(op.operands[2]).integer[0];
  if (step <= 0) fail(op, "the step must be positive, got " + std::to_string(step));
  const Region& body = op.regions[0];
  copy_values(op.operands, body.arguments, 3, 1);
  const bool wide = type(op.operands[0]).dtype == i64;
  const int64_t last = (wide ? INT64_MAX : INT32_MAX) - step;
  for (int64_t i = lo; i < hi; i += step) {
    data(body.arguments[0]).integer = {i};
    copy_values(run_ops(body), body.arguments, 0, 1);
    if (i > last)
      fail(op, "the counter " + std::to_string(i) + " plus the step " + std::to_string(step) +
                   " exceeds " + (wide ? "i64" : "i32; pass a bound or the step as i64"));
  }
  copy_values(body.arguments, op.results, 1, 0);
}

void Machine::if_else(const Op& op) {
  const Region& branch = op.regions[data(op.operands[0]).integer[0] ? 0 : 1];
  copy_values(run_ops(branch), op.results);
}

void Machine::while_loop(const Op& op) {
  const Region& test = op.regions[0];
  const Region& body = op.regions[1];
  copy_values(op.operands, test.arguments);
  for (;;) {
    const std::vector<ValueId> tested = run_ops(test);
    const bool more = data(tested[0]).integer[0] != 0;
    copy_values(tested, more ? body.arguments : op.results, 1, 0);
    if (!more) return;
    if (log_ && op.find(AttrKey::independent)) log_->begin(data(body.arguments[0]).integer[0]);
    copy_values(run_ops(body), test.arguments);
  }
}

void Machine::print(const Op& op) {
  std::ostringstream line;
  line << std::get<std::string>(*op.find(AttrKey::text));
  for (ValueId id : op.operands) {
    line << " [";
    for (int64_t i = 0; i < size(type(id)); ++i) {
      line << (i ? ", " : "");
      if (is_float(type(id).dtype)) {
        line << data(id).real[i];
      } else {
        line << data(id).integer[i];
      }
    }
    line << "]";
  }
  if (options_.print) {
    options_.print(line.str());
  } else {
    std::puts(line.str().c_str());
  }
}

}  // namespace ligerdsl::interpreter

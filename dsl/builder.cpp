// KernelBuilder: arguments, constants and grid values.
#include "ligerdsl/dsl/builder.h"

#include "program/serialize.h"
#include "recorder.h"

namespace ligerdsl {

using detail::AttrKey;
using detail::Attrs;
using detail::fail;
using detail::Handle;
using detail::OpCode;
using detail::Recorder;
using detail::scalar_type;
using detail::tile_type;
using detail::Type;
using detail::TypeKind;

KernelBuilder::KernelBuilder(const std::string& name, const std::optional<Target>& target, Loc loc)
    : recorder_(std::make_shared<Recorder>(name)), target_(target) {
  if (!program::isIdentifier(name)) {
    fail(loc, "KernelBuilder",
         "a kernel's name must match [a-zA-Z_][a-zA-Z0-9_]*, got '" + name + "'");
  }
}

const Target& KernelBuilder::target(Loc loc) const {
  if (!target_) {
    fail(loc, "target",
         "the kernel is recorded without a target; pass a Target to KernelBuilder, record() or "
         "program_bytes(), or load the kernel with a newer `ligerdsl`");
  }
  return *target_;
}

namespace {

Shape default_strides(size_t rank) {
  Shape strides(rank, dyn);
  if (rank > 0) strides.back() = 1;
  return strides;
}

void require_extents(const Shape& extents, const std::string& what, int64_t least, Loc loc) {
  for (int64_t extent : extents) {
    if (extent != dyn && extent < least) {
      fail(loc, "view",
           what + " must be dyn or at least " + std::to_string(least) + ", got " +
               detail::to_string(extents));
    }
  }
}

}  // namespace

View KernelBuilder::view(const std::string& name, DType dtype, const Shape& dims,
                         const ViewOptions& options, Loc loc) {
  if (dims.empty() || dims.size() > 8) {
    fail(loc, "view",
         "'" + name + "' must have 1 to 8 dimensions, got " + std::to_string(dims.size()));
  }
  const Shape strides = options.strides.empty() ? default_strides(dims.size()) : options.strides;
  if (strides.size() != dims.size()) {
    fail(loc, "view",
         "'" + name + "' has " + detail::plural(dims.size(), "dimension") + " but " +
             detail::plural(strides.size(), "stride") + "; give one stride per dimension");
  }
  require_extents(dims, "dimensions of '" + name + "'", 1, loc);
  require_extents(strides, "strides of '" + name + "'", 0, loc);
  return View(
      recorder_->argument(name, {TypeKind::view, dtype, dims, strides}, loc, options.read_only));
}

Scalar KernelBuilder::scalar(const std::string& name, DType dtype, Loc loc) {
  return Scalar(recorder_->argument(name, scalar_type(dtype), loc));
}

Ptr KernelBuilder::ptr(const std::string& name, DType dtype, Loc loc) {
  return Ptr(recorder_->argument(name, {TypeKind::ptr, dtype, {}, {}}, loc));
}

namespace {

Handle grid_value(Recorder& recorder, OpCode code, int axis, Loc loc) {
  const char* op = program::opName(code);
  if (axis < 0 || axis > 2) fail(loc, op, "expected axis 0, 1 or 2, got " + std::to_string(axis));
  if (const auto& loop = recorder.program_loop) {
    if (axis > 0)
      fail(loc, op,
           "the grid of a dynamic persistent kernel has only axis 0, got axis " +
               std::to_string(axis));
    return code == OpCode::program_id ? loop->program : loop->programs;
  }
  return recorder.emit_one(code, {}, scalar_type(i32), {{AttrKey::axis, int64_t{axis}}}, loc);
}

}  // namespace

Scalar KernelBuilder::program_id(int axis, Loc loc) {
  return Scalar(grid_value(*recorder_, OpCode::program_id, axis, loc));
}
Scalar KernelBuilder::num_programs(int axis, Loc loc) {
  return Scalar(grid_value(*recorder_, OpCode::num_programs, axis, loc));
}

Scalar KernelBuilder::constant(NumberArg value, DType dtype, Loc loc) {
  return Scalar(detail::constant(*recorder_, value.number, scalar_type(dtype), "constant", loc));
}

Tile KernelBuilder::full(const Shape& shape, ScalarArg value, DType dtype, Loc loc) {
  detail::require_tile_shape(shape, "full", loc);
  return Tile(detail::tile_operand(*recorder_, value, tile_type(dtype, shape), "full", loc));
}

Tile KernelBuilder::zeros(const Shape& shape, DType dtype, Loc loc) {
  return full(shape, ScalarArg(0, loc), dtype, loc);
}
Tile KernelBuilder::ones(const Shape& shape, DType dtype, Loc loc) {
  return full(shape, ScalarArg(1, loc), dtype, loc);
}

Tile KernelBuilder::arange(int64_t n, Loc loc) {
  detail::require_tile_shape({n}, "arange", loc);
  return Tile(recorder_->emit_one(OpCode::arange, {}, tile_type(i32, {n}), {}, loc));
}

KernelBuilder::ExactGuard::ExactGuard(std::shared_ptr<Recorder> recorder)
    : recorder_(std::move(recorder)) {
  ++recorder_->exact_depth;
}
KernelBuilder::ExactGuard::~ExactGuard() {
  --recorder_->exact_depth;
}

program::Program KernelBuilder::finish(Loc loc) {
  program::Program program = recorder_->finish(loc);
  recorder_ = std::make_shared<Recorder>(
      program.name);  // handles of the finished program still refer to the old recorder
  return program;
}
std::string KernelBuilder::finish_bytes(Loc loc) {
  return program::serialize(finish(loc));
}

}  // namespace ligerdsl

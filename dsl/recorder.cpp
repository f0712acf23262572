#include "recorder.h"

#include <algorithm>
#include <cctype>

#include "program/serialize.h"

namespace ligerdsl::detail {

void fail(Loc loc, const std::string& op, const std::string& message) {
  throw Error(std::string(loc.file_name()) + ":" + std::to_string(loc.line()) + ":" +
              std::to_string(loc.column()) + ": error: " + op + ": " + message);
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ", ";
    text += shape[i] == dyn ? "dyn" : std::to_string(shape[i]);
  }
  return text + "]";
}

std::string to_string(const Type& type) {
  const std::string element = name(type.dtype);
  switch (type.kind) {
    case TypeKind::scalar:
      return element + " scalar";
    case TypeKind::tile:
      return element + " tile " + to_string(type.shape);
    case TypeKind::view:
      return element + " view " + to_string(type.shape);
    case TypeKind::ptr:
      return "pointer to " + element;
    case TypeKind::ptr_tile:
      return "tile " + to_string(type.shape) + " of pointers to " + element;
  }
  return "?";
}

std::string plural(size_t n, const char* noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

Type scalar_type(DType dtype) {
  return {TypeKind::scalar, dtype, {}, {}};
}
Type tile_type(DType dtype, Shape shape) {
  return {TypeKind::tile, dtype, std::move(shape), {}};
}

void require_tile_shape(const Shape& shape, const std::string& op, Loc loc) {
  if (shape.empty()) fail(loc, op, "a tile needs at least one dimension, got []; use a scalar");
  const auto too_many = [&] {
    fail(
        loc, op,
        "tile " + to_string(shape) + " has more than 2^20 elements; use a smaller tile and a loop");
  };
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::string which = "dimension " + std::to_string(i) + " of tile shape " +
                              to_string(shape) + " is " +
                              (shape[i] == dyn ? "dyn" : std::to_string(shape[i]));
    if (shape[i] < 1) fail(loc, op, which + ", expected 1 or more");
    if (shape[i] > program::kMaxTileElements) too_many();
    if (!program::isTileExtent(shape[i])) {
      int64_t larger = shape[i];
      while (!program::isTileExtent(larger)) ++larger;
      fail(loc, op,
           which + ", expected c * 2^n with odd c <= 31; use " + std::to_string(larger) +
               ", and exclude the rest by the view's bounds or a mask");
    }
  }
  if (program::tileElements(shape) < 0) {
    too_many();
  }
}

int normal_axis(int axis, int rank, const std::string& op, Loc loc) {
  const int normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank) {
    fail(loc, op,
         "expected an axis from " + std::to_string(-rank) + " to " + std::to_string(rank - 1) +
             ", got " + std::to_string(axis));
  }
  return normal;
}

Recorder& recorder_of(const Handle& handle, const std::string& op, Loc loc) {
  if (!handle.recorder)
    fail(loc, op, "the operand is an empty handle; assign it a value before use");
  if (!handle.recorder->knows(handle))
    fail(loc, op, "the operand belongs to a finished program; record it again in this one");
  return *handle.recorder;
}

Recorder::Recorder(std::string name) {
  program_.name = std::move(name);
  open_.push_back({{}, next_scope_++});
}

Handle Recorder::new_value(const Type& type) {
  const auto id = static_cast<ValueId>(program_.values.size());
  program_.values.push_back(type);
  scope_of_value_.push_back(open_.back().scope);
  return {shared_from_this(), id, type.dtype, type.shape};
}

program::Location Recorder::location(Loc loc) {
  const auto [entry, inserted] =
      file_index_.try_emplace(loc.file_name(), static_cast<uint32_t>(program_.files.size()));
  if (inserted) program_.files.emplace_back(loc.file_name());
  return {entry->second, loc.line(), loc.column()};
}

Handle Recorder::argument(const std::string& name, Type type, Loc loc, bool read_only) {
  const std::string op = "argument '" + name + "'";
  if (open_.size() != (program_loop ? 2 : 1))
    fail(loc, op, "declare arguments outside loops and branches; move this one before them");
  if (!program::isIdentifier(name)) fail(loc, op, "the name must match [a-zA-Z_][a-zA-Z0-9_]*");
  for (const program::Argument& other : program_.arguments) {
    if (other.name == name)
      fail(loc, op, "another argument of the kernel has this name; choose a different name");
  }
  Handle handle = new_value(type);
  scope_of_value_[handle.id] = open_.front().scope;
  if (read_only) this->read_only[handle.id] = program_.arguments.size();
  program_.arguments.push_back({name, handle.id, read_only});
  return handle;
}

void Recorder::require_live(const Handle& handle, const std::string& op, Loc loc) const {
  if (&recorder_of(handle, op, loc) != this)
    fail(loc, op, "the operands were made by different KernelBuilders; use one builder");
  const uint32_t scope = scope_of_value_[handle.id];
  for (const OpenRegion& region : open_) {
    if (region.scope == scope) return;
  }
  fail(loc, op,
       "the operand was made inside a loop, branch or combiner that has ended; return it through "
       "carry(...)");
}

void Recorder::require_combinable(OpCode code, const std::vector<Type>& results, Loc loc) const {
  const bool scalars = std::all_of(results.begin(), results.end(),
                                   [](const Type& type) { return type.kind == TypeKind::scalar; });
  if (scalars && program::fitsCombiner(code)) return;
  fail(loc, program::opName(code),
       "a combiner may contain only arithmetic on scalars, without memory, tiles, loops or "
       "branches; "
       "compute the value before the reduction, or select with where(...)");
}

std::vector<Handle> Recorder::emit(OpCode code, const std::vector<Handle>& operands,
                                   const std::vector<Type>& results, Attrs attrs, Loc loc,
                                   std::vector<program::Region> regions) {
  program::Op op;
  op.code = code;
  for (const Handle& operand : operands) {
    require_live(operand, program::opName(code), loc);
    op.operands.push_back(operand.id);
  }
  if (in_combiner) require_combinable(code, results, loc);
  const auto origin = operands.empty() ? read_only.end() : read_only.find(operands[0].id);
  const program::Effect effect = program::info(code).effect;
  const bool keeps = origin != read_only.end() && effect == program::Effect::address;
  const size_t argument = origin != read_only.end() ? origin->second : 0;
  if (origin != read_only.end() && program::writes(effect))
    fail(loc, program::opName(code),
         "view '" + program_.arguments[argument].name +
             "' is declared read_only; declare it without read_only, or store to another view");
  std::vector<Handle> handles;
  for (const Type& type : results) {
    handles.push_back(new_value(type));
    op.results.push_back(handles.back().id);
    if (keeps) read_only[handles.back().id] = argument;
  }
  if (exact_depth > 0 && !results.empty() && is_float(results[0].dtype) &&
      program::isElementwise(code)) {
    attrs.push_back({AttrKey::no_contract, int64_t{1}});
  }
  std::sort(attrs.begin(), attrs.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  op.attrs = std::move(attrs);
  op.regions = std::move(regions);
  op.loc = location(loc);
  open_.back().region.ops.push_back(std::move(op));
  return handles;
}

Handle Recorder::emit_one(OpCode code, const std::vector<Handle>& operands, const Type& result,
                          Attrs attrs, Loc loc) {
  return emit(code, operands, {result}, std::move(attrs), loc)[0];
}

program::Region Recorder::region(const std::vector<Type>& arguments, const RegionBody& body,
                                 const Check& check, Loc loc) {
  const size_t depth = open_.size();
  if (depth > program::kMaxRegionDepth) {
    fail(loc, "control flow",
         "loops, branches and combiners nest deeper than " +
             std::to_string(program::kMaxRegionDepth) +
             "; split the kernel, or compute the inner part with tile operations");
  }
  open_.push_back({{}, next_scope_++});
  std::vector<Handle> handles;
  for (const Type& type : arguments) {
    handles.push_back(new_value(type));
    open_.back().region.arguments.push_back(handles.back().id);
  }
  try {
    const std::vector<Handle> yielded = body(handles);
    for (const Handle& handle : yielded) require_live(handle, "carry", loc);
    check(yielded);
    emit(OpCode::yield, yielded, {}, {}, loc);
  } catch (...) {
    open_.resize(depth);  // discards the unfinished region, so that the builder stays usable
    throw;
  }
  program::Region region = std::move(open_.back().region);
  open_.pop_back();
  return region;
}

program::Program Recorder::finish(Loc loc) {
  if (open_.size() != 1)
    fail(loc, "finish",
         "a loop, branch or combiner is still being recorded; call finish() after it");
  program_.body = std::move(open_[0].region);
  program::Program program = std::move(program_);
  program_ = {};
  open_[0] = {{}, next_scope_++};
  scope_of_value_.clear();
  return program;
}

}  // namespace ligerdsl::detail

// Views, partitions, pointers, atomics, hints.
#include "ligerdsl/dsl/memory.h"

#include <cmath>

#include "ligerdsl/dsl/library.h"
#include "ligerdsl/dsl/operators.h"
#include "recorder.h"

namespace ligerdsl {

using detail::AttrKey;
using detail::Attrs;
using detail::fail;
using detail::Handle;
using detail::OpCode;
using detail::Operand;
using detail::Recorder;
using detail::recorder_of;
using detail::require_pad;
using detail::scalar_type;
using detail::tile_type;
using detail::Type;
using detail::TypeKind;
using program::AtomicKind;

namespace detail {

void require_alignment_offset(Recorder& recorder, const Scalar& alignment_offset,
                              const Shape& tile_shape, const std::string& op, Loc loc) {
  recorder.require_live(alignment_offset.handle(), op, loc);
  if (alignment_offset.dtype() != i32)
    fail(loc, op,
         std::string("the alignment offset must be i32, got ") + name(alignment_offset.dtype()) +
             "; pass the result of View::alignment_offset unchanged");
  if (tile_shape.back() == squeeze)
    fail(loc, op,
         "the last dimension is squeezed, and only tiles along it have an alignment offset; omit "
         "alignment_offset");
  if (!recorder.alignment_offsets.count(alignment_offset.handle().id))
    fail(loc, op,
         "expected the result of View::alignment_offset as the alignment offset, got another i32; "
         "pass that result unchanged");
}

}  // namespace detail

namespace {

Attrs hints(Cache cache, Evict evict) {
  Attrs attrs;
  if (cache != Cache::normal) attrs.push_back({AttrKey::cache, static_cast<int64_t>(cache)});
  if (evict != Evict::normal) attrs.push_back({AttrKey::evict, static_cast<int64_t>(evict)});
  return attrs;
}

// Checks the view and the indices, and returns them as operands.
std::vector<Handle> tile_operands(const View& view, const Shape& tile_shape, const Indices& index,
                                  const std::string& op, Loc loc) {
  Recorder& recorder = recorder_of(view.handle(), op, loc);
  recorder.require_live(view.handle(), op, loc);
  if (index.size() != tile_shape.size()) {
    fail(loc, op,
         "expected one index per dimension of the view (" + std::to_string(tile_shape.size()) +
             "), including squeezed ones, got " + std::to_string(index.size()));
  }
  std::vector<Handle> operands{view.handle()};
  for (const ScalarArg& i : index) operands.push_back(index_operand(recorder, i, op, i.loc));
  return operands;
}

// Checks the alignment offset, if there is one, and appends it to the operands.
void add_alignment_offset(const Scalar& alignment_offset, const Shape& tile_shape,
                          std::vector<Handle>& operands, Attrs& attrs, const std::string& op,
                          Loc loc) {
  if (alignment_offset.empty()) return;
  detail::require_alignment_offset(*operands[0].recorder, alignment_offset, tile_shape, op, loc);
  operands.push_back(alignment_offset.handle());
  attrs.push_back({AttrKey::has_alignment_offset, int64_t{1}});
}

Handle load_view(const View& view, const Shape& tile_shape, const Indices& index,
                 const LoadOptions& options, Loc loc, int64_t resident = 0) {
  std::vector<Handle> operands = tile_operands(view, tile_shape, index, "load", loc);
  Recorder& recorder = *operands[0].recorder;
  require_pad(options.pad, view.dtype(), loc);
  Attrs attrs = hints(options.cache, options.evict);
  attrs.push_back({AttrKey::tile_shape, tile_shape});
  attrs.push_back({AttrKey::pad, options.pad});
  if (resident) attrs.push_back({AttrKey::resident, resident});
  add_alignment_offset(options.alignment_offset, tile_shape, operands, attrs, "load", loc);
  const Shape shape = program::partitionShape(tile_shape);
  const Type type = shape.empty() ? scalar_type(view.dtype()) : tile_type(view.dtype(), shape);
  return recorder.emit_one(OpCode::load_tile, operands, type, std::move(attrs), loc);
}

// Records store_tile or add_tile.
void write_view(OpCode code, const View& view, const Shape& tile_shape, const Indices& index,
                const Operand& value, const StoreOptions& options, Loc loc) {
  const char* op = code == OpCode::store_tile ? "store" : "add";
  std::vector<Handle> operands = tile_operands(view, tile_shape, index, op, loc);
  Recorder& recorder = *operands[0].recorder;
  if (!value.is_number) {
    recorder.require_live(value.handle, op, loc);
    if (value.handle.dtype != view.dtype()) {
      fail(loc, op,
           std::string(value.handle.shape.empty() ? "the scalar" : "the tile") + " is " +
               name(value.handle.dtype) + ", but the view has elements of " + name(view.dtype()) +
               "; convert with .to(" + name(view.dtype()) + ")");
    }
  }
  if (code == OpCode::add_tile && !program::accepts(program::Dtypes::numbers, view.dtype()))
    fail(loc, op,
         std::string("expected a view of numbers other than fp8, got ") + name(view.dtype()));
  Attrs attrs = hints(options.cache, options.evict);
  if (options.tensor_copies) attrs.push_back({AttrKey::tensor_copies, 1});
  attrs.push_back({AttrKey::tile_shape, tile_shape});
  add_alignment_offset(options.alignment_offset, tile_shape, operands, attrs, op, loc);
  const Shape shape = program::partitionShape(tile_shape);
  if (shape.empty()) {
    operands.push_back(value.is_number
                           ? constant(recorder, value.number, scalar_type(view.dtype()), op, loc)
                           : value.handle);
  } else {
    const bool is_tile = !value.is_number && recorder.type(value.handle).kind == TypeKind::tile;
    if (is_tile && value.handle.shape != shape) {
      fail(loc, op,
           "expected a tile of shape " + detail::to_string(shape) + ", as in the partition, got " +
               detail::to_string(value.handle.shape));
    }
    operands.push_back(tile_operand(recorder, value, tile_type(view.dtype(), shape), op, loc));
  }
  recorder.emit(code, operands, {}, std::move(attrs), loc);
}

Scalar view_number(const View& view, OpCode code, int axis, Loc loc) {
  const char* op = program::opName(code);
  Recorder& recorder = recorder_of(view.handle(), op, loc);
  const int at = detail::normal_axis(axis, view.rank(), op, loc);
  return Scalar(recorder.emit_one(code, {view.handle()}, scalar_type(i64),
                                  {{AttrKey::axis, int64_t{at}}}, loc));
}

}  // namespace

Scalar View::dim(int axis, Loc loc) const {
  return view_number(*this, OpCode::dim, axis, loc);
}
Scalar View::stride(int axis, Loc loc) const {
  return view_number(*this, OpCode::stride, axis, loc);
}

Scalar View::alignment_offset(const Indices& index, Loc loc) const {
  Recorder& recorder = recorder_of(handle_, "alignment_offset", loc);
  recorder.require_live(handle_, "alignment_offset", loc);
  if (static_cast<int>(index.size()) + 1 != rank()) {
    fail(loc, "alignment_offset",
         "expected one index per dimension of the view except the last (" +
             std::to_string(rank() - 1) + "), got " + std::to_string(index.size()));
  }
  std::vector<Handle> operands{handle_};
  for (const ScalarArg& i : index)
    operands.push_back(index_operand(recorder, i, "alignment_offset", i.loc));
  Handle alignment_offset =
      recorder.emit_one(OpCode::alignment_offset, operands, scalar_type(i32), {}, loc);
  recorder.alignment_offsets.insert(alignment_offset.id);
  return Scalar(alignment_offset);
}
Scalar View::max_alignment_offset(Loc loc) const {
  Recorder& recorder = recorder_of(handle_, "max_alignment_offset", loc);
  recorder.require_live(handle_, "max_alignment_offset", loc);
  return Scalar(
      recorder.emit_one(OpCode::max_alignment_offset, {handle_}, scalar_type(i32), {}, loc));
}

Ptr View::ptr(Loc loc) const {
  Recorder& recorder = recorder_of(handle_, "ptr", loc);
  return Ptr(
      recorder.emit_one(OpCode::view_ptr, {handle_}, {TypeKind::ptr, dtype(), {}, {}}, {}, loc));
}

View View::slice(int axis, const ScalarArg& begin, const ScalarArg& end, Loc loc) const {
  Recorder& recorder = recorder_of(handle_, "slice", loc);
  recorder.require_live(handle_, "slice", loc);
  const int at = detail::normal_axis(axis, rank(), "slice", loc);
  const auto bound = [&](const ScalarArg& number) {
    return Scalar(index_operand(recorder, number, "slice", number.loc)).to(i64, loc).handle();
  };
  Type type = recorder.type(handle_);
  type.shape[static_cast<size_t>(at)] = dyn;
  return View(recorder.emit_one(OpCode::slice, {handle_, bound(begin), bound(end)}, type,
                                {{AttrKey::axis, int64_t{at}}}, loc));
}

View View::every(int axis, int64_t step, const ScalarArg& begin, Loc loc) const {
  Recorder& recorder = recorder_of(handle_, "every", loc);
  recorder.require_live(handle_, "every", loc);
  const int at = detail::normal_axis(axis, rank(), "every", loc);
  if (step < 1 || step > INT32_MAX)
    fail(loc, "every", "expected a step from 1 to 2147483647, got " + std::to_string(step));
  Type type = recorder.type(handle_);
  type.shape[static_cast<size_t>(at)] = dyn;
  int64_t& stride = type.strides[static_cast<size_t>(at)];
  if (stride != dyn && __builtin_mul_overflow(stride, step, &stride))
    fail(loc, "every",
         "the step " + std::to_string(step) + " times the stride " +
             std::to_string(recorder.type(handle_).strides[static_cast<size_t>(at)]) +
             " exceeds 64 bits; use a smaller step");
  const Handle first =
      Scalar(index_operand(recorder, begin, "every", begin.loc)).to(i64, loc).handle();
  return View(recorder.emit_one(OpCode::slice, {handle_, first, dim(at, loc).handle()}, type,
                                {{AttrKey::axis, int64_t{at}}, {AttrKey::step, step}}, loc));
}

Partition View::partition(const Shape& tile_shape, Loc loc) const {
  recorder_of(handle_, "partition", loc).require_live(handle_, "partition", loc);
  if (static_cast<int>(tile_shape.size()) != rank()) {
    fail(loc, "partition",
         "expected a tile shape with one entry per dimension of the view (" +
             std::to_string(rank()) + "), got " + detail::to_string(tile_shape) +
             "; the entry `squeeze` takes one element");
  }
  const Shape shape = program::partitionShape(tile_shape);
  if (shape.empty())
    fail(loc, "partition",
         "every dimension is squeezed; use view.load({...}) and view.store({...}, value)");
  detail::require_tile_shape(shape, "partition", loc);
  return Partition(*this, tile_shape);
}

Scalar View::load(const Indices& index, const LoadOptions& options, Loc loc) const {
  return Scalar(load_view(*this, Shape(rank(), squeeze), index, options, loc));
}

void View::store(const Indices& index, const ScalarArg& value, const StoreOptions& options,
                 Loc loc) const {
  write_view(OpCode::store_tile, *this, Shape(rank(), squeeze), index, value, options, loc);
}

void View::add(const Indices& index, const ScalarArg& value, const StoreOptions& options,
               Loc loc) const {
  write_view(OpCode::add_tile, *this, Shape(rank(), squeeze), index, value, options, loc);
}

Shape Partition::shape() const {
  return program::partitionShape(tile_shape_);
}

Tile Partition::load(const Indices& index, const LoadOptions& options, Loc loc) const {
  return Tile(load_view(view_, tile_shape_, index, options, loc));
}

void Partition::store(const Indices& index, const TileArg& value, const StoreOptions& options,
                      Loc loc) const {
  write_view(OpCode::store_tile, view_, tile_shape_, index, value, options, loc);
}

void Partition::add(const Indices& index, const TileArg& value, const StoreOptions& options,
                    Loc loc) const {
  write_view(OpCode::add_tile, view_, tile_shape_, index, value, options, loc);
}

Resident Partition::resident(const Indices& index, const LoadOptions& options, Loc loc) const {
  Recorder& recorder = recorder_of(view_.handle(), "resident", loc);
  if (index.size() + 1 != tile_shape_.size()) {
    fail(loc, "resident",
         "expected one index per dimension of the view except the last (" +
             std::to_string(tile_shape_.size() - 1) + "), got " + std::to_string(index.size()));
  }
  if (tile_shape_.back() == squeeze)
    fail(loc, "resident",
         "the last dimension is squeezed, but a resident row consists of tiles along it; give it a "
         "tile size");
  for (size_t axis = 0; axis + 1 < tile_shape_.size(); ++axis) {
    if (tile_shape_[axis] > 1) {
      fail(loc, "resident",
           "the tiles of a resident row must be in one row, got " +
               std::to_string(tile_shape_[axis]) + " rows along dimension " + std::to_string(axis) +
               "; squeeze every dimension except the last, and call resident() once per row");
    }
  }
  Resident row;
  row.partition_ = *this;
  for (const ScalarArg& i : index)
    row.others_.push_back(Scalar(index_operand(recorder, i, "resident", i.loc)));
  row.options_ = options;
  row.id_ = ++recorder.num_residents;
  return row;
}

Scalar Resident::blocks(Loc loc) const {
  Scalar size = partition_.view().dim(-1, loc).to(i32, loc);
  if (!options_.alignment_offset.empty()) size = size + partition_.view().max_alignment_offset(loc);
  return cdiv(size, partition_.tile_shape().back(), loc);
}

Tile Resident::load(const ScalarArg& block, Loc loc) const {
  Indices index = others_;
  index.push_back(block);
  return Tile(load_view(partition_.view(), partition_.tile_shape(), index, options_, loc, id_));
}

namespace {

// Records pointer + offset. A tile of offsets gives a tile of pointers.
Handle add_pointer(const Operand& pointer, const Operand& offset) {
  const std::string op = "pointer +";
  const Loc loc = offset.loc;
  Recorder& recorder = recorder_of(pointer.handle, op, loc);
  recorder.require_live(pointer.handle, op, loc);
  Handle base = pointer.handle;
  Handle count = scalar_operand(recorder, offset, i32, op, loc);
  if (count.dtype != i32 && count.dtype != i64) {
    fail(loc, op,
         std::string("an offset must be i32 or i64, got ") + name(count.dtype) +
             "; convert it with .to(i64)");
  }
  Type type = recorder.type(base);
  const bool count_tile = recorder.type(count).kind == TypeKind::tile;
  if (type.kind == TypeKind::ptr && count_tile) {
    base = splat(base, count.shape, op, loc);
  } else if (type.kind == TypeKind::ptr_tile) {
    if (!count_tile) {
      count = splat(count, type.shape, op, loc);
    } else if (count.shape.size() != type.shape.size()) {
      fail(loc, op,
           "the pointers have shape " + detail::to_string(type.shape) + " and the offsets " +
               detail::to_string(count.shape) +
               ", expected equal ranks; raise the lower rank with .expand_dims(axis)");
    } else {
      Shape shape = type.shape;
      for (size_t i = 0; i < shape.size(); ++i)
        shape[i] = shape[i] == 1 ? count.shape[i] : shape[i];
      base = broadcast(base, shape, op, loc);
      count = broadcast(count, shape, op, loc);
    }
  }
  return recorder.emit_one(OpCode::addptr, {base, count}, recorder.type(base), {}, loc);
}

// Returns the type of the values at a pointer or tile of pointers.
Type pointee(const Recorder& recorder, const Handle& pointer) {
  const Type& type = recorder.type(pointer);
  return type.kind == TypeKind::ptr ? scalar_type(type.dtype) : tile_type(type.dtype, type.shape);
}

// Converts an operand to `type`, a scalar or tile type.
Handle conform(Recorder& recorder, const Operand& operand, const Type& type, const std::string& op,
               Loc loc) {
  if (type.kind == TypeKind::tile) return tile_operand(recorder, operand, type, op, loc);
  Handle scalar = scalar_operand(recorder, operand, type.dtype, op, loc);
  if (scalar.dtype != type.dtype) {
    fail(loc, op,
         std::string("expected ") + name(type.dtype) + ", got " + name(scalar.dtype) +
             "; convert it with .to(" + name(type.dtype) + ")");
  }
  return scalar;
}

struct Access {
  std::string op;
  std::vector<const Operand*> values;
  const Operand* mask = nullptr;
  const Operand* other = nullptr;
};

// Returns pointer [, values] [, mask] [, other], each in the shape of the pointers.
std::vector<Handle> access_operands(const Value& pointer, const Access& access, Attrs& attrs,
                                    Loc loc) {
  Recorder& recorder = recorder_of(pointer.handle(), access.op, loc);
  recorder.require_live(pointer.handle(), access.op, loc);
  const Type type = pointee(recorder, pointer.handle());
  std::vector<Handle> operands{pointer.handle()};
  for (const Operand* value : access.values)
    operands.push_back(conform(recorder, *value, type, access.op, loc));
  if (access.mask) {
    Type mask = type;
    mask.dtype = i1;
    operands.push_back(conform(recorder, *access.mask, mask, access.op + " mask", loc));
    attrs.push_back({AttrKey::has_mask, int64_t{1}});
  }
  if (access.other) {
    operands.push_back(conform(recorder, *access.other, type, access.op + " other", loc));
    attrs.push_back({AttrKey::has_other, int64_t{1}});
  }
  return operands;
}

Handle load_pointer(const Value& p, const Operand* mask, const Operand* other, Loc loc) {
  Attrs attrs;
  const auto operands = access_operands(p, {"load", {}, mask, other}, attrs, loc);
  Recorder& recorder = *operands[0].recorder;
  return recorder.emit_one(OpCode::load, operands, pointee(recorder, operands[0]), std::move(attrs),
                           loc);
}

void store_pointer(const Value& p, const Operand& value, const Operand* mask, Loc loc) {
  Attrs attrs;
  const auto operands = access_operands(p, {"store", {&value}, mask}, attrs, loc);
  operands[0].recorder->emit(OpCode::store, operands, {}, std::move(attrs), loc);
}

const char* name_of(AtomicKind kind) {
  switch (kind) {
    case AtomicKind::add:
      return "atomic_add";
    case AtomicKind::max:
      return "atomic_max";
    case AtomicKind::min:
      return "atomic_min";
    case AtomicKind::xchg:
      return "atomic_xchg";
  }
  return "";
}

Handle atomic(const Value& p, const Operand& value, const Operand* mask, AtomicKind kind, Loc loc) {
  const std::string op = name_of(kind);
  const DType dtype = p.dtype();
  const bool half = dtype == f16 || dtype == bf16;
  if (!program::accepts(program::Dtypes::atomics, dtype) || (half && kind != AtomicKind::add)) {
    fail(loc, op,
         std::string("expected a pointer to i32, i64") +
             (kind == AtomicKind::add ? ", f16, bf16" : "") + " or f32, got " + name(dtype));
  }
  Attrs attrs{{AttrKey::atomic, static_cast<int64_t>(kind)}};
  const auto operands = access_operands(p, {op, {&value}, mask}, attrs, loc);
  Recorder& recorder = *operands[0].recorder;
  return recorder.emit_one(OpCode::atomic_rmw, operands, pointee(recorder, operands[0]),
                           std::move(attrs), loc);
}

Handle compare_and_swap(const Value& p, const Operand& expected, const Operand& desired,
                        const Operand* mask, Loc loc) {
  const std::string op = "atomic_cas";
  const program::Dtypes dtypes = program::info(OpCode::atomic_cas).dtypes;
  if (!accepts(dtypes, p.dtype()))
    fail(loc, op,
         std::string("expected a pointer to ") + wanted(dtypes) + ", got " + name(p.dtype()));
  Attrs attrs;
  const auto operands = access_operands(p, {op, {&expected, &desired}, mask}, attrs, loc);
  Recorder& recorder = *operands[0].recorder;
  return recorder.emit_one(OpCode::atomic_cas, operands, pointee(recorder, operands[0]),
                           std::move(attrs), loc);
}

}  // namespace

Ptr operator+(At<Ptr> p, ScalarArg offset) {
  return Ptr(add_pointer(p, offset));
}
PtrTile operator+(At<Ptr> p, At<Tile> offset) {
  return PtrTile(add_pointer(p, offset));
}
PtrTile operator+(At<PtrTile> p, At<Tile> offset) {
  return PtrTile(add_pointer(p, offset));
}
PtrTile operator+(At<PtrTile> p, ScalarArg offset) {
  return PtrTile(add_pointer(p, offset));
}

Tile load(const PtrTile& p, Loc loc) {
  return Tile(load_pointer(p, nullptr, nullptr, loc));
}
Tile load(const PtrTile& p, TileArg mask, Loc loc) {
  return Tile(load_pointer(p, &mask, nullptr, loc));
}
Tile load(const PtrTile& p, TileArg mask, TileArg other, Loc loc) {
  return Tile(load_pointer(p, &mask, &other, loc));
}
Scalar load(const Ptr& p, Loc loc) {
  return Scalar(load_pointer(p, nullptr, nullptr, loc));
}
Scalar load(const Ptr& p, ScalarArg mask, Loc loc) {
  return Scalar(load_pointer(p, &mask, nullptr, loc));
}
Scalar load(const Ptr& p, ScalarArg mask, ScalarArg other, Loc loc) {
  return Scalar(load_pointer(p, &mask, &other, loc));
}

void store(const PtrTile& p, TileArg value, Loc loc) {
  store_pointer(p, value, nullptr, loc);
}
void store(const PtrTile& p, TileArg value, TileArg mask, Loc loc) {
  store_pointer(p, value, &mask, loc);
}
void store(const Ptr& p, ScalarArg value, Loc loc) {
  store_pointer(p, value, nullptr, loc);
}
void store(const Ptr& p, ScalarArg value, ScalarArg mask, Loc loc) {
  store_pointer(p, value, &mask, loc);
}

#define LIGERDSL_ATOMIC_FUNCTION(fn, kind)                            \
  Tile fn(const PtrTile& p, TileArg value, Loc loc) {                 \
    return Tile(atomic(p, value, nullptr, AtomicKind::kind, loc));    \
  }                                                                   \
  Tile fn(const PtrTile& p, TileArg value, TileArg mask, Loc loc) {   \
    return Tile(atomic(p, value, &mask, AtomicKind::kind, loc));      \
  }                                                                   \
  Scalar fn(const Ptr& p, ScalarArg value, Loc loc) {                 \
    return Scalar(atomic(p, value, nullptr, AtomicKind::kind, loc));  \
  }                                                                   \
  Scalar fn(const Ptr& p, ScalarArg value, ScalarArg mask, Loc loc) { \
    return Scalar(atomic(p, value, &mask, AtomicKind::kind, loc));    \
  }

LIGERDSL_ATOMIC_FUNCTION(atomic_add, add)
LIGERDSL_ATOMIC_FUNCTION(atomic_max, max)
LIGERDSL_ATOMIC_FUNCTION(atomic_min, min)
LIGERDSL_ATOMIC_FUNCTION(atomic_xchg, xchg)

Tile atomic_cas(const PtrTile& p, TileArg expected, TileArg desired, Loc loc) {
  return Tile(compare_and_swap(p, expected, desired, nullptr, loc));
}
Tile atomic_cas(const PtrTile& p, TileArg expected, TileArg desired, TileArg mask, Loc loc) {
  return Tile(compare_and_swap(p, expected, desired, &mask, loc));
}
Scalar atomic_cas(const Ptr& p, ScalarArg expected, ScalarArg desired, Loc loc) {
  return Scalar(compare_and_swap(p, expected, desired, nullptr, loc));
}
Scalar atomic_cas(const Ptr& p, ScalarArg expected, ScalarArg desired, ScalarArg mask, Loc loc) {
  return Scalar(compare_and_swap(p, expected, desired, &mask, loc));
}

void assume(const Scalar& condition, Loc loc) {
  Recorder& recorder = recorder_of(condition.handle(), "assume", loc);
  if (condition.dtype() != i1)
    fail(loc, "assume",
         std::string("expected an i1 scalar, got ") + name(condition.dtype()) +
             "; compare first, as in x != 0");
  recorder.emit(OpCode::assume, {condition.handle()}, {}, {}, loc);
}

Scalar assume_divisible(const Scalar& x, int64_t divisor, Loc loc) {
  Recorder& recorder = recorder_of(x.handle(), "assume_divisible", loc);
  if (x.dtype() != i32 && x.dtype() != i64) {
    fail(loc, "assume_divisible",
         std::string("expected an i32 or i64 scalar, got ") + name(x.dtype()));
  }
  if (divisor < 1)
    fail(loc, "assume_divisible", "the divisor must be positive, got " + std::to_string(divisor));
  return Scalar(recorder.emit_one(OpCode::assume_divisible, {x.handle()}, scalar_type(x.dtype()),
                                  {{AttrKey::divisor, divisor}}, loc));
}

void device_print(const std::string& text, const std::vector<Value>& values, Loc loc) {
  if (values.empty()) fail(loc, "device_print", "expected at least one value to print, got none");
  Recorder& recorder = recorder_of(values[0].handle(), "device_print", loc);
  std::vector<Handle> operands;
  for (const Value& value : values) {
    recorder.require_live(value.handle(), "device_print", loc);
    const Type& type = recorder.type(value.handle());
    if (type.kind != TypeKind::scalar && type.kind != TypeKind::tile) {
      fail(loc, "device_print",
           "expected scalars and tiles, got " + detail::to_string(type) + "; print a loaded value");
    }
    operands.push_back(value.handle());
  }
  recorder.emit(OpCode::device_print, operands, {}, {{AttrKey::text, text}}, loc);
}

}  // namespace ligerdsl

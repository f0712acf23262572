// Views, pointers and atomics on host memory.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "interpreter/convert.h"
#include "interpreter/machine.h"

namespace ligerdsl::interpreter {

using program::AtomicKind;
using program::AtomicOp;
using program::AttrKey;
using program::MemoryOp;
using program::OpCode;
using program::TypeKind;

namespace {

// Returns a * b + c with wrap-around. The caller checks the address.
int64_t wrapping_multiply_add(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) +
                              static_cast<uint64_t>(c));
}

}  // namespace

void* Machine::checked(const Op& op, int64_t address, DType dtype) const {
  const auto begin = static_cast<uintptr_t>(address);
  const auto bytes = static_cast<uintptr_t>(element_bytes(dtype));
  for (const Arguments::Range& range : ranges_) {
    if (begin >= range.begin && begin < range.end && range.end - begin >= bytes)
      return reinterpret_cast<void*>(begin);
  }
  fail(
      op,
      "the accessed element is outside the memory of the arguments; correct its index, or mask it");
}

void Machine::read_element(DType dtype, const void* address, Data& out, int64_t at) const {
  if (is_float(dtype)) {
    if (wide_) {
      std::memcpy(&out.real[at], address, sizeof(double));
    } else {
      out.real[at] = read_float(dtype, address);
    }
  } else {
    out.integer[at] =
        wide_ ? wrap_to(dtype, read_integer(i64, address)) : read_integer(dtype, address);
  }
}

void Machine::write_element(DType dtype, void* address, const Data& in, int64_t at) const {
  if (is_float(dtype)) {
    if (wide_) {
      std::memcpy(address, &in.real[at], sizeof(double));
    } else {
      write_float(dtype, address, in.real[at]);
    }
  } else {
    write_integer(wide_ ? i64 : dtype, address, in.integer[at]);
  }
}

void Machine::note(const Op& op, const void* element, DType dtype, Access access,
                   bool changes) const {
  if (!log_) return;
  const std::string conflict =
      log_->note(element, static_cast<int64_t>(element_bytes(dtype)), access, changes);
  if (!conflict.empty()) fail(op, conflict);
}

void Machine::load_element(const Op& op, int64_t address, DType dtype, Data& out,
                           int64_t at) const {
  const void* element = checked(op, address, dtype);
  note(op, element, dtype, Access::read, false);
  read_element(dtype, element, out, at);
}

void Machine::store_element(const Op& op, int64_t address, DType dtype, const Data& in,
                            int64_t at) const {
  void* element = checked(op, address, dtype);
  uint64_t before = 0, after = 0;
  std::memcpy(&before, element, element_bytes(dtype));
  write_element(dtype, element, in, at);
  std::memcpy(&after, element, element_bytes(dtype));
  note(op, element, dtype, Access::write, before != after);
}

void Machine::memory(const Op& op, MemoryOp code) {
  switch (code) {
    case MemoryOp::load_tile:
    case MemoryOp::store_tile:
    case MemoryOp::add_tile:
      return tile_access(op);
    case MemoryOp::load:
    case MemoryOp::store:
      return pointer_access(op);
    case MemoryOp::view_ptr:
      result(op).integer[0] = views_[op.operands[0]].base;
      return;
    case MemoryOp::slice:
      return slice(op);
    case MemoryOp::addptr: {
      const std::vector<int64_t>& base = data(op.operands[0]).integer;
      const std::vector<int64_t>& offset = data(op.operands[1]).integer;
      const int64_t bytes = element_bytes(type(op.operands[0]).dtype);
      std::vector<int64_t>& out = result(op).integer;
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = wrapping_multiply_add(offset[i], bytes, base[i]);
    }
  }
}

void Machine::slice(const Op& op) {
  View view = views_[op.operands[0]];
  const auto axis = static_cast<size_t>(op.integer(AttrKey::axis));
  const int64_t size = view.dims[axis];
  const int64_t begin = std::clamp<int64_t>(data(op.operands[1]).integer[0], 0, size);
  const int64_t end = std::clamp<int64_t>(data(op.operands[2]).integer[0], begin, size);
  const int64_t bytes = element_bytes(type(op.operands[0]).dtype);
  view.base =
      wrapping_multiply_add(wrapping_multiply_add(begin, view.strides[axis], 0), bytes, view.base);
  const int64_t step = op.integer(AttrKey::step, 1);
  view.dims[axis] = (end - begin) / step + ((end - begin) % step != 0);
  view.strides[axis] = wrapping_multiply_add(view.strides[axis], step, 0);
  views_[op.results[0]] = std::move(view);
}

// Returns the largest alignment offset on a GPU: one element less than 16 bytes, or 0 if the last
// dimension is not contiguous.
int64_t Machine::max_alignment_offset(const Op& op) const {
  const View& view = views_[op.operands[0]];
  return view.strides.back() == 1 ? 16 / size_of(type(op.operands[0]).dtype) - 1 : 0;
}

int64_t Machine::alignment_offset(const Op& op) {
  const View& view = views_[op.operands[0]];
  int64_t first = view.base / element_bytes(type(op.operands[0]).dtype);
  for (size_t d = 0; d + 1 < view.strides.size(); ++d)
    first = wrapping_multiply_add(data(op.operands[1 + d]).integer[0], view.strides[d], first);
  return first & max_alignment_offset(op);
}

void Machine::tile_access(const Op& op) {
  const View& view = views_[op.operands[0]];
  const DType dtype = type(op.operands[0]).dtype;
  const auto& tile_shape = std::get<std::vector<int64_t>>(*op.find(AttrKey::tile_shape));
  const size_t rank = tile_shape.size();
  Shape extents(rank), start(rank);
  for (size_t d = 0; d < rank; ++d) {
    extents[d] = std::max<int64_t>(tile_shape[d], 1);
    start[d] = wrapping_multiply_add(data(op.operands[1 + d]).integer[0], extents[d], 0);
  }
  if (op.integer(AttrKey::has_alignment_offset))
    start[rank - 1] =
        wrapping_multiply_add(data(op.operands[1 + rank]).integer[0], -1, start[rank - 1]);
  const bool is_load = op.code == OpCode::load_tile, adds = op.code == OpCode::add_tile;
  Data& value = is_load ? result(op) : data(op.operands.back());
  Data sum = adds ? value : Data{};
  const double pad =
      is_float(dtype) ? round_to(dtype, op.number(AttrKey::pad)) : op.number(AttrKey::pad);
  const int64_t elements = program::tileElements(extents);
  Shape index(rank, 0);
  for (int64_t i = 0; i < elements; ++i) {
    bool inside = true;
    int64_t offset = 0;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t position = wrapping_multiply_add(start[d], 1, index[d]);
      inside = inside && position >= 0 && position < view.dims[d];
      offset = wrapping_multiply_add(position, view.strides[d], offset);
    }
    if (inside) {
      const int64_t address = wrapping_multiply_add(offset, element_bytes(dtype), view.base);
      if (is_load) {
        load_element(op, address, dtype, value, i);
      } else if (adds) {
        load_element(op, address, dtype, sum, i);
        is_float(dtype)
            ? sum.real[i] += value.real[i]
            : sum.integer[i] = wrapping_multiply_add(sum.integer[i], 1, value.integer[i]);
        store_element(op, address, dtype, sum, i);
      } else {
        store_element(op, address, dtype, value, i);
      }
    } else if (is_load) {
      if (is_float(dtype)) {
        value.real[i] = pad;
      } else {
        value.integer[i] = static_cast<int64_t>(pad);
      }
    }
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < extents[d]) break;
      index[d] = 0;
    }
  }
  if (is_load && op.integer(AttrKey::resident)) require_unchanged(op, start, value);
}

// Fails if a resident block has changed since its first load, because a target may return the tile
// of the first load again.
void Machine::require_unchanged(const Op& op, const Shape& start, const Data& block) {
  const auto [before, first] =
      residents_.try_emplace({op.integer(AttrKey::resident), start}, block);
  const auto same_bits = [](double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  };
  if (first ||
      (before->second.integer == block.integer &&
       std::equal(block.real.begin(), block.real.end(), before->second.real.begin(), same_bits)))
    return;
  fail(op,
       "this block of a resident row was written after its first load; write it after its last "
       "load, or load it without resident()");
}

void Machine::pointer_access(const Op& op) {
  const bool is_load = op.code == OpCode::load;
  const bool has_mask = op.integer(AttrKey::has_mask) != 0;
  const bool has_other = op.integer(AttrKey::has_other) != 0;
  const DType dtype = type(op.operands[0]).dtype;
  const std::vector<int64_t>& address = data(op.operands[0]).integer;
  const std::vector<int64_t>* mask =
      has_mask ? &data(op.operands[is_load ? 1 : 2]).integer : nullptr;
  Data& value = is_load ? result(op) : data(op.operands[1]);
  const Data* other = has_other ? &data(op.operands[2]) : nullptr;
  for (size_t i = 0; i < address.size(); ++i) {
    if (!mask || (*mask)[i]) {
      is_load ? load_element(op, address[i], dtype, value, i)
              : store_element(op, address[i], dtype, value, i);
    } else if (is_load && is_float(dtype)) {
      value.real[i] = other ? other->real[i] : 0.0;
    } else if (is_load) {
      value.integer[i] = other ? other->integer[i] : 0;
    }
  }
}

namespace {

// Returns the new value of an element with value `old`. `operands` excludes the pointer.
template <class T>
T updated(const Op& op, AtomicOp code, T old, const std::vector<T>& operands) {
  switch (code) {
    case AtomicOp::atomic_rmw:
      switch (static_cast<AtomicKind>(op.integer(AttrKey::atomic))) {
        case AtomicKind::add:
          if constexpr (std::is_integral_v<T>) {
            return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(operands[0]));
          } else {
            return old + operands[0];
          }
        case AtomicKind::max:
          if constexpr (!std::is_integral_v<T>) {
            if (std::isnan(old)) return old;
          }
          return old > operands[0] ? old : operands[0];
        case AtomicKind::min:
          if constexpr (!std::is_integral_v<T>) {
            if (std::isnan(old)) return old;
          }
          return old < operands[0] ? old : operands[0];
        case AtomicKind::xchg:
          return operands[0];
      }
      break;
    case AtomicOp::atomic_cas:
      return old == operands[0] ? operands[1] : old;
  }
  return old;
}

}  // namespace

void Machine::atomic(const Op& op, AtomicOp code) {
  const DType dtype = type(op.operands[0]).dtype;
  const std::vector<int64_t>& address = data(op.operands[0]).integer;
  const bool has_mask = op.integer(AttrKey::has_mask) != 0;
  const std::vector<int64_t>* mask = has_mask ? &data(op.operands.back()).integer : nullptr;
  const size_t values = op.operands.size() - 1 - has_mask;
  Data& old = result(op);
  std::fill(old.real.begin(), old.real.end(), 0.0);  // elements that the mask excludes return 0
  std::fill(old.integer.begin(), old.integer.end(), 0);
  for (size_t i = 0; i < address.size(); ++i) {
    if (mask && !(*mask)[i]) continue;
    void* element = checked(op, address[i], dtype);
    note(op, element, dtype, Access::update, true);
    read_element(dtype, element, old, i);
    Data operands, now;
    for (size_t n = 1; n <= values; ++n) {
      const Data& operand = data(op.operands[n]);
      if (is_float(dtype)) {
        operands.real.push_back(operand.real[i]);
      } else {
        operands.integer.push_back(operand.integer[i]);
      }
    }
    if (is_float(dtype)) {
      now.real = {updated(op, code, old.real[i], operands.real)};
    } else {
      now.integer = {wrap_to(dtype, updated(op, code, old.integer[i], operands.integer))};
    }
    write_element(dtype, element, now, 0);
  }
}

}  // namespace ligerdsl::interpreter

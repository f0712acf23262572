// Reductions and scans: sequential, in index order.
#include <algorithm>
#include <cmath>

#include "interpreter/convert.h"
#include "interpreter/machine.h"

namespace ligerdsl::interpreter {

using program::AttrKey;
using program::ReductionKind;

namespace {

// A shape as [outer, extent, inner], where `extent` is the size of the axis.
struct Slices {
  int64_t outer = 1, extent = 1, inner = 1;
  Slices(const Shape& shape, int64_t axis) {
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& part = static_cast<int64_t>(d) < axis    ? outer
                      : static_cast<int64_t>(d) == axis ? extent
                                                        : inner;
      part *= shape[d];
    }
  }
  int64_t at(int64_t o, int64_t e, int64_t i) const { return (o * extent + e) * inner + i; }
};

template <class T>
T pick(ReductionKind kind, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  }
  return kind == ReductionKind::max ? std::max(a, b) : std::min(a, b);
}

int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// Returns one element of every operand.
std::vector<Data> element(const std::vector<const Data*>& operands, int64_t index) {
  std::vector<Data> out(operands.size());
  for (size_t n = 0; n < operands.size(); ++n) {
    if (!operands[n]->real.empty()) out[n].real = {operands[n]->real[index]};
    if (!operands[n]->integer.empty()) out[n].integer = {operands[n]->integer[index]};
  }
  return out;
}

void put(Data& out, int64_t index, const Data& value) {
  if (!value.real.empty()) out.real[index] = value.real[0];
  if (!value.integer.empty()) out.integer[index] = value.integer[0];
}

}  // namespace

void Machine::combine(const Op& op, std::vector<Data>& left, const std::vector<Data>& right) {
  const auto kind = static_cast<ReductionKind>(op.integer(AttrKey::reduction));
  if (kind == ReductionKind::custom) {
    const Region& region = op.regions[0];
    for (size_t n = 0; n < left.size(); ++n) {
      data(region.arguments[n]) = left[n];
      data(region.arguments[left.size() + n]) = right[n];
    }
    const std::vector<ValueId> yielded = run_ops(region);
    for (size_t n = 0; n < left.size(); ++n) left[n] = data(yielded[n]);
    return;
  }
  const DType dtype = type(op.operands[0]).dtype;
  if (is_float(dtype)) {
    double& a = left[0].real[0];
    const double b = right[0].real[0];
    a = kind == ReductionKind::sum ? rounded(dtype, a + b) : pick(kind, a, b);
  } else {
    int64_t& a = left[0].integer[0];
    const int64_t b = right[0].integer[0];
    a = kind == ReductionKind::sum ? wrap_to(dtype, wrapping_add(a, b)) : pick(kind, a, b);
  }
}

void Machine::reduction(const Op& op, program::ReductionOp code) {
  switch (code) {
    case program::ReductionOp::reduce:
      return reduce(op);
    case program::ReductionOp::scan:
      return scan(op);
  }
}

void Machine::reduce(const Op& op) {
  const Slices slices(type(op.operands[0]).shape, op.integer(AttrKey::axis));
  std::vector<const Data*> in;
  std::vector<Data*> out;
  for (ValueId id : op.operands) in.push_back(&data(id));
  for (size_t n = 0; n < op.results.size(); ++n) out.push_back(&result(op, n));
  for (int64_t o = 0; o < slices.outer; ++o) {
    for (int64_t i = 0; i < slices.inner; ++i) {
      std::vector<Data> total = element(in, slices.at(o, 0, i));
      for (int64_t e = 1; e < slices.extent; ++e)
        combine(op, total, element(in, slices.at(o, e, i)));
      for (size_t n = 0; n < out.size(); ++n) put(*out[n], o * slices.inner + i, total[n]);
    }
  }
}

void Machine::scan(const Op& op) {
  const Slices slices(type(op.operands[0]).shape, op.integer(AttrKey::axis));
  const bool reverse = op.integer(AttrKey::reverse) != 0;
  std::vector<const Data*> in;
  std::vector<Data*> out;
  for (ValueId id : op.operands) in.push_back(&data(id));
  for (size_t n = 0; n < op.results.size(); ++n) out.push_back(&result(op, n));
  for (int64_t o = 0; o < slices.outer; ++o) {
    for (int64_t i = 0; i < slices.inner; ++i) {
      std::vector<Data> total;
      for (int64_t step = 0; step < slices.extent; ++step) {
        const int64_t at = slices.at(o, reverse ? slices.extent - 1 - step : step, i);
        if (step == 0) {
          total = element(in, at);
        } else {
          combine(op, total, element(in, at));
        }
        for (size_t n = 0; n < out.size(); ++n) put(*out[n], at, total[n]);
      }
    }
  }
}

}  // namespace ligerdsl::interpreter

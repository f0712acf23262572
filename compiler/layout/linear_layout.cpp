#include "compiler/layout/linear_layout.h"

#include <algorithm>
#include <cassert>

#include "compiler/layout/f2.h"

namespace ligerdsl::compiler {
namespace {

using Basis = LinearLayout::Basis;
using Bases = LinearLayout::Bases;
using Shape = LinearLayout::Shape;

int log2Exact(int64_t value) {
  assert(value > 0 && (value & (value - 1)) == 0 && "a power of two");
  return __builtin_ctzll(static_cast<unsigned long long>(value));
}

// Allocates the coordinate bits of a tile's 2^n part to basis vectors.
class BitAllocator {
 public:
  explicit BitAllocator(const Shape& shape) : shape_(shape), next_(shape.size(), 0) {
    for (int64_t size : shape) end_.push_back(splitOdd(size).second);
  }

  // Returns the next free bit of one dimension, or nothing if the dimension is full.
  std::optional<Basis> take(int dim) {
    if (next_[dim] >= end_[dim]) return std::nullopt;
    Basis basis(shape_.size(), 0);
    basis[dim] = int64_t{1} << next_[dim]++;
    return basis;
  }

  // Returns the next free bit of the innermost dimension >= `outermost` that is not full.
  std::optional<Basis> takeInner(int outermost = 0) {
    for (int dim = static_cast<int>(shape_.size()) - 1; dim >= outermost; --dim)
      if (auto basis = take(dim)) return basis;
    return std::nullopt;
  }

  // Returns bases for `count` bits of a thread number. Bits without room replicate.
  Bases takeThreads(int count) {
    Bases bases;
    for (int i = 0; i < count; ++i) bases.push_back(takeInner().value_or(zero()));
    return bases;
  }

  Bases takeCtas(const ClusterCut& cut) {
    Bases bases(log2Exact(cut.ctas), zero());
    auto basis = bases.rbegin();
    for (int dim : cut.dims)
      for (; basis != bases.rend() && next_[dim] < end_[dim]; ++basis)
        (*basis)[dim] = int64_t{1} << --end_[dim];
    return bases;
  }

  void takeRest(Bases& bases) {
    while (auto basis = takeInner()) bases.push_back(*basis);
  }

  Basis zero() const { return Basis(shape_.size(), 0); }

 private:
  const Shape& shape_;
  std::vector<int> next_, end_;  // per dimension: bits next_ to end_ - 1 are free
};

Bases takeVector(BitAllocator& allocator, const Shape& shape, int64_t vector) {
  Bases reg;
  if (shape.empty()) return reg;
  for (int i = 0; i < log2Exact(vector); ++i)
    if (auto basis = allocator.take(static_cast<int>(shape.size()) - 1)) reg.push_back(*basis);
  return reg;
}

// Returns the copy number of each dimension, decoded from `copy`, the outermost part of a register
// number.
std::vector<int64_t> decodeCopies(const Shape& shape, int64_t copy) {
  std::vector<int64_t> result(shape.size(), 0);
  for (int dim = static_cast<int>(shape.size()) - 1; dim >= 0; --dim) {
    int64_t odd = splitOdd(shape[dim]).first;
    result[dim] = copy % odd;
    copy /= odd;
  }
  return result;
}

// Returns true if no dimension's odd factor follows a power of two within the group of dimensions.
// Otherwise the row-major number is not linear in its bits: in {2, 3}, the first index adds 3.
bool oddDigitsLead(const Shape& shape, size_t begin, size_t end) {
  bool sawBits = false;
  for (size_t dim = begin; dim < end; ++dim) {
    auto [odd, bits] = splitOdd(shape[dim]);
    if (odd > 1 && sawBits) return false;
    if (bits > 0) sawBits = true;
  }
  return true;
}

// Splits both shapes into the smallest groups of dimensions with equal numbers of elements. For {2,
// 8, 3} and {16, 3}, these are {2, 8} with {16}, and {3} with {3}. Returns true if all groups stay
// linear.
bool reshapeIsLinear(const Shape& from, const Shape& to) {
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t beginFrom = i, beginTo = j;
    int64_t left = i < from.size() ? from[i++] : 1;
    int64_t right = j < to.size() ? to[j++] : 1;
    while (left != right) {
      if (left < right) {
        if (i == from.size()) return false;
        left *= from[i++];
      } else {
        if (j == to.size()) return false;
        right *= to[j++];
      }
    }
    if (!oddDigitsLead(from, beginFrom, i) || !oddDigitsLead(to, beginTo, j)) return false;
  }
  return true;
}

}  // namespace

std::pair<int64_t, int> splitOdd(int64_t value) {
  assert(value > 0);
  int bits = __builtin_ctzll(static_cast<unsigned long long>(value));
  return {value >> bits, bits};
}

LinearLayout::LinearLayout(Shape shape, Bases reg, Bases lane, Bases warp, Bases cta)
    : shape_(std::move(shape)),
      bases_{std::move(reg), std::move(lane), std::move(warp), std::move(cta)} {
  assert(check(shape_, bases_[0], bases_[1], bases_[2], bases_[3]).empty());
}

LinearLayout::LinearLayout(Shape shape, Bases reg, Bases lane, Bases warp, Bases cta, Unchecked)
    : shape_(std::move(shape)),
      bases_{std::move(reg), std::move(lane), std::move(warp), std::move(cta)} {}

std::string LinearLayout::check(const Shape& shape, const Bases& reg, const Bases& lane,
                                const Bases& warp, const Bases& cta) {
  int bitsInTile = 0;
  for (int64_t size : shape) {
    if (size < 1)
      return "a dimension of " + std::to_string(size) + " elements; expected at least 1";
    auto [odd, bits] = splitOdd(size);
    if (odd > kMaxOddFactor)
      return "a dimension of " + std::to_string(size) + " elements has the odd factor " +
             std::to_string(odd) +
             "; expected c * 2^n with odd c <= " + std::to_string(kMaxOddFactor);
    bitsInTile += bits;
  }
  if (bitsInTile > 62)
    return "the powers of two in the tile's dimensions multiply to 2^" +
           std::to_string(bitsInTile) + "; expected at most 2^62";
  if (const size_t count = reg.size() + lane.size() + warp.size() + cta.size(); count > 64)
    return "the layout has " + std::to_string(count) + " basis vectors; expected at most 64";

  static constexpr const char* kNames[] = {"register", "lane", "warp", "cta"};
  const Bases* axes[] = {&reg, &lane, &warp, &cta};
  F2Span span;
  LinearLayout probe(shape, {}, {}, {}, {}, Unchecked{});
  for (int axis = 0; axis < kAxes; ++axis) {
    for (const Basis& basis : *axes[axis]) {
      if (basis.size() != shape.size())
        return std::string("a ") + kNames[axis] + " basis vector has " +
               std::to_string(basis.size()) +
               " offsets; expected one per dimension: " + std::to_string(shape.size());
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        int64_t limit = int64_t{1} << splitOdd(shape[dim]).second;
        if (basis[dim] < 0 || basis[dim] >= limit)
          return std::string("a ") + kNames[axis] + " basis vector moves by " +
                 std::to_string(basis[dim]) + " in dimension " + std::to_string(dim) +
                 "; expected 0 <= offset < " + std::to_string(limit);
      }
      bool independent = span.insert(probe.flatten(basis));
      if (axis == 0 && !independent)
        return "the register basis vectors are dependent: a thread holds an element twice";
    }
  }
  if (span.rank() != bitsInTile)
    return "the basis vectors reach 2^" + std::to_string(span.rank()) + " of the tile's 2^" +
           std::to_string(bitsInTile) + " elements: no thread would hold the others";
  return "";
}

LinearLayout LinearLayout::blocked(const Shape& shape, int64_t vector, int64_t lanes, int64_t warps,
                                   const ClusterCut& cut) {
  BitAllocator allocator(shape);
  Bases cta = allocator.takeCtas(cut);
  Bases reg = takeVector(allocator, shape, vector);
  Bases lane = allocator.takeThreads(log2Exact(lanes));
  Bases warp = allocator.takeThreads(log2Exact(warps));
  allocator.takeRest(reg);
  return LinearLayout(shape, std::move(reg), std::move(lane), std::move(warp), std::move(cta));
}

LinearLayout LinearLayout::rowsPerWarp(const Shape& shape, int64_t vector, int64_t lanes,
                                       int64_t warps, const ClusterCut& cut) {
  BitAllocator allocator(shape);
  Bases cta = allocator.takeCtas(cut);
  Bases reg = takeVector(allocator, shape, vector);
  Bases lane = allocator.takeThreads(log2Exact(lanes));
  Bases warp;
  for (int i = 0; i < log2Exact(warps); ++i) {
    std::optional<Basis> basis;
    for (int dim = static_cast<int>(shape.size()) - 2; dim >= 0 && !basis; --dim)
      basis = allocator.take(dim);
    if (!basis) basis = allocator.takeInner();
    warp.push_back(basis.value_or(allocator.zero()));
  }
  allocator.takeRest(reg);
  return LinearLayout(shape, std::move(reg), std::move(lane), std::move(warp), std::move(cta));
}

LinearLayout LinearLayout::replicated(const Shape& shape, int64_t lanes, int64_t warps,
                                      int64_t ctas) {
  BitAllocator allocator(shape);
  Bases reg;
  allocator.takeRest(reg);
  return LinearLayout(shape, std::move(reg), allocator.takeThreads(log2Exact(lanes)),
                      allocator.takeThreads(log2Exact(warps)),
                      allocator.takeThreads(log2Exact(ctas)));
}

int64_t LinearLayout::copies() const {
  int64_t product = 1;
  for (int64_t size : shape_) product *= splitOdd(size).first;
  return product;
}

uint64_t LinearLayout::flatten(const Basis& offset) const {
  uint64_t mask = 0;
  for (size_t dim = 0; dim < shape_.size(); ++dim)
    mask = mask << splitOdd(shape_[dim]).second | static_cast<uint64_t>(offset[dim]);
  return mask;
}

Basis LinearLayout::unflatten(uint64_t mask) const {
  Basis offset(shape_.size(), 0);
  for (int dim = rank() - 1; dim >= 0; --dim) {
    int bits = splitOdd(shape_[dim]).second;
    offset[dim] = static_cast<int64_t>(mask & ((uint64_t{1} << bits) - 1));
    mask >>= bits;
  }
  return offset;
}

LinearLayout::Coordinates LinearLayout::coordinates(const Place& place) const {
  const int64_t numbers[] = {place.reg % linearRegisters(), place.lane, place.warp, place.cta};
  Coordinates result(shape_.size(), 0);
  for (int axis = 0; axis < kAxes; ++axis)
    for (size_t bit = 0; bit < bases_[axis].size(); ++bit)
      if (numbers[axis] >> bit & 1)
        for (size_t dim = 0; dim < shape_.size(); ++dim) result[dim] ^= bases_[axis][bit][dim];
  std::vector<int64_t> copy = decodeCopies(shape_, place.reg / linearRegisters());
  for (size_t dim = 0; dim < shape_.size(); ++dim)
    result[dim] += copy[dim] << splitOdd(shape_[dim]).second;
  return result;
}

std::pair<int64_t, uint64_t> LinearLayout::split(const Coordinates& coordinates) const {
  Basis offset(shape_.size());
  int64_t copy = 0;
  for (size_t dim = 0; dim < shape_.size(); ++dim) {
    auto [odd, bits] = splitOdd(shape_[dim]);
    copy = copy * odd + (coordinates[dim] >> bits);
    offset[dim] = coordinates[dim] & ((int64_t{1} << bits) - 1);
  }
  return {copy, flatten(offset)};
}

Place LinearLayout::owner(const Coordinates& coordinates) const {
  F2Span span;
  for (const Bases& axis : bases_)
    for (const Basis& basis : axis) span.insert(flatten(basis));
  auto [copy, offset] = split(coordinates);
  uint64_t solution = span.solve(offset).value();
  int64_t numbers[kAxes];
  for (int axis = 0; axis < kAxes; ++axis) {
    size_t bits = bases_[axis].size();
    numbers[axis] = static_cast<int64_t>(solution & ((uint64_t{1} << bits) - 1));
    solution >>= bits;
  }
  return {numbers[0] + copy * linearRegisters(), numbers[1], numbers[2], numbers[3]};
}

std::optional<int64_t> LinearLayout::registerAt(const Coordinates& coordinates) const {
  F2Span span;
  for (const Basis& basis : bases_[0]) span.insert(flatten(basis));
  auto [copy, offset] = split(coordinates);
  auto solution = span.solve(offset);
  if (!solution) return std::nullopt;
  return static_cast<int64_t>(*solution) + copy * linearRegisters();
}

BitMasks LinearLayout::redundant() const {
  F2Span span;
  uint64_t masks[kAxes] = {};
  for (int axis = 0; axis < kAxes; ++axis)
    for (size_t bit = 0; bit < bases_[axis].size(); ++bit)
      if (!span.insert(flatten(bases_[axis][bit]))) masks[axis] |= uint64_t{1} << bit;
  return {masks[0], masks[1], masks[2], masks[3]};
}

BitMasks LinearLayout::along(int dim) const {
  uint64_t masks[kAxes] = {};
  for (int axis = 0; axis < kAxes; ++axis)
    for (size_t bit = 0; bit < bases_[axis].size(); ++bit)
      if (bases_[axis][bit][dim] != 0) masks[axis] |= uint64_t{1} << bit;
  return {masks[0], masks[1], masks[2], masks[3]};
}

bool LinearLayout::isSeparable(int dim) const {
  for (const Bases& axis : bases_)
    for (const Basis& basis : axis)
      if (basis[dim] != 0)
        for (int other = 0; other < rank(); ++other)
          if (other != dim && basis[other] != 0) return false;
  return true;
}

int64_t LinearLayout::contiguous(int dim) const {
  const Bases& reg = bases_[0];
  size_t bits = 0;
  for (; bits < reg.size(); ++bits) {
    Basis unit(shape_.size(), 0);
    unit[dim] = int64_t{1} << bits;
    if (reg[bits] != unit) break;
  }
  // All other bits must move by multiples of the vector.
  for (int axis = 0; axis < kAxes; ++axis)
    for (size_t bit = axis == 0 ? bits : 0; bit < bases_[axis].size(); ++bit)
      if (int64_t step = bases_[axis][bit][dim])
        bits = std::min<size_t>(bits, splitOdd(step).second);
  return int64_t{1} << bits;
}

void LinearLayout::dropDuplicateRegisters() {
  F2Span span;
  Bases kept;
  for (Basis& basis : bases_[0])
    if (span.insert(flatten(basis))) kept.push_back(std::move(basis));
  bases_[0] = std::move(kept);
}

LinearLayout LinearLayout::mapBases(Shape shape, const std::vector<int>& sourceDims) const {
  LinearLayout result(std::move(shape), {}, {}, {}, {}, Unchecked{});
  for (int axis = 0; axis < kAxes; ++axis)
    for (const Basis& basis : bases_[axis]) {
      Basis mapped;
      for (int source : sourceDims) mapped.push_back(source < 0 ? 0 : basis[source]);
      result.bases_[axis].push_back(std::move(mapped));
    }
  result.dropDuplicateRegisters();
  return result;
}

LinearLayout LinearLayout::slice(int dim) const {
  Shape shape = shape_;
  shape.erase(shape.begin() + dim);
  std::vector<int> sources;
  for (int source = 0; source < rank(); ++source)
    if (source != dim) sources.push_back(source);
  return mapBases(std::move(shape), sources);
}

LinearLayout LinearLayout::shrink(const Shape& shape) const {
  assert(shape.size() == shape_.size());
  std::vector<int> sources;
  for (int dim = 0; dim < rank(); ++dim) {
    assert(shape[dim] == 1 || shape[dim] == shape_[dim]);
    sources.push_back(shape[dim] == 1 ? -1 : dim);
  }
  return mapBases(shape, sources);
}

LinearLayout LinearLayout::expandDims(int dim) const {
  Shape shape = shape_;
  shape.insert(shape.begin() + dim, 1);
  std::vector<int> sources;
  for (int source = 0; source < rank(); ++source) sources.push_back(source);
  sources.insert(sources.begin() + dim, -1);
  return mapBases(std::move(shape), sources);
}

LinearLayout LinearLayout::broadcastTo(const Shape& shape) const {
  assert(shape.size() == shape_.size());
  LinearLayout result = *this;
  result.shape_ = shape;
  for (int dim = rank() - 1; dim >= 0; --dim) {
    if (shape[dim] == shape_[dim]) continue;
    assert(shape_[dim] == 1);
    for (int bit = 0; bit < splitOdd(shape[dim]).second; ++bit) {
      Basis basis(shape.size(), 0);
      basis[dim] = int64_t{1} << bit;
      result.bases_[0].push_back(std::move(basis));
    }
  }
  return result;
}

LinearLayout LinearLayout::permute(const std::vector<int64_t>& permutation) const {
  Shape shape;
  std::vector<int> sources;
  for (int64_t dim : permutation) {
    shape.push_back(shape_[dim]);
    sources.push_back(static_cast<int>(dim));
  }
  return mapBases(std::move(shape), sources);
}

std::optional<LinearLayout> LinearLayout::partOfCta() const {
  std::vector<int64_t> taken(shape_.size(), 0);
  for (const Basis& basis : bases(Axis::cta))
    for (int dim = 0; dim < rank(); ++dim) {
      if (basis[dim] == 0) continue;
      if ((basis[dim] & (basis[dim] - 1)) != 0 || (taken[dim] & basis[dim]) != 0 ||
          std::count(basis.begin(), basis.end(), 0) != rank() - 1)
        return std::nullopt;
      taken[dim] |= basis[dim];
    }
  LinearLayout part = *this;
  part.bases_[static_cast<int>(Axis::cta)].clear();
  for (int dim = 0; dim < rank(); ++dim) {
    auto [odd, bits] = splitOdd(shape_[dim]);
    const int left = bits - __builtin_popcountll(static_cast<uint64_t>(taken[dim]));
    part.shape_[dim] = odd << left;
    if (taken[dim] != (int64_t{1} << bits) - (int64_t{1} << left)) return std::nullopt;
    for (int axis = 0; axis < static_cast<int>(Axis::cta); ++axis)
      for (const Basis& basis : part.bases_[axis])
        if (basis[dim] >> left) return std::nullopt;
  }
  return part;
}

std::optional<LinearLayout> LinearLayout::reshape(const Shape& shape) const {
  if (!reshapeIsLinear(shape_, shape)) return std::nullopt;
  LinearLayout result(shape, {}, {}, {}, {}, Unchecked{});
  for (int axis = 0; axis < kAxes; ++axis)
    for (const Basis& basis : bases_[axis])
      result.bases_[axis].push_back(result.unflatten(flatten(basis)));
  return result;
}

}  // namespace ligerdsl::compiler

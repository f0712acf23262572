// Linear layouts: which register of which thread holds which element of a tile.
//
// THE IDEA. Number the registers, the lanes of a warp, the warps of a CTA and the CTAs of a cluster
// in binary. Each *bit* of these numbers moves the element of a thread by a fixed offset, its basis
// vector (one offset per tile dimension). The offsets of all set bits are combined with exclusive
// or. A layout is a list of basis vectors, and nothing else:
//
//   coordinate(register, lane, warp, cta) = xor over all set bits of that bit's basis vector
//
// Queries about a layout are linear algebra over F2 on a dozen small vectors. Examples: which
// thread holds this element? Can eight registers be stored as one 16-byte vector? Which lanes must
// a reduction combine?
//
// EXAMPLE 1. A row of 64 elements, 4 lanes, 2 warps, vectors of 4: blocked({64}, 4, 4, 2)
//
//   register: 1, 2, 32      bits 0 and 1: the vector; bit 2: the second half of the row
//   lane:     4, 8          consecutive lanes hold consecutive vectors
//   warp:     16            warp 1 starts after the four lanes of warp 0
//
//   element   0..3     4..7     8..11    12..15   16..19   20..23   ...   32..35   36..39
//   held by   w0 l0    w0 l1    w0 l2    w0 l3    w1 l0    w1 l1          w0 l0    w0 l1
//   register  0..3     0..3     0..3     0..3     0..3     0..3           4..7     4..7
//
// A load of this tile is two 4-element vectors per thread, each coalesced over the whole CTA.
//
// EXAMPLE 2. Several rows: blocked({4, 8}, 2, 4, 2). Vector and lanes fill the last dimension, then
// warps spill over:
//
//   register: (0,1) (2,0)   lane: (0,2) (0,4)   warp: (1,0)
//
//   row 0:  w0l0r0 w0l0r1 w0l1r0 w0l1r1 w0l2r0 ...      row 2:  w0l0r2 w0l0r3 ...
//   row 1:  w1l0r0 w1l0r1 ...                           row 3:  w1l0r2 w1l0r3 ...
//
// A sum along dimension 1 combines register bit 0 and both lane bits: a warp does it alone, without
// shared memory.
//
// EXAMPLE 3. Replication. blocked({8}, 4, 4, 2) has 8 elements for 8 threads x 4 registers:
//
//   register: 1, 2          lane: 4, 0          warp: 0
//
// A zero basis vector means "this bit does not matter": lanes 0 and 2 hold the same values, and so
// do both warps. The map is surjective (some thread holds each element) but not injective. Only the
// canonical owner of an element stores it: the thread whose redundant bits are 0 (redundant()).
//
// EXAMPLE 4. Slices. The row sums of example 2 form a tile {4}. Dropping dimension 1 from every
// basis vector gives
//
//   register: (0) (2)   lane: (0) (0)   warp: (1)      and, without the duplicate register,
//   register: (2)       lane: (0) (0)   warp: (1)      = slice(1)
//
// A butterfly of shuffles leaves the row sums in this layout: every lane of warp 0 holds rows 0 and
// 2. expand_dims and broadcast have the reverse relation. If the operand of a broadcast along
// dimension 1 has the layout slice(1) of the result, each thread already holds its elements.
//
// EXAMPLE 5. Widths that are not powers of two. A dimension is c * 2^n with odd c <= 31. The map
// covers the 2^n part. The c copies are the outermost registers, outside the map: blocked({96}, 4,
// 4, 2) = blocked({32}, 4, 4, 2) with 3 copies,
//
//   register: 1, 2   lane: 4, 8   warp: 16   copies: 3
//   12 registers: register 4 is element 32 + 0 of w0 l0
//
// Register numbers: bits of the map lowest, then the copies in row-major order (last dimension
// fastest). Copy k of dimension d adds k * 2^n_d to the coordinate.
//
// RULES
//   1. A basis vector has one offset per dimension, each in [0, 2^n_d).
//   2. The map is surjective: the basis vectors span the 2^n part of the tile.
//   3. Registers of one thread never hold an element twice: register basis vectors are independent.
//   4. Operations keep rules 1-3.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ligerdsl::compiler {

// Inputs of a layout, in the order that determines redundancy: a bit is redundant if the bits
// before it (registers first) reach the same elements without it.
enum class Axis : uint8_t { reg = 0, lane = 1, warp = 2, cta = 3 };
inline constexpr int kAxes = 4;

struct Place {
  int64_t reg = 0, lane = 0, warp = 0, cta = 0;
  bool operator==(const Place&) const = default;
};

// Sets of bits of the register, lane, warp and CTA numbers: one mask per axis.
struct BitMasks {
  uint64_t reg = 0, lane = 0, warp = 0, cta = 0;
  bool operator==(const BitMasks&) const = default;
};

// Split of a tile among the CTAs of a cluster. CTA bits are the highest bits of the first dimension
// in `dims`, then of the next one. Each CTA holds one contiguous part (per copy of an odd factor).
// CTA bits for which no dimension has room replicate the tile.
struct ClusterCut {
  int64_t ctas = 1;  // a power of two
  std::vector<int> dims = {};
};

class LinearLayout {
 public:
  using Shape = std::vector<int64_t>;
  using Coordinates = std::vector<int64_t>;
  using Basis = std::vector<int64_t>;  // one offset per dimension
  using Bases = std::vector<Basis>;    // one basis vector per bit, lowest bit first

  // The largest odd factor a dimension may have.
  static constexpr int64_t kMaxOddFactor = 31;

  // Creates a layout from its basis vectors. They must satisfy the rules; check() tests untrusted
  // ones.
  LinearLayout(Shape shape, Bases reg, Bases lane, Bases warp, Bases cta = {});

  // Returns why these vectors are no layout of a tile of this shape, or "" if they are one.
  static std::string check(const Shape& shape, const Bases& reg, const Bases& lane,
                           const Bases& warp, const Bases& cta = {});

  // Distributes the last dimension over vector registers, then lanes, then warps, then registers.
  // If a dimension is full, lanes, warps and registers continue in the dimension before it. Bits
  // without room replicate. `vector`, `lanes` and `warps` are powers of two; a vector longer than
  // the last dimension is shortened. The bits that `cut` gives to CTAs are reserved first.
  static LinearLayout blocked(const Shape& shape, int64_t vector, int64_t lanes, int64_t warps,
                              const ClusterCut& cut = {});

  // Like blocked(), but warps first fill the outer dimensions (the outermost one last), so that
  // each row is in as few warps as possible. Registers get the remaining bits.
  static LinearLayout rowsPerWarp(const Shape& shape, int64_t vector, int64_t lanes, int64_t warps,
                                  const ClusterCut& cut = {});

  // Every thread holds the whole tile, with registers in row-major order.
  static LinearLayout replicated(const Shape& shape, int64_t lanes, int64_t warps,
                                 int64_t ctas = 1);

  const Shape& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  const Bases& bases(Axis axis) const { return bases_[static_cast<int>(axis)]; }
  int64_t lanes() const { return int64_t{1} << bases(Axis::lane).size(); }
  int64_t warps() const { return int64_t{1} << bases(Axis::warp).size(); }
  int64_t ctas() const { return int64_t{1} << bases(Axis::cta).size(); }
  int64_t copies() const;  // number of copies in all dimensions
  int64_t linearRegisters() const { return int64_t{1} << bases(Axis::reg).size(); }
  int64_t registers() const { return linearRegisters() * copies(); }

  // Returns the element that a register of a thread holds.
  Coordinates coordinates(const Place& place) const;
  // Returns the canonical owner of an element: the place whose redundant bits are 0.
  Place owner(const Coordinates& coordinates) const;
  // Returns the register of lane 0, warp 0 that holds an element, or nothing if none does.
  std::optional<int64_t> registerAt(const Coordinates& coordinates) const;
  // Returns the bits that only replicate. A thread stores if (lane & lane-mask) == 0, and likewise
  // for its warp and CTA. No register bit is ever redundant (rule 3).
  BitMasks redundant() const;
  bool isReplicated() const { return redundant() != BitMasks{}; }

  // Returns the bits whose basis vectors move along dimension `dim`.
  BitMasks along(int dim) const;
  // Returns true if every basis vector moves along `dim` only, or not along `dim` at all. A
  // reduction over `dim` then combines exactly the bits of along(dim).
  bool isSeparable(int dim) const;
  // Returns the length of the widest vector that this layout can load or store along a dimension, a
  // power of two. Consecutive registers hold the vector, which begins at a multiple of its length.
  int64_t contiguous(int dim) const;
  int64_t contiguous() const { return rank() == 0 ? 1 : contiguous(rank() - 1); }

  // Layouts after tile operations. Elements stay in their threads. Registers that would hold an
  // element twice are removed.
  LinearLayout slice(int dim) const;  // without dimension `dim`
  LinearLayout shrink(
      const Shape& shape) const;  // dimensions that are 1 in `shape` shrink to 1; others stay
  LinearLayout expandDims(int dim) const;  // a dimension of 1 inserted at `dim`
  LinearLayout broadcastTo(
      const Shape& shape) const;  // dimensions of 1 grow; new elements are outermost registers
  LinearLayout permute(
      const std::vector<int64_t>& permutation) const;  // result dim i = dim permutation[i]
  // Returns the layout of one CTA's part as a tile, without CTA bits. Returns nothing unless every
  // CTA bit is among the highest bits of a dimension, or replicates.
  std::optional<LinearLayout> partOfCta() const;
  // Returns the layout after a row-major reshape. Returns nothing if the new map would not be
  // linear, which only odd sizes can cause: {2, 3} -> {6} steps by 3 per row, which no basis
  // vector can express.
  std::optional<LinearLayout> reshape(const Shape& shape) const;

  bool operator==(const LinearLayout&) const = default;

  // Returns the basis vectors, such as "reg: (0,1) (2,0); lane: (0,2) (0,4); warp: (1,0)".
  std::string str() const;
  // Returns the tile as a table of owners: one line per row, with cells such as "w0 l3 r1".
  std::string table() const;

  // Returns an offset in the 2^n part as one bit mask, with the last dimension in the lowest bits.
  uint64_t flatten(const Basis& offset) const;
  Basis unflatten(uint64_t mask) const;

 private:
  struct Unchecked {};
  LinearLayout(Shape shape, Bases reg, Bases lane, Bases warp, Bases cta, Unchecked);
  // Dimension i of the result gets the offsets of dimension sourceDims[i], or zeros if that is
  // negative.
  LinearLayout mapBases(Shape shape, const std::vector<int>& sourceDims) const;
  void dropDuplicateRegisters();
  // Returns an element's copy number, and its flattened offset in the 2^n part.
  std::pair<int64_t, uint64_t> split(const Coordinates& coordinates) const;

  Shape shape_;
  std::array<Bases, kAxes> bases_;
};

// Returns (odd, bits) with value = odd << bits.
std::pair<int64_t, int> splitOdd(int64_t value);

}  // namespace ligerdsl::compiler

// Compares two layouts of one shape, to find where the first one holds each value that the second
// one needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

// Distance that values travel when a tile is converted from one layout to another.
enum class Travel : uint8_t {
  none,       // the layouts are identical
  registers,  // every thread already holds its values; all threads rename registers in the same way
  warp,       // every warp already holds its values; shuffles suffice
  cta,        // through shared memory
  cluster,    // between CTAs
};

Travel travel(const LinearLayout& from, const LinearLayout& to);

// Register bit and lane bit whose exchange is the only difference between two layouts. To convert a
// tile, the two lanes that differ in the lane bit exchange half of their registers.
struct BitSwap {
  int reg, lane;
};
std::optional<BitSwap> bitSwap(const LinearLayout& from, const LinearLayout& to);

// Returns the layout after the exchange of two bits.
LinearLayout swapped(const LinearLayout& layout, BitSwap bits);

// Returns the source register of each result register, for Travel::none and Travel::registers.
std::vector<int32_t> registerSources(const LinearLayout& from, const LinearLayout& to);

// Returns the groups of registers that a reduction along `dim` combines within a thread, one per
// register of layout.slice(dim). A group has the registers of `layout` that differ only along
// `dim`, sorted by position.
std::vector<std::vector<int32_t>> reductionGroups(const LinearLayout& layout, int dim);

// Returns the bits (reg, lane, warp, cta) in which the place of every element differs from the
// place of its partner in a tile.shuffle_xor.
Place shufflePartner(const LinearLayout& layout, int dim, int64_t mask);

const char* name(Travel travel);

}  // namespace ligerdsl::compiler

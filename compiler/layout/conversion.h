// Queries about two layouts of one shape: where each value of the second is in the first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

// Distance that values travel when a tile changes from one layout to another.
enum class Travel : uint8_t {
  none,       // the layouts are equal
  registers,  // every thread already holds what it needs; a renaming of registers, the same in all
              // threads
  warp,       // every warp already holds what it needs: shuffles suffice
  cta,        // through shared memory
  cluster,    // between CTAs
};

Travel travel(const LinearLayout& from, const LinearLayout& to);

// A register bit and a lane bit that two layouts exchange, without other differences. Lanes
// exchange half of their registers in pairs.
struct BitSwap {
  int reg, lane;
};
std::optional<BitSwap> bitSwap(const LinearLayout& from, const LinearLayout& to);

// Returns the layout after the exchange of two bits.
LinearLayout swapped(const LinearLayout& layout, BitSwap bits);

// Returns the source register of every result register, for Travel::none and Travel::registers.
std::vector<int32_t> registerSources(const LinearLayout& from, const LinearLayout& to);

// Returns the groups of registers that a reduction along `dim` combines inside a thread. For every
// register of layout.slice(dim), these are the registers of `layout` that differ from it only along
// `dim`, in the order of their positions along it.
std::vector<std::vector<int32_t>> reductionGroups(const LinearLayout& layout, int dim);

// Returns the partner of every place (reg, lane, warp, cta) in a tile.shuffle_xor, as the bits in
// which the two places differ.
Place shufflePartner(const LinearLayout& layout, int dim, int64_t mask);

const char* name(Travel travel);

}  // namespace ligerdsl::compiler

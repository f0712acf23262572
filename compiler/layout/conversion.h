// Two layouts of one shape: where each value of the second is found in the first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

// How far values travel when a tile changes from one layout to another.
enum class Travel : uint8_t {
  none,       // the layouts are equal
  registers,  // every thread already holds what it needs; a fixed renaming of registers, alike in all threads
  warp,       // every warp already holds what it needs: shuffles suffice
  cta,        // through shared memory
  cluster,    // between CTAs
};

Travel travel(const LinearLayout& from, const LinearLayout& to);

// A bit of a register's number and one of a lane's that change places, and nothing else: pairs of lanes give each other half of their registers.
struct BitSwap {
  int reg, lane;
};
std::optional<BitSwap> bitSwap(const LinearLayout& from, const LinearLayout& to);

// The layout behind the change.
LinearLayout swapped(const LinearLayout& layout, BitSwap bits);

// For Travel::none and Travel::registers: the source register of every result register.
std::vector<int32_t> registerSources(const LinearLayout& from, const LinearLayout& to);

// A reduction along `dim` inside a thread: for every register of layout.slice(dim), the registers of `layout` that
// differ from it only along `dim`, in the order of their positions along it.
std::vector<std::vector<int32_t>> reductionGroups(const LinearLayout& layout, int dim);

// tile.shuffle_xor: the place whose element every place (reg, lane, warp, cta) takes, as the bits in which the two
// differ.
Place shufflePartner(const LinearLayout& layout, int dim, int64_t mask);

const char* name(Travel travel);

}  // namespace ligerdsl::compiler

// Copies that were issued and have not landed: cp.async, bulk copies, st.async. Their bytes move at a pseudo-random
// time between issue and the moment at which somebody waits for them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/support/ptx/barriers.h"

namespace ligerdsl::test::ptx {

struct Cta;

struct Piece {
  uint8_t* to = nullptr;
  const uint8_t* from = nullptr;  // null: the value
  int64_t bytes = 0, zeros = 0;   // zeros follow the bytes
  uint64_t value = 0;
};

struct Copy {
  std::vector<Piece> pieces;
  Mbarrier* barrier = nullptr;    // gets its bytes
  Epoch done = 0;                 // of the barrier, or of the group of the warp
  Order passed;                   // to those who wait for the barrier, with .cluster scope
  std::string issued;             // for errors: the instruction
  const Agents* group = nullptr;  // of a warp's group: who counts `done` (several clusters run at a time)
  bool rounds_to_tf32 = false;    // f32 that it brings
  bool adds = false;              // f32 to what is there
};

class Copies {
 public:
  void add(Copy copy) { pending_.push_back(std::move(copy)); }
  bool empty() const { return pending_.empty(); }
  // Lands one, and returns the mbarrier whose phase ended by that, or null.
  Mbarrier* land_one(std::mt19937_64& random) { return land(random() % pending_.size()); }
  // Lands all groups of one of these agents until `last`.
  void land_groups(const Agents& agents, Epoch last);

 private:
  Mbarrier* land(size_t at);
  std::vector<Copy> pending_;
};

}  // namespace ligerdsl::test::ptx

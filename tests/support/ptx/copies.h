// Copies in flight: cp.async, bulk copies, st.async. Their bytes move at a pseudo-random time
// between the issue and the moment when a warp must wait for them.
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
  const uint8_t* from = nullptr;  // null: use the value
  int64_t bytes = 0, zeros = 0;   // zeros follow the bytes
  uint64_t value = 0;
};

struct Copy {
  std::vector<Piece> pieces;
  Mbarrier* barrier = nullptr;    // mbarrier that counts its bytes
  Epoch done = 0;                 // time of completion of the mbarrier, or of the warp's copy group
  Order passed;                   // passed to agents that wait for the mbarrier with .cluster scope
  std::string issued;             // instruction, for errors
  const Agents* group = nullptr;  // agents of the cluster, if `done` is a copy group's; several
                                  // clusters run at a time
  bool rounds_to_tf32 = false;    // rounds the copied f32 to tf32
  bool adds = false;              // adds f32 to the target
};

class Copies {
 public:
  void add(Copy copy) { pending_.push_back(std::move(copy)); }
  bool empty() const { return pending_.empty(); }
  // Lands one copy. Returns the mbarrier whose phase this ended, or null.
  Mbarrier* land_one(std::mt19937_64& random) { return land(random() % pending_.size()); }
  // Lands all copy groups of one of these agents up to `last`.
  void land_groups(const Agents& agents, Epoch last);

 private:
  Mbarrier* land(size_t at);
  std::vector<Copy> pending_;
};

}  // namespace ligerdsl::test::ptx

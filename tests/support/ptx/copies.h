// Asynchronous copies in flight: cp.async, bulk copies and st.async. Their bytes move at a
// pseudo-random time between the instruction and the point at which a warp has waited for them.
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
  const uint8_t* from = nullptr;  // null: `value` is the source
  int64_t bytes = 0, zeros = 0;   // number of zeros after the bytes
  uint64_t value = 0;
};

struct Copy {
  std::vector<Piece> pieces;
  Mbarrier* barrier = nullptr;    // mbarrier that counts its bytes; null for copy groups
  Epoch done = 0;                 // end of the mbarrier's phase or of the copy group
  Order passed;                   // order that waits with .cluster scope observe
  std::string issued;             // text of its instruction, for errors
  const Agents* group = nullptr;  // agents of the cluster, if `done` is a copy group's; several
                                  // clusters run at a time
  bool rounds_to_tf32 = false;    // rounds each f32 to tf32
  bool adds = false;              // adds to the f32 numbers at the target
};

class Copies {
 public:
  void add(Copy copy) { pending_.push_back(std::move(copy)); }
  bool empty() const { return pending_.empty(); }
  // Completes one random copy. Returns the mbarrier whose phase ended by this, or null.
  Mbarrier* land_one(std::mt19937_64& random) { return land(random() % pending_.size()); }
  // Completes the copy groups up to `last` of the agent in `last`. `agents` identifies its cluster.
  void land_groups(const Agents& agents, Epoch last);

 private:
  Mbarrier* land(size_t at);
  std::vector<Copy> pending_;
};

}  // namespace ligerdsl::test::ptx

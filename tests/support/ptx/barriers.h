// Mbarriers, the barriers of a CTA, and the barrier of a cluster. A barrier joins the Order of all
// agents that arrive, and passes the result to the agents that waited.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/ptx/order.h"

namespace ligerdsl::test::ptx {

class Warp;

// An mbarrier. Its phase ends when no arrival and no byte is missing. An inval and a second init do
// not reset the count of phases, so that no earlier wait covers a later copy. The Order from other
// CTAs is stored separately, because a wait with .cta scope does not observe it.
class Mbarrier {
 public:
  explicit Mbarrier(uint32_t agent) : agent_(agent) {}
  void init(uint64_t count, Epoch by);
  void invalidate(const Order& order, const Agents& agents);
  // Throws if the mbarrier is not initialised, or if the agent has not observed the init.
  void use(const Order& order, const Agents& agents, Epoch now);
  void fence(const Order& order) { fenced_ = fenced_ || order.seen.covers(init_); }
  bool fenced() const { return fenced_; }

  // These functions return true if they ended the phase.
  bool arrive(uint64_t count, const Order& order, bool far);
  bool expect(uint64_t bytes) { return add(static_cast<int64_t>(bytes)); }
  bool complete(int64_t bytes, Epoch expected, const Order& passed);

  bool live() const { return live_; }
  uint64_t token() const { return phase_; }
  bool passed(uint64_t token) const { return phase_ > token; }
  bool passed_parity(uint64_t parity) const {
    return ((phase_ - first_phase_) & 1) != (parity & 1);
  }
  void acquire(Order& order, bool wide) const;
  // Returns the epoch at which a copy issued now has completed: the end of this phase.
  Epoch copy_epoch() { return last_copy_ = make_epoch(agent_, phase_ + 1); }
  Epoch last_copy() const { return last_copy_; }

  std::vector<Warp*> waiting;

 private:
  bool add(int64_t bytes);
  bool settle();

  uint32_t agent_;
  bool live_ = false, fenced_ = false;
  uint64_t expected_ = 0, pending_ = 0, phase_ = 0, first_phase_ = 0;
  int64_t bytes_ = 0;
  Epoch init_ = 0, last_copy_ = 0;
  Clock users_;
  Order near_, far_, near_done_, far_done_;
};

// One of the 16 barriers of a CTA.
struct CtaBarrier {
  size_t arrived = 0, count = 0, pc = 0;
  bool counted = false;
  Order order;
  std::vector<Warp*> waiting;
};

struct ClusterBarrier {
  size_t alive = 0, missing = 0;  // warps
  uint64_t phase = 0;
  Order order, done;
  std::vector<Warp*> waiting;

  bool arrive(const Order& from);  // returns true if it ended the phase
  bool leave(bool arrived);        // for a warp that ends; returns true if that ended the phase
 private:
  bool settle();
};

}  // namespace ligerdsl::test::ptx

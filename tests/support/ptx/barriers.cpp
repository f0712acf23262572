#include "tests/support/ptx/barriers.h"

#include <stdexcept>
#include <string>

namespace ligerdsl::test::ptx {

namespace {
constexpr int64_t kMaxBytes = (1 << 20) - 1;  // PTX limit of bytes and of arrivals per phase
}

void Mbarrier::init(uint64_t count, Epoch by) {
  if (live_) throw std::runtime_error("the mbarrier is initialised twice");
  if (count < 1 || count > kMaxBytes)
    throw std::runtime_error("the mbarrier is initialised for " + std::to_string(count) +
                             " arrivals, expected 1 to " + std::to_string(kMaxBytes));
  live_ = true;
  fenced_ = false;
  expected_ = pending_ = count;
  bytes_ = 0;
  first_phase_ = phase_;
  init_ = by;
  near_ = far_ = {};
  users_ = {};
}

void Mbarrier::invalidate(const Order& order, const Agents& agents) {
  if (const Epoch user = order.seen.missing(users_)) {
    throw std::runtime_error("the mbarrier is invalidated, but " + agents.name(agent_of(user)) +
                             " may still use it");
  }
  if (!waiting.empty())
    throw std::runtime_error("the mbarrier is invalidated while a warp waits for it");
  live_ = false;
}

void Mbarrier::use(const Order& order, const Agents& agents, Epoch now) {
  if (!live_) throw std::runtime_error("the mbarrier was not initialised");
  if (!order.seen.covers(init_)) {
    throw std::runtime_error("the mbarrier was initialised by " + agents.name(agent_of(init_)) +
                             ", and no barrier orders this use after that");
  }
  users_.raise(now);
}

bool Mbarrier::arrive(uint64_t count, const Order& order, bool far) {
  if (count < 1 || count > pending_) {
    throw std::runtime_error("got " + std::to_string(count) +
                             " arrivals at an mbarrier that waits for " + std::to_string(pending_) +
                             " more");
  }
  pending_ -= count;
  (far ? far_ : near_).join(order);
  return settle();
}

bool Mbarrier::add(int64_t bytes) {
  bytes_ += bytes;
  if (bytes_ > kMaxBytes || bytes_ < -kMaxBytes) {
    throw std::runtime_error("the mbarrier expects " + std::to_string(bytes_) +
                             " bytes, the limit is " + std::to_string(kMaxBytes));
  }
  return settle();
}

bool Mbarrier::complete(int64_t bytes, Epoch expected, const Order& passed) {
  if (!live_) throw std::runtime_error("its mbarrier was invalidated before the copy completed");
  if (make_epoch(agent_, phase_ + 1) != expected) {
    throw std::runtime_error(
        "the copy completed after the mbarrier's phase in which it was issued");
  }
  far_.join(passed);
  return add(-bytes);
}

bool Mbarrier::settle() {
  if (pending_ != 0 || bytes_ != 0) return false;
  ++phase_;
  pending_ = expected_;
  near_done_.join(near_);
  far_done_.join(far_);
  near_ = far_ = {};
  return true;
}

void Mbarrier::acquire(Order& order, bool wide) const {
  order.join(near_done_);
  if (wide) order.join(far_done_);
  if (phase_ > 0) order.seen.raise(make_epoch(agent_, phase_));
}

bool ClusterBarrier::arrive(const Order& from) {
  order.join(from);
  --missing;
  return settle();
}

bool ClusterBarrier::leave(bool arrived) {
  --alive;
  if (!arrived) --missing;
  return settle();
}

bool ClusterBarrier::settle() {
  if (missing != 0 || alive == 0) return false;
  done.join(order);
  order = {};
  ++phase;
  missing = alive;
  return true;
}

}  // namespace ligerdsl::test::ptx

// Happens-before order of memory accesses, as vector clocks. An agent is a warp, or asynchronous
// work that goes on after its instruction: the copies that complete on one mbarrier, or one warp's
// copy groups. The time of each agent starts at 1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace ligerdsl::test::ptx {

// A time of one agent. 0 means never.
using Epoch = uint32_t;
inline constexpr int kTimeBits = 20;
inline constexpr uint32_t kManyReaders = 0xfff,
                          kBarrierBytes = 0xffe;  // reserved numbers of agents, see memory.h
inline constexpr uint32_t kMaxAgents = 0xffe;

inline uint32_t agent_of(Epoch epoch) {
  return epoch >> kTimeBits;
}
inline uint32_t time_of(Epoch epoch) {
  return epoch & ((1u << kTimeBits) - 1);
}
inline Epoch make_epoch(uint32_t agent, uint64_t time) {
  if (time >> kTimeBits) throw std::runtime_error("more synchronisations than the emulator counts");
  return agent << kTimeBits | static_cast<uint32_t>(time);
}

class Clock {
 public:
  uint32_t at(uint32_t agent) const { return agent < times_.size() ? times_[agent] : 0; }
  bool covers(Epoch epoch) const { return at(agent_of(epoch)) >= time_of(epoch); }
  void raise(Epoch epoch) {
    const uint32_t agent = agent_of(epoch);
    if (agent >= times_.size()) times_.resize(agent + 1);
    times_[agent] = std::max(times_[agent], time_of(epoch));
  }
  void join(const Clock& other) {
    if (other.times_.size() > times_.size()) times_.resize(other.times_.size());
    for (size_t i = 0; i < other.times_.size(); ++i)
      times_[i] = std::max(times_[i], other.times_[i]);
  }
  // Returns the first epoch of `other` that this clock does not cover, or 0 if it covers all.
  Epoch missing(const Clock& other) const {
    for (uint32_t i = 0; i < other.times_.size(); ++i) {
      if (other.times_[i] > at(i)) return make_epoch(i, other.times_[i]);
    }
    return 0;
  }

 private:
  std::vector<uint32_t> times_;
};

// `seen`: all events ordered before the agent's next one. `fenced`: those that a proxy fence has
// also ordered before bulk copies.
struct Order {
  Clock seen, fenced;
  void join(const Order& other) {
    seen.join(other.seen);
    fenced.join(other.fenced);
  }
};

// The agents of one cluster: first its warps, ordered by CTA rank and number, then other agents in
// the order of their creation.
class Agents {
 public:
  Agents(size_t ctas, size_t warps) : ctas_(ctas), warps_(warps) {}
  uint32_t warp(size_t cta, size_t number) const {
    return static_cast<uint32_t>(cta * warps_ + number);
  }
  bool is_warp(uint32_t agent) const { return agent < ctas_ * warps_; }
  bool writes_generic(uint32_t agent) const {
    return is_warp(agent) || others_.at(agent - ctas_ * warps_).proxy == Proxy::generic;
  }
  // Returns those asynchronous copies and wgmmas in `seen` that have ended. An arrival with .cta
  // scope at another CTA's mbarrier passes on only these.
  Clock ended_in(const Clock& seen) const {
    Clock ended;
    for (size_t i = 0; i < others_.size(); ++i) {
      const auto agent = static_cast<uint32_t>(ctas_ * warps_ + i);
      if (others_[i].proxy == Proxy::async) ended.raise(make_epoch(agent, seen.at(agent)));
    }
    return ended;
  }
  // The proxy through which an agent writes. A proxy fence orders generic writes before later
  // accesses by the async proxy.
  enum class Proxy { generic, async };
  uint32_t add(std::string name, Proxy proxy = Proxy::async) {
    others_.push_back({std::move(name), proxy});
    const size_t agent = ctas_ * warps_ + others_.size() - 1;
    if (agent >= kMaxAgents)
      throw std::runtime_error("more mbarriers and copies than the emulator counts");
    return static_cast<uint32_t>(agent);
  }
  std::string name(uint32_t agent) const {
    if (!is_warp(agent)) return others_.at(agent - ctas_ * warps_).name;
    const std::string warp = "warp " + std::to_string(agent % warps_);
    return ctas_ == 1 ? warp : warp + " of CTA rank " + std::to_string(agent / warps_);
  }

 private:
  struct Other {
    std::string name;
    Proxy proxy;
  };
  size_t ctas_, warps_;
  std::vector<Other> others_;
};

}  // namespace ligerdsl::test::ptx

#include <stdexcept>

#include "tests/support/ptx/warp.h"

namespace ligerdsl::test::ptx {

// Advances the warp's time. Other agents have not observed events of the new time yet.
void Warp::tick() {
  now_ = make_epoch(agent_, uint64_t{order_.seen.at(agent_)} + 1);
  order_.seen.raise(now_);
}

Warp::Stop Warp::barrier(const Instruction& i, const Group& group) {
  const uint64_t number = low(read(i.operands[0], kAllLanes)[0], 4);
  if (number >= cta_.barriers.size())
    throw std::runtime_error("barrier " + std::to_string(number) + ", expected 0 to 15");
  CtaBarrier& barrier = cta_.barriers[number];
  const bool counted = i.operands.size() == 2;
  const uint64_t threads =
      counted ? low(read(i.operands[1], kAllLanes)[0], 4) : cta_.warps.size() * kLanes;
  if (threads == 0 || threads % kLanes)
    throw std::runtime_error("a barrier of " + std::to_string(threads) +
                             " threads, expected whole warps");
  if (!counted && cta_.ended > 0)
    throw std::runtime_error("warps wait at different barriers: one has ended");
  if (barrier.arrived > 0 && (barrier.count != threads / kLanes || barrier.counted != counted ||
                              (!counted && barrier.pc != group.pc))) {
    throw std::runtime_error("warps wait at different barriers");
  }
  barrier.count = threads / kLanes;
  barrier.counted = counted;
  barrier.pc = group.pc;
  barrier.order.join(order_);
  tick();
  barrier_pc_ = group.pc;
  if (!i.arrive) barrier.waiting.push_back(this);
  if (++barrier.arrived < barrier.count) return i.arrive ? Stop::none : Stop::wait;
  for (Warp* warp : barrier.waiting) warp->order_.join(barrier.order);
  machine_.wake(barrier.waiting);  // this warp has not stopped yet and is not woken
  barrier.arrived = 0;
  barrier.order = {};
  return Stop::yield;
}

void Warp::cluster_arrive(const Instruction& i) {
  if (cluster_arrived_)
    throw std::runtime_error("a cluster barrier is arrived at twice without a wait");
  cluster_arrived_ = true;
  ClusterBarrier& barrier = cta_.cluster.barrier;
  cluster_phase_ = barrier.phase;
  Order passed = i.relaxed ? released_ : order_;
  passed.seen.raise(
      make_epoch(agent_, 1));  // shows that the warp runs, even if it releases nothing else
  const bool ended = barrier.arrive(passed);
  tick();
  if (ended) machine_.wake(barrier.waiting);
}

Warp::Stop Warp::cluster_wait(const Instruction&, const Group& group) {
  if (!cluster_arrived_)
    throw std::runtime_error("a cluster barrier is waited for without an arrival");
  ClusterBarrier& barrier = cta_.cluster.barrier;
  if (barrier.phase == cluster_phase_) {
    set_pc(kAllLanes, group.pc);
    barrier_pc_ = group.pc;
    barrier.waiting.push_back(this);
    return Stop::wait;
  }
  cluster_arrived_ = false;
  order_.join(barrier.done);
  return Stop::none;
}

void Warp::fence(const Instruction& i) {
  if (i.acquire) return order_.join(relaxed_);
  if (i.proxy) order_.fenced.join(order_.seen);
  if (i.proxy || i.inits) {
    for (auto& [address, barrier] : cta_.mbarriers) barrier.fence(order_);
  }
  if (!i.proxy) released_ = order_;
  tick();
}

Mbarrier& Warp::mbarrier(const Place& place) {
  const auto found = place.cta.mbarriers.find(place.at);
  if (found == place.cta.mbarriers.end())
    throw std::runtime_error("the mbarrier was not initialised");
  found->second.use(order_, cta_.cluster.agents, now_);
  return found->second;
}

void Warp::mbarrier_init(const Instruction& i, uint32_t lanes) {
  const Lanes base = read(i.operands[0].parts.at(0), lanes), counts = read(i.operands[1], lanes);
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    const uint64_t at = resolve(address(i.operands[0], base, lane, 8), Space::shared).at;
    auto found = cta_.mbarriers.find(at);
    if (found == cta_.mbarriers.end()) {
      const std::string name =
          "a copy on the mbarrier at offset " + std::to_string(at - SharedMemory::kBase);
      found = cta_.mbarriers.emplace(at, Mbarrier(cta_.cluster.agents.add(name))).first;
    }
    if (!found->second.live()) cta_.shared.store(at, 8, 0, order_, now_);
    found->second.init(low(counts[lane], 4), now_);
    cta_.shared.become_barrier(at, true);
  });
}

void Warp::mbarrier_inval(const Instruction& i, uint32_t lanes) {
  const Lanes base = read(i.operands[0].parts.at(0), lanes);
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    const Place place = resolve(address(i.operands[0], base, lane, 8), Space::shared);
    mbarrier(place).invalidate(order_, cta_.cluster.agents);
    cta_.shared.become_barrier(place.at, false);
  });
}

// An arrival at another CTA's mbarrier releases earlier writes only with .cluster scope.
void Warp::mbarrier_arrive(const Instruction& i, uint32_t lanes) {
  const bool state = i.operands[0].kind != Operand::Kind::address;  // also true for a sink
  const Operand& where = i.operands[state ? 1 : 0];
  const Lanes base = read(where.parts.at(0), lanes);
  const Lanes* number =
      i.operands.size() > (state ? 2 : 1) ? &read(i.operands.back(), lanes) : nullptr;
  Lanes* tokens =
      state && i.operands[0].kind != Operand::Kind::sink ? &write(i.operands[0], lanes) : nullptr;
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    const Place place = resolve(address(where, base, lane, 8), i.space);
    Mbarrier& barrier = mbarrier(place);
    const bool far = &place.cta != &cta_;
    if (far && tokens) throw std::runtime_error("another CTA's mbarrier gives no state");
    if (tokens) (*tokens)[lane] = barrier.token();
    if (i.expect) barrier.expect(low((*number)[lane], 4));
    const Order* passed = i.relaxed ? &released_ : &order_;
    const bool tells_writes = !far || i.wide;
    const Order ended =
        tells_writes ? Order{} : Order{cta_.cluster.agents.ended_in(order_.seen), {}};
    if (barrier.arrive(i.expect || !number ? 1 : low((*number)[lane], 4),
                       tells_writes ? *passed : ended, far && tells_writes)) {
      machine_.signal(barrier);
    }
  });
  tick();
}

void Warp::mbarrier_expect(const Instruction& i, uint32_t lanes) {
  const Lanes base = read(i.operands[0].parts.at(0), lanes), bytes = read(i.operands[1], lanes);
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    Mbarrier& barrier = mbarrier(resolve(address(i.operands[0], base, lane, 8), i.space));
    if (barrier.expect(low(bytes[lane], 4))) machine_.signal(barrier);
  });
}

// If the phase has not ended, try_wait lets the lanes wait. Sometimes it returns false at once, as
// hardware does after some time.
Warp::Stop Warp::mbarrier_wait(const Instruction& i, const Group& group, uint32_t lanes) {
  const Lanes base = read(i.operands[1].parts.at(0), lanes), phases = read(i.operands[2], lanes);
  Lanes& out = write(i.operands[0], lanes);
  Mbarrier* unfinished = nullptr;
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    Mbarrier& barrier = mbarrier(resolve(address(i.operands[1], base, lane, 8), Space::shared));
    out[lane] = i.parity ? barrier.passed_parity(phases[lane]) : barrier.passed(phases[lane]);
    if (!out[lane]) {
      unfinished = &barrier;
    } else {
      barrier.acquire(i.relaxed ? relaxed_ : order_, i.wide);
    }
  });
  if (!unfinished) return Stop::none;
  if (i.test || machine_.chance(4)) return Stop::yield;
  set_pc(lanes, group.pc);
  parked_ |= lanes;
  unfinished->waiting.push_back(this);
  return Stop::none;  // other lanes may run; if none can, next() returns no lanes
}

}  // namespace ligerdsl::test::ptx

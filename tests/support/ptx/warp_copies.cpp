#include <algorithm>
#include <stdexcept>

#include "tests/support/ptx/warp.h"

namespace ligerdsl::test::ptx {

Epoch Warp::open_group(Groups& groups, const char* what, Agents::Proxy proxy) {
  if (groups.agent == 0)
    groups.agent = cta_.cluster.agents.add(what + cta_.cluster.agents.name(agent_), proxy);
  groups.open = true;
  return make_epoch(groups.agent, groups.committed + 1);
}

void Warp::commit(Groups& groups) {
  if (groups.open) ++groups.committed;  // an empty group is not counted
  groups.open = false;
}

void Warp::wait_group(const Instruction& i) {
  Groups& groups = i.bulk ? stores_ : copies_;
  if (i.operands.empty()) commit(groups);
  const uint64_t pending = i.operands.empty() ? 0 : i.operands[0].constant[0];
  if (groups.agent == 0 || groups.committed <= pending) return;
  groups.waited = std::max(groups.waited, groups.committed - pending);
  const Epoch done = make_epoch(groups.agent, groups.waited);
  machine_.copies.land_groups(cta_.cluster.agents, done);
  order_.seen.raise(done);
}

// Copies the source's bytes and fills the rest of the target with zeros.
void Warp::copy(const Instruction& i, uint32_t lanes) {
  const Lanes to = read(i.operands[0].parts.at(0), lanes),
              from = read(i.operands[1].parts.at(0), lanes);
  const Lanes& sizes = read(i.operands.back(), lanes);
  Copy copy{.done = open_group(copies_, "a cp.async of ", Agents::Proxy::generic),
            .group = &cta_.cluster.agents};
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    const int64_t size = static_cast<int64_t>(low(sizes[lane], 4));
    if (size > i.bytes) throw std::runtime_error("a source larger than the copy");
    const Place place = resolve(address(i.operands[0], to, lane, i.bytes), Space::shared);
    const uint64_t source = address(i.operands[1], from, lane, i.bytes);
    const uint8_t* bytes = size ? machine_.global.check(source, size, early()) : nullptr;
    place.cta.shared.claim(place.at, i.bytes, order_, copy.done, false);
    copy.pieces.push_back({place.cta.shared.bytes(place.at), bytes, size, i.bytes - size, 0});
  });
  machine_.copies.add(std::move(copy));
}

int64_t Warp::bulk_bytes(const Lanes& sizes, int lane) const {
  const int64_t bytes = static_cast<int64_t>(low(sizes[lane], 4));
  if (bytes == 0 || bytes % 16)
    throw std::runtime_error("a bulk copy of " + std::to_string(bytes) + " bytes");
  return bytes;
}

void Warp::bulk_load(const Instruction& i, uint32_t lanes) {
  const auto& o = i.operands;
  const Lanes to = read(o[0].parts.at(0), lanes), from = read(o[1].parts.at(0), lanes),
              sizes = read(o[2], lanes), barriers = read(o[3].parts.at(0), lanes);
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    const int64_t bytes = bulk_bytes(sizes, lane);
    const Place place = resolve(address(o[0], to, lane, 16), i.space, false);
    const Place signal = resolve(address(o[3], barriers, lane, 8), i.space, false);
    if (&place.cta != &signal.cta)
      throw std::runtime_error("a copy and its mbarrier in different CTAs");
    Mbarrier& barrier = mbarrier(signal);
    if (!barrier.fenced())
      throw std::runtime_error("an mbarrier without fence.proxy.async or .mbarrier_init");
    const uint8_t* source = machine_.global.check(address(o[1], from, lane, 16), bytes, early());
    const Epoch done = barrier.copy_epoch();
    place.cta.shared.claim(place.at, bytes, order_, done, true);
    machine_.copies.add(
        {{{place.cta.shared.bytes(place.at), source, bytes, 0, 0}}, &barrier, done, {}, where(i)});
  });
}

const TensorMap& Warp::map_at(uint64_t address) const {
  for (const TensorMap& map : machine_.launch.maps)
    if (reinterpret_cast<uintptr_t>(&map) == address) return map;
  throw std::runtime_error("a TMA copy without a tensor map");
}

namespace {

constexpr int64_t kUnit = 16;

// The box of a TMA copy has `lines` lines of `width` contiguous bytes.
struct BoxSize {
  int64_t width, lines = 1;

  explicit BoxSize(const TensorMap& map) : width(map.box[0] * map.element_bytes) {
    for (int dim = 1; dim < map.rank; ++dim) lines *= map.box[dim];
  }
};

// Calls `unit` for every 16-byte unit of the box. Arguments: the unit's offset in the box before
// the swizzle, its address in the tensor, and the number of its bytes inside the tensor.
template <class Unit>
void each_unit(const TensorMap& map, const std::vector<int64_t>& places, Unit unit) {
  if (map.rank != static_cast<int>(places.size()))
    throw std::runtime_error("a TMA copy with " + std::to_string(places.size()) +
                             " coordinates, its map has " + std::to_string(map.rank) +
                             " dimensions");
  const BoxSize box(map);
  const int64_t bytes = map.element_bytes;
  for (int64_t line = 0; line < box.lines; ++line) {
    bool has_line = true;
    uint64_t offset = 0;  // wraps
    for (int64_t dim = 1, rest = line; dim < map.rank; rest /= map.box[dim++]) {
      const int64_t at = places[dim] + rest % map.box[dim];
      has_line = has_line && at >= 0 && at < static_cast<int64_t>(map.sizes[dim]);
      offset += static_cast<uint64_t>(at) * static_cast<uint64_t>(map.strides[dim - 1]);
    }
    for (int64_t at = 0; at < box.width; at += kUnit) {
      const int64_t begin = places[0] * bytes + at,
                    end = static_cast<int64_t>(map.sizes[0]) * bytes;
      if (begin < 0 && begin > -kUnit)
        throw std::runtime_error("a box that begins within 16 bytes before a row");
      unit(line * box.width + at, map.address + offset + begin,
           has_line && begin >= 0 ? std::clamp<int64_t>(end - begin, 0, kUnit) : 0);
    }
  }
}

uint64_t exchanged(const TensorMap& map, uint64_t plain) {
  return plain ^ (plain >> 7 & (map.swizzle / kUnit - 1)) * kUnit;
}

}  // namespace

// The copy writes the box in every CTA of a multicast, with zeros for bytes outside of the tensor.
// All bytes of the box count at the mbarrier.
void Warp::tensor_load(const Instruction& i, uint32_t lanes) {
  const auto& o = i.operands;
  const Lanes to = read(o[0].parts.at(0), lanes), maps = read(o[1].parts[0], lanes),
              barriers = read(o[2].parts.at(0), lanes);
  std::vector<Lanes> coordinates;
  for (const auto& coordinate : o[1].parts[1].parts) coordinates.push_back(read(coordinate, lanes));
  const bool to_many = o.size() > 3;
  const Lanes masks = to_many ? read(o[3], lanes) : Lanes{};
  const auto copy_to = [&](int lane, uint64_t at, uint64_t signal_at) {
    const TensorMap& map = map_at(maps[lane]);
    const Place place = resolve(at, i.space, false), signal = resolve(signal_at, i.space, false);
    if (&place.cta != &signal.cta)
      throw std::runtime_error("a copy and its mbarrier in different CTAs");
    Mbarrier& barrier = mbarrier(signal);
    if (!barrier.fenced())
      throw std::runtime_error("an mbarrier without fence.proxy.async or .mbarrier_init");
    Copy copy{.barrier = &barrier, .done = barrier.copy_epoch(), .issued = where(i)};
    copy.rounds_to_tf32 = map.rounds_to_tf32 != 0;
    const BoxSize box(map);
    place.cta.shared.claim(place.at, box.width * box.lines, order_, copy.done, true);
    each_unit(
        map, coordinates_of(coordinates, lane), [&](int64_t at, uint64_t source, int64_t inside) {
          const uint8_t* from = inside ? machine_.global.check(source, inside, early()) : nullptr;
          copy.pieces.push_back({place.cta.shared.bytes(exchanged(map, place.at + at)), from,
                                 inside, kUnit - inside, 0});
        });
    machine_.copies.add(std::move(copy));
  };
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    const uint64_t at = address(o[0], to, lane, 128), signal = address(o[2], barriers, lane, 8);
    if (!to_many) return copy_to(lane, at, signal);
    for (uint64_t rank = 0; masks[lane] >> rank; ++rank)
      if (masks[lane] >> rank & 1)
        copy_to(lane, in_window(at) | rank << kWindowBits, in_window(signal) | rank << kWindowBits);
  });
}

std::vector<int64_t> Warp::coordinates_of(const std::vector<Lanes>& coordinates, int lane) {
  std::vector<int64_t> places;
  for (const Lanes& coordinate : coordinates)
    places.push_back(static_cast<int32_t>(coordinate[lane]));
  return places;
}

// Elements of the box outside of the tensor are not stored.
void Warp::tensor_store(const Instruction& i, uint32_t lanes) {
  const auto& o = i.operands;
  const Lanes maps = read(o[0].parts[0], lanes), from = read(o[1].parts.at(0), lanes);
  std::vector<Lanes> coordinates;
  for (const auto& coordinate : o[0].parts[1].parts) coordinates.push_back(read(coordinate, lanes));
  if (early()) throw std::runtime_error("write of global memory before griddepcontrol.wait");
  Copy copy{.done = open_group(stores_, "a bulk store of "),
            .group = &cta_.cluster.agents,
            .adds = i.adds};
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    const TensorMap& map = map_at(maps[lane]);
    if (map.rounds_to_tf32) throw std::runtime_error("a TMA store with a map that rounds to tf32");
    if (copy.adds && map.element_bytes != 4)
      throw std::runtime_error("only f32 elements can be added");
    const Place place = resolve(address(o[1], from, lane, 128), Space::shared);
    const BoxSize box(map);
    place.cta.shared.borrow(place.at, box.width * box.lines, order_, copy.done);
    each_unit(map, coordinates_of(coordinates, lane),
              [&](int64_t at, uint64_t target, int64_t inside) {
                if (inside)
                  copy.pieces.push_back({machine_.global.check(target, inside),
                                         place.cta.shared.bytes(exchanged(map, place.at + at)),
                                         inside, 0, 0});
              });
  });
  machine_.copies.add(std::move(copy));
}

void Warp::bulk_store(const Instruction& i, uint32_t lanes) {
  const auto& o = i.operands;
  const Lanes to = read(o[0].parts.at(0), lanes), from = read(o[1].parts.at(0), lanes),
              sizes = read(o[2], lanes);
  if (early()) throw std::runtime_error("write of global memory before griddepcontrol.wait");
  Copy copy{.done = open_group(stores_, "a bulk store of "), .group = &cta_.cluster.agents};
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    const int64_t bytes = bulk_bytes(sizes, lane);
    uint8_t* target = machine_.global.check(address(o[0], to, lane, 16), bytes);
    const Place place = resolve(address(o[1], from, lane, 16), Space::shared);
    place.cta.shared.borrow(place.at, bytes, order_, copy.done);
    copy.pieces.push_back({target, place.cta.shared.bytes(place.at), bytes, 0, 0});
  });
  machine_.copies.add(std::move(copy));
}

void Warp::remote_store(const Instruction& i, uint32_t lanes) {
  const auto& o = i.operands;
  const auto& data = o[1].parts;
  const Lanes to = read(o[0].parts.at(0), lanes), barriers = read(o[2].parts.at(0), lanes);
  const int64_t bytes = i.bytes * static_cast<int64_t>(data.size());
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    const Place place = resolve(address(o[0], to, lane, bytes), i.space, false);
    const Place signal = resolve(address(o[2], barriers, lane, 8), i.space, false);
    if (&place.cta != &signal.cta)
      throw std::runtime_error("a store and its mbarrier in different CTAs");
    Mbarrier& barrier = mbarrier(signal);
    Copy copy{
        .barrier = &barrier, .done = barrier.copy_epoch(), .passed = order_, .issued = where(i)};
    place.cta.shared.claim(place.at, bytes, order_, copy.done, false);
    uint8_t* target = place.cta.shared.bytes(place.at);
    for (size_t e = 0; e < data.size(); ++e) {
      copy.pieces.push_back(
          {target + e * i.bytes, nullptr, i.bytes, 0, read(data[e], lanes)[lane]});
    }
    machine_.copies.add(std::move(copy));
  });
  tick();
}

// Checks that the warp has waited for its copies and wgmmas, and that no other warp waits for it at
// a CTA barrier. For the CTA's last warp, also checks that the CTA has waited for the copies on its
// mbarriers.
void Warp::finish() {
  const std::string who = cta_.name(machine_.program) + ": warp " + std::to_string(number_);
  for (const Groups& groups : {copies_, stores_, products_}) {
    if (groups.open || groups.committed > groups.waited) {
      throw std::runtime_error(who + " ends before it waited for " +
                               cta_.cluster.agents.name(groups.agent));
    }
  }
  for (const CtaBarrier& barrier : cta_.barriers) {
    if (barrier.arrived > 0 && !barrier.counted) {
      throw std::runtime_error(who + " ends, others wait for it: warps wait at different barriers");
    }
  }
  cta_.last.join(order_);
  ++cta_.ended;
  ClusterBarrier& barrier = cta_.cluster.barrier;
  if (barrier.leave(cluster_arrived_ && cluster_phase_ == barrier.phase))
    machine_.wake(barrier.waiting);
  if (cta_.ended < cta_.warps.size()) return;
  for (const auto& [address, mbarrier] : cta_.mbarriers) {
    if (cta_.last.seen.covers(mbarrier.last_copy())) continue;
    throw std::runtime_error(who + " ends before the CTA waited for " +
                             cta_.cluster.agents.name(agent_of(mbarrier.last_copy())));
  }
}

}  // namespace ligerdsl::test::ptx

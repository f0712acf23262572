#include <stdexcept>

#include "tests/support/ptx/warp.h"

namespace ligerdsl::test::ptx {

void Warp::map_rank(const Instruction& i, uint32_t lanes) {
  const Lanes from = read(i.operands[1], lanes), rank = read(i.operands[2], lanes);
  Lanes& to = write(i.operands[0], lanes);
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    if (low(rank[lane], 4) >= cta_.cluster.ctas.size()) {
      throw std::runtime_error("CTA rank " + std::to_string(low(rank[lane], 4)) +
                               " in a cluster of " + std::to_string(cta_.cluster.ctas.size()));
    }
    to[lane] = in_window(from[lane]) | low(rank[lane], 4) << kWindowBits;
  });
}

// Returns the CTA and address in shared memory. Another CTA's memory may be accessed only after a
// cluster barrier has shown that it runs, and before it ends.
Warp::Place Warp::resolve(uint64_t address, Space space, bool touch) {
  const uint64_t window = address >> kWindowBits, at = in_window(address);
  if (window != cta_.rank && space != Space::cluster)
    throw std::runtime_error("another CTA's address as its own");
  if (window >= cta_.cluster.ctas.size())
    throw std::runtime_error("an address outside the cluster's shared memory");
  Cta& target = *cta_.cluster.ctas[window];
  if (&target == &cta_) return {target, at};
  const std::string name = "shared memory of CTA rank " + std::to_string(target.rank);
  if (target.ended == target.warps.size()) throw std::runtime_error(name + ", which has ended");
  bool runs = false;
  for (size_t w = 0; w < target.warps.size(); ++w) {
    runs = runs || order_.seen.at(cta_.cluster.agents.warp(target.rank, w)) > 0;
  }
  if (!runs) throw std::runtime_error(name + " before a cluster barrier showed that it runs");
  if (touch) target.touched.raise(now_);
  return {target, at};
}

// Returns a lane's address, which must be a multiple of `alignment`, a power of two.
uint64_t Warp::address(const Operand& o, const Lanes& base, int lane, int64_t alignment) {
  const uint64_t at = base[lane] + static_cast<uint64_t>(o.offset);
  if (at & static_cast<uint64_t>(alignment - 1)) {
    throw std::runtime_error("misaligned address " + std::to_string(at) + " of " +
                             std::to_string(alignment) + " bytes");
  }
  return at;
}

void Warp::transfer(const Instruction& i, uint32_t lanes) {
  const bool load = i.kind == Kind::load;
  const Operand& where = i.operands[load ? 1 : 0];
  const auto& data = i.operands[load ? 0 : 1].parts;
  const Lanes base = read(where.parts[0], lanes);
  for (size_t e = 0; e < data.size(); ++e) {
    Lanes* to = load ? &write(data[e], lanes) : nullptr;
    const Lanes* from = load ? nullptr : &read(data[e], lanes);
    each_lane(lanes, [&](int lane) {
      lane_ = lane;
      const uint64_t at =
          address(where, base, lane, i.bytes * static_cast<int>(data.size())) + e * i.bytes;
      if (load) {
        const uint64_t value = load_element(i, at);
        const int unused = i.extends_sign ? 64 - 8 * i.bytes : 0;
        (*to)[lane] = unused > 0
                          ? static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused)
                          : value;
      } else if (i.function) {
        store_element(i, at, i.function(load_element(i, at), (*from)[lane], 0));
      } else {
        store_element(i, at, (*from)[lane]);
      }
    });
  }
}

// A prefetch reads no value, so it may come before griddepcontrol.wait. The hardware accepts any
// address. Here the address must belong to an argument, as in the library's kernels.
void Warp::prefetch(const Instruction& i, uint32_t lanes) {
  const Operand& where = i.operands[0];
  const Lanes base = read(where.parts[0], lanes);
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    machine_.global.check(address(where, base, lane, 1), 1);
  });
}

uint64_t Warp::load_element(const Instruction& i, uint64_t at) {
  if (i.space == Space::param)
    return low(machine_.launch.slots.at(at / 8) >> (8 * (at % 8)), i.bytes);
  if (i.space == Space::global) return machine_.global.load(at, i.bytes, early());
  const Place place = resolve(at, i.space);
  return place.cta.shared.load(place.at, i.bytes, order_, now_);
}

void Warp::store_element(const Instruction& i, uint64_t at, uint64_t value) {
  if (i.space == Space::global) {
    if (early()) throw std::runtime_error("write of global memory before griddepcontrol.wait");
    return machine_.global.store(at, i.bytes, value);
  }
  const Place place = resolve(at, i.space);
  place.cta.shared.store(place.at, i.bytes, value, order_, now_);
}

void Warp::atomic(const Instruction& i, uint32_t lanes) {
  if (early()) throw std::runtime_error("write of global memory before griddepcontrol.wait");
  const Lanes base = read(i.operands[1].parts.at(0), lanes);
  const Lanes value = read(i.operands[2], lanes);
  const Lanes swap = i.operands.size() > 3 ? read(i.operands[3], lanes)
                                           : Lanes{};  // new value for compare and swap
  Lanes& old = write(i.operands[0], lanes);
  each_lane(lanes, [&](int lane) {
    lane_ = lane;
    const uint64_t at = address(i.operands[1], base, lane, i.bytes);
    old[lane] = machine_.global.load(at, i.bytes);
    machine_.global.store(at, i.bytes, i.function(old[lane], value[lane], swap[lane]));
  });
}

bool Warp::early() {
  if (!early_) return false;
  for (Epoch wait : cta_.cluster.dependency_waits) early_ = early_ && !order_.seen.covers(wait);
  return early_;
}

// PTX ISA, shfl.sync: in the last operand, bits 8 to 12 select the bits of a lane's number that
// identify its segment, and bits 0 to 4 limit the source lane. If the source is out of bounds, a
// lane keeps its own value.
void Warp::shuffle(const Instruction& i, uint32_t lanes) {
  const Lanes from = read(i.operands[1], lanes), by = read(i.operands[2], lanes);
  const Lanes& clamp = read(i.operands[3], lanes);
  const Lanes& members = read(i.operands[4], lanes);
  Lanes& to = write(i.operands[0], lanes);
  const char mode = i.opcode[sizeof("shfl.sync.") - 1];  // first letter of bfly, up, down or idx
  each_lane(lanes, [&](int lane) {
    if (low(members[lane], 4) != kAllLanes)
      throw std::runtime_error("a shuffle of some of the lanes");
    const int distance = static_cast<int>(by[lane] & 31),
              segment = static_cast<int>(clamp[lane] >> 8 & 31);
    const int first = lane & segment,
              bound = first | (static_cast<int>(clamp[lane] & 31) & ~segment);
    const int source = mode == 'b'   ? lane ^ distance
                       : mode == 'u' ? lane - distance
                       : mode == 'd' ? lane + distance
                                     : first | (distance & ~segment);
    const bool inside = mode == 'u' ? source >= bound : source <= bound;
    to[lane] = low(from[inside ? source : lane], 4);
  });
}

void Warp::elect(const Instruction& i) {
  const auto& results = i.operands[0].parts;
  if (results[0].kind != Operand::Kind::sink) write(results[0], kAllLanes).fill(0);
  Lanes& elected = write(results[1], kAllLanes);
  elected.fill(0);
  elected[0] = 1;
}

}  // namespace ligerdsl::test::ptx

#include "tests/support/ptx/machine.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>

namespace ligerdsl::test::ptx {
namespace {

constexpr uint32_t kAllLanes = 0xffffffff;
constexpr size_t kEnded = std::numeric_limits<size_t>::max();
constexpr int64_t kStepLimit = 50'000'000;  // instructions of one warp between barriers

template <class F>
void each_lane(uint32_t lanes, F f) {
  for (; lanes; lanes &= lanes - 1) f(__builtin_ctz(lanes));
}

uint64_t low(uint64_t value, int bytes) {
  return bytes == 8 ? value : value & ((uint64_t{1} << (8 * bytes)) - 1);
}

class Warp {
 public:
  Warp(const Program& program, const Launch& launch, const GlobalMemory& global, SharedMemory& shared, int number,
       const std::array<int64_t, 3>& cta)
      : program_(program),
        launch_(launch),
        global_(global),
        shared_(shared),
        number_(number),
        registers_(program.registers.size()),
        defined_(program.registers.size()) {
    set("%laneid", 0, 1);
    set("%tid.x", static_cast<uint64_t>(number) * kLanes, 1);
    set("%ntid.x", static_cast<uint64_t>(program.threads), 0);
    for (size_t axis = 0; axis < 3; ++axis) {
      set(std::string("%ctaid.") + "xyz"[axis], static_cast<uint64_t>(cta[axis]), 0);
      set(std::string("%nctaid.") + "xyz"[axis], static_cast<uint64_t>(launch.grid[axis]), 0);
    }
  }

  // Runs until all lanes wait at one barrier, whose index it returns, or have ended (kEnded).
  size_t run_to_barrier() {
    for (int64_t step = 0; step < kStepLimit; ++step) {
      const size_t pc = next();
      if (pc == kEnded) return kEnded;
      uint32_t lanes = 0;
      for (int lane = 0; lane < kLanes; ++lane) lanes |= uint32_t{pcs_[lane] == pc} << lane;
      const Instruction& i = program_.instructions.at(pc);
      lane_ = __builtin_ctz(lanes);
      try {
        if (i.kind == Kind::barrier) {
          if (lanes != kAllLanes) throw std::runtime_error("a barrier that not all threads of the warp reach together");
          return pc;
        }
        execute(i, pc, lanes);
      } catch (const std::runtime_error& error) {
        throw std::runtime_error("PTX line " + std::to_string(i.line) + " `" + i.text + "`, thread " +
                                 std::to_string(number_ * kLanes + lane_) + ": " + error.what());
      }
    }
    throw std::runtime_error("a warp does not end");
  }
  void pass_barrier() {
    for (size_t& pc : pcs_) ++pc;
  }

 private:
  // The lowest program counter, but lanes at a barrier or shuffle wait for the others.
  size_t next() const {
    size_t running = kEnded, waiting = kEnded;
    for (int lane = 0; lane < kLanes; ++lane) {
      const size_t pc = pcs_[lane];
      if (lane > 0 && pc == pcs_[lane - 1]) continue;
      if (pc >= program_.instructions.size()) continue;
      const Kind kind = program_.instructions[pc].kind;
      size_t& lowest = kind == Kind::barrier || kind == Kind::shuffle ? waiting : running;
      lowest = std::min(lowest, pc);
    }
    return running != kEnded ? running : waiting;
  }

  void set(const std::string& name, uint64_t base, uint64_t step) {
    const auto found = program_.registers.find(name);
    if (found == program_.registers.end()) return;
    defined_[found->second] = kAllLanes;
    for (int lane = 0; lane < kLanes; ++lane) registers_[found->second][lane] = base + step * lane;
  }

  const Lanes& read(const Operand& o, uint32_t lanes) {
    if (o.kind == Operand::Kind::constant) return o.constant;
    if (o.kind != Operand::Kind::reg) throw std::runtime_error("an operand that has no value");
    return read_register(o.reg, lanes);
  }
  const Lanes& read_register(int reg, uint32_t lanes) {
    const uint32_t undefined = lanes & ~defined_[reg];
    if (undefined) {
      lane_ = __builtin_ctz(undefined);
      throw std::runtime_error("a register is read before it is written");
    }
    return registers_[reg];
  }
  Lanes& write(const Operand& o, uint32_t lanes) {
    if (o.kind != Operand::Kind::reg) throw std::runtime_error("a destination that is not a register");
    defined_[o.reg] |= lanes;
    return registers_[o.reg];
  }

  void execute(const Instruction& i, size_t pc, uint32_t lanes) {
    uint32_t active = lanes;
    if (i.predicate >= 0) {
      const Lanes& values = read_register(i.predicate, lanes);
      each_lane(lanes, [&](int lane) {
        if ((values[lane] != 0) == i.negated) active &= ~(uint32_t{1} << lane);
      });
    }
    each_lane(lanes, [&](int lane) { pcs_[lane] = pc + 1; });
    if (i.kind == Kind::branch) return each_lane(active, [&](int lane) { pcs_[lane] = i.target; });
    if (i.kind == Kind::exit) return each_lane(active, [&](int lane) { pcs_[lane] = kEnded; });
    if (i.kind == Kind::shuffle) return shuffle(i, active);
    if (i.kind == Kind::hint) return;  // any address may be prefetched
    if (active) compute(i, active);
  }

  void compute(const Instruction& i, uint32_t lanes) {
    switch (i.kind) {
      case Kind::pure:
        return pure(i, lanes);
      case Kind::move:
        return move(i, lanes);
      case Kind::pack:
        return pack(i, lanes);
      case Kind::unpack:
        return unpack(i, lanes);
      case Kind::atomic:
        return atomic(i, lanes);
      default:
        return transfer(i, lanes);
    }
  }

  void pure(const Instruction& i, uint32_t lanes) {
    const size_t n = i.operands.size();
    const Lanes& a = read(i.operands[1], lanes);
    const Lanes& b = n > 2 ? read(i.operands[2], lanes) : a;
    const Lanes& c = n > 3 ? read(i.operands[3], lanes) : a;
    Lanes& out = write(i.operands[0], lanes);
    each_lane(lanes, [&](int lane) {
      lane_ = lane;
      out[lane] = i.function(a[lane], b[lane], c[lane]);
    });
  }

  void move(const Instruction& i, uint32_t lanes) {
    const Lanes& from = read(i.operands[1], lanes);
    Lanes& to = write(i.operands[0], lanes);
    each_lane(lanes, [&](int lane) { to[lane] = i.bytes ? low(from[lane], i.bytes) : from[lane] & 1; });
  }

  void pack(const Instruction& i, uint32_t lanes) {
    Lanes packed{};
    const auto& parts = i.operands[1].parts;
    const int bytes = i.bytes / static_cast<int>(parts.size());
    for (size_t p = 0; p < parts.size(); ++p) {
      const Lanes& from = read(parts[p], lanes);
      each_lane(lanes, [&](int lane) { packed[lane] |= low(from[lane], bytes) << (8 * bytes * p); });
    }
    Lanes& to = write(i.operands[0], lanes);
    each_lane(lanes, [&](int lane) { to[lane] = packed[lane]; });
  }

  void unpack(const Instruction& i, uint32_t lanes) {
    const Lanes from = read(i.operands[1], lanes);
    const auto& parts = i.operands[0].parts;
    const int bytes = i.bytes / static_cast<int>(parts.size());
    for (size_t p = 0; p < parts.size(); ++p) {
      Lanes& to = write(parts[p], lanes);
      each_lane(lanes, [&](int lane) { to[lane] = low(from[lane] >> (8 * bytes * p), bytes); });
    }
  }

  uint64_t address(const Operand& o, const Lanes& base, int lane, int bytes) {
    const uint64_t at = base[lane] + static_cast<uint64_t>(o.offset);
    if (at % static_cast<uint64_t>(bytes)) {
      throw std::runtime_error("misaligned address " + std::to_string(at) + " of " + std::to_string(bytes) + " bytes");
    }
    return at;
  }

  void transfer(const Instruction& i, uint32_t lanes) {
    const bool load = i.kind == Kind::load;
    const Operand& where = i.operands[load ? 1 : 0];
    const auto& data = i.operands[load ? 0 : 1].parts;
    const Lanes base = read(where.parts[0], lanes);
    for (size_t e = 0; e < data.size(); ++e) {
      Lanes* to = load ? &write(data[e], lanes) : nullptr;
      const Lanes* from = load ? nullptr : &read(data[e], lanes);
      each_lane(lanes, [&](int lane) {
        lane_ = lane;
        const uint64_t at = address(where, base, lane, i.bytes * static_cast<int>(data.size())) + e * i.bytes;
        if (load) {
          (*to)[lane] = load_element(i, at);
        } else if (i.space == Space::shared) {
          shared_.store(at, i.bytes, (*from)[lane], number_);
        } else {
          global_.store(at, i.bytes, (*from)[lane]);
        }
      });
    }
  }

  uint64_t load_element(const Instruction& i, uint64_t at) {
    if (i.space == Space::param) return low(launch_.slots.at(at / 8) >> (8 * (at % 8)), i.bytes);
    return i.space == Space::shared ? shared_.load(at, i.bytes, number_) : global_.load(at, i.bytes);
  }

  void atomic(const Instruction& i, uint32_t lanes) {
    const Lanes base = read(i.operands[1].parts.at(0), lanes);
    const Lanes value = read(i.operands[2], lanes);
    Lanes& old = write(i.operands[0], lanes);
    each_lane(lanes, [&](int lane) {
      lane_ = lane;
      const uint64_t at = address(i.operands[1], base, lane, i.bytes);
      old[lane] = global_.load(at, i.bytes);
      global_.store(at, i.bytes, i.function(old[lane], value[lane], 0));
    });
  }

  // Clamp 0 of up and 31 of the others: the whole warp is one segment.
  void shuffle(const Instruction& i, uint32_t lanes) {
    if (lanes != kAllLanes) throw std::runtime_error("a shuffle that not all threads of the warp reach together");
    if (i.operands.size() != 5) throw std::runtime_error("an unknown form of shuffle");
    const Lanes from = read(i.operands[1], lanes), by = read(i.operands[2], lanes);
    const Lanes& clamp = read(i.operands[3], lanes);
    const Lanes& members = read(i.operands[4], lanes);
    Lanes& to = write(i.operands[0], lanes);
    const char mode = i.opcode[sizeof("shfl.sync.") - 1];  // of bfly, up, down, idx
    each_lane(lanes, [&](int lane) {
      if (clamp[lane] != (mode == 'u' ? 0 : 31) || low(members[lane], 4) != kAllLanes) {
        throw std::runtime_error("an unknown form of shuffle");
      }
      const int distance = static_cast<int>(by[lane] & 31);
      const int source = mode == 'b'   ? lane ^ distance
                         : mode == 'u' ? lane - distance
                         : mode == 'd' ? lane + distance
                                       : distance;
      to[lane] = low(from[source < 0 || source >= kLanes ? lane : source], 4);
    });
  }

  const Program& program_;
  const Launch& launch_;
  const GlobalMemory& global_;
  SharedMemory& shared_;
  int number_;
  int lane_ = 0;  // that an error is about
  std::array<size_t, kLanes> pcs_{};
  std::vector<Lanes> registers_;
  std::vector<uint32_t> defined_;  // per register, the lanes that wrote it
};

void run_cta(const Program& program, const Launch& launch, const GlobalMemory& memory,
             const std::array<int64_t, 3>& cta, std::mt19937_64& random) {
  SharedMemory shared(launch.shared_bytes);
  std::vector<Warp> warps;
  for (int i = 0; i < program.threads / kLanes; ++i) warps.emplace_back(program, launch, memory, shared, i, cta);
  std::vector<size_t> order(warps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  while (true) {
    std::shuffle(order.begin(), order.end(), random);
    const size_t barrier = warps[order[0]].run_to_barrier();
    for (size_t i = 1; i < order.size(); ++i) {
      if (warps[order[i]].run_to_barrier() != barrier) {
        throw std::runtime_error("warps " + std::to_string(order[0]) + " and " + std::to_string(order[i]) +
                                 " do not meet at the same barrier");
      }
    }
    if (barrier == kEnded) return;
    shared.barrier();
    for (Warp& warp : warps) warp.pass_barrier();
  }
}

}  // namespace

void run(const Program& program, const Launch& launch, const GlobalMemory& memory) {
  if (program.threads <= 0 || program.threads % kLanes) throw std::runtime_error("PTX without whole warps in .reqntid");
  std::mt19937_64 random(launch.seed);
  std::vector<int64_t> ctas(launch.grid[0] * launch.grid[1] * launch.grid[2]);
  std::iota(ctas.begin(), ctas.end(), int64_t{0});
  std::shuffle(ctas.begin(), ctas.end(), random);
  for (int64_t i : ctas) {
    const int64_t x = i % launch.grid[0], y = i / launch.grid[0] % launch.grid[1],
                  z = i / launch.grid[0] / launch.grid[1];
    try {
      run_cta(program, launch, memory, {x, y, z}, random);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(program.entry + ", CTA (" + std::to_string(x) + ", " + std::to_string(y) + ", " +
                               std::to_string(z) + "): " + error.what());
    }
  }
}

}  // namespace ligerdsl::test::ptx

#include "tests/support/ptx/warp.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace ligerdsl::test::ptx {
namespace {

constexpr size_t kEnded = std::numeric_limits<size_t>::max();
constexpr int64_t kStepLimit = 50'000'000;  // most instructions of a warp between two waits

// Returns true if a lane waits at this instruction until the other lanes of the warp reach it, end
// or wait.
bool converges(Kind kind) {
  return kind >= Kind::shuffle && kind <= Kind::cluster_wait;
}

}  // namespace

Warp::Warp(Machine& machine, Cta& cta, int number)
    : machine_(machine),
      cta_(cta),
      number_(number),
      agent_(cta.cluster.agents.warp(cta.rank, static_cast<size_t>(number))),
      registers_(std::make_unique_for_overwrite<Lanes[]>(machine.program.registers.size())),
      defined_(machine.program.registers.size()),
      pending_(machine.program.registers.size()),
      early_(machine.program.dependent) {
  shared_.fill(SharedMemory::kBase | cta.rank << kWindowBits);
  set_special_registers();
  tick();
  tick();  // epoch 1 only records that the warp runs
}

void Warp::set_special_registers() {
  set("%laneid", 0, 1);
  set("%tid.x", static_cast<uint64_t>(number_) * kLanes, 1);
  set("%nsmid", 1);
  set("%ntid.x", static_cast<uint64_t>(machine_.program.threads));
  const auto& grid = machine_.launch.grid;
  const auto& cluster = machine_.launch.cluster;
  for (size_t axis = 0; axis < 3; ++axis) {
    const std::string dot = std::string(".") + "xyz"[axis];
    set("%ctaid" + dot, static_cast<uint64_t>(cta_.id[axis]));
    set("%nctaid" + dot, static_cast<uint64_t>(grid[axis]));
    set("%clusterid" + dot, static_cast<uint64_t>(cta_.id[axis] / cluster[axis]));
    set("%nclusterid" + dot, static_cast<uint64_t>(grid[axis] / cluster[axis]));
    set("%cluster_ctaid" + dot, static_cast<uint64_t>(cta_.id[axis] % cluster[axis]));
    set("%cluster_nctaid" + dot, static_cast<uint64_t>(cluster[axis]));
  }
  set("%cluster_ctarank", cta_.rank);
  set("%cluster_nctarank", static_cast<uint64_t>(cluster[0] * cluster[1] * cluster[2]));
}

void Warp::set(const std::string& name, uint64_t base, uint64_t step) {
  const auto found = machine_.program.registers.find(name);
  if (found == machine_.program.registers.end()) return;
  defined_[found->second] = kAllLanes;
  for (int lane = 0; lane < kLanes; ++lane) registers_[found->second][lane] = base + step * lane;
}

Warp::Stop Warp::run() {
  const Stop stop = run_until_stop();
  stopped_ = stop == Stop::wait;
  return stop;
}

Warp::Stop Warp::run_until_stop() {
  while (steps_++ < kStepLimit) {
    const Group group = next();
    if (group.pc == kEnded) {
      finish();
      return Stop::end;
    }
    if (group.lanes == 0) return Stop::wait;
    const Instruction& i = machine_.program.instructions.at(group.pc);
    lane_ = __builtin_ctz(group.lanes);
    try {
      if (converges(i.kind)) {
        if (group.lanes != kAllLanes && parked_) return Stop::wait;
        if (group.lanes != kAllLanes) {
          throw std::runtime_error(
              "not all threads of the warp reach this warp-wide instruction together");
        }
      }
      const Stop stop = execute(i, group);
      if (stop != Stop::none) return stop;
    } catch (const std::runtime_error& error) {
      fail(i, error.what());
    }
  }
  throw std::runtime_error(cta_.name(machine_.program) + ": a warp does not end");
}

std::string Warp::where(const Instruction& i) const {
  return cta_.name(machine_.program) + ": PTX line " + std::to_string(i.line) + " `" + i.text +
         "`, thread " + std::to_string(number_ * kLanes + lane_);
}

void Warp::fail(const Instruction& i, const char* what) const {
  throw std::runtime_error(where(i) + ": " + what);
}

// Returns the lanes with the lowest program counter. A lane at a warp-wide instruction lets lanes
// at other instructions run first. Returns the counter kEnded if all lanes have ended, and no lanes
// if all remaining lanes wait for an mbarrier.
Warp::Group Warp::next() const {
  if (uniform_) return {pc_, pc_ == kEnded ? kAllLanes : kAllLanes & ~parked_};
  const auto& instructions = machine_.program.instructions;
  Group running{kEnded, 0}, waiting{kEnded, 0};
  size_t last = kEnded;
  Group* into = nullptr;
  for (int lane = 0; lane < kLanes; ++lane) {
    const size_t pc = pcs_[lane];
    if (pc == kEnded || (parked_ >> lane & 1)) continue;
    if (pc != last) {
      if (pc >= instructions.size())
        throw std::runtime_error("a warp runs beyond the kernel's end");
      into = converges(instructions[pc].kind) ? &waiting : &running;
      last = pc;
    }
    if (pc < into->pc) *into = {pc, 0};
    if (pc == into->pc) into->lanes |= uint32_t{1} << lane;
  }
  if (running.lanes) return running;
  if (waiting.lanes) return waiting;
  return parked_ ? Group{0, 0} : Group{kEnded, 0};
}

void Warp::set_pc(uint32_t lanes, size_t pc) {
  if (lanes == kAllLanes) {
    uniform_ = true;
    pc_ = pc;
    return;
  }
  if (uniform_) pcs_.fill(pc_);
  uniform_ = false;
  each_lane(lanes, [&](int lane) { pcs_[lane] = pc; });
}

bool Warp::resume() {
  parked_ = 0;
  steps_ = 0;
  const bool stood = stopped_;
  stopped_ = false;
  return stood;
}

std::string Warp::waits_at() const {
  size_t pc = barrier_pc_;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (parked_ >> lane & 1) pc = uniform_ ? pc_ : pcs_[lane];
  }
  const Instruction& i = machine_.program.instructions.at(pc);
  return cta_.name(machine_.program) + ": PTX line " + std::to_string(i.line) + " `" + i.text + "`";
}

Warp::Stop Warp::execute(const Instruction& i, const Group& group) {
  uint32_t active = group.lanes;
  if (i.predicate >= 0) {
    const Lanes& values = read_register(i.predicate, group.lanes);
    each_lane(group.lanes, [&](int lane) {
      if ((values[lane] != 0) == i.negated) active &= ~(uint32_t{1} << lane);
    });
  }
  set_pc(group.lanes, group.pc + 1);
  if (converges(i.kind) && active != 0 && active != kAllLanes) {
    throw std::runtime_error(
        "not all threads of the warp reach this warp-wide instruction together");
  }
  return active ? dispatch(i, group, active) : Stop::none;
}

Warp::Stop Warp::dispatch(const Instruction& i, const Group& group, uint32_t active) {
  switch (i.kind) {
    case Kind::pure:
      pure(i, active);
      break;
    case Kind::move:
      move(i, active);
      break;
    case Kind::parameter_address:
      parameter_address(i, active);
      break;
    case Kind::pack:
      pack(i, active);
      break;
    case Kind::unpack:
      unpack(i, active);
      break;
    case Kind::insert_bits:
      insert_bits(i, active);
      break;
    case Kind::load:
    case Kind::store:
      transfer(i, active);
      break;
    case Kind::branch:
      set_pc(active, i.target);
      break;
    case Kind::exit:
      set_pc(active, kEnded);
      break;
    case Kind::hint:
      break;
    case Kind::prefetch:
      prefetch(i, active);
      break;
    case Kind::shuffle:
      shuffle(i, active);
      break;
    case Kind::multiply:
      multiply(i);
      break;
    case Kind::load_matrix:
      load_matrix(i);
      break;
    case Kind::group_fence:
      group_fenced_ = true;
      break;
    case Kind::group_multiply:
      group_multiply(i);
      break;
    case Kind::group_commit:
      commit(products_);
      group_fenced_ = false;
      break;
    case Kind::group_wait:
      group_wait(i);
      break;
    case Kind::elect:
      elect(i);
      break;
    case Kind::active_mask:
      write(i.operands[0], active).fill(active);
      break;
    case Kind::map_rank:
      map_rank(i, active);
      break;
    case Kind::sleep:
      return Stop::yield;
    case Kind::atomic:
      atomic(i, active);
      return machine_.chance(2) ? Stop::yield : Stop::none;
    default:
      return dispatch_sync(i, group, active);
  }
  return Stop::none;
}

Warp::Stop Warp::dispatch_sync(const Instruction& i, const Group& group, uint32_t active) {
  switch (i.kind) {
    case Kind::warp_barrier:
      break;  // order is recorded per warp, not per lane
    case Kind::barrier:
      return barrier(i, group);
    case Kind::cluster_arrive:
      cluster_arrive(i);
      break;
    case Kind::cluster_wait:
      return cluster_wait(i, group);
    case Kind::fence:
      fence(i);
      break;
    case Kind::dependency_wait:
      early_ = false;
      cta_.cluster.dependency_waits.push_back(now_);
      break;
    case Kind::mbarrier_init:
      mbarrier_init(i, active);
      break;
    case Kind::mbarrier_inval:
      mbarrier_inval(i, active);
      break;
    case Kind::mbarrier_arrive:
      mbarrier_arrive(i, active);
      break;
    case Kind::mbarrier_expect:
      mbarrier_expect(i, active);
      break;
    case Kind::mbarrier_wait:
      return mbarrier_wait(i, group, active);
    case Kind::copy:
      copy(i, active);
      break;
    case Kind::tensor_load:
      tensor_load(i, active);
      break;
    case Kind::tensor_store:
      tensor_store(i, active);
      break;
    case Kind::bulk_load:
      bulk_load(i, active);
      break;
    case Kind::bulk_store:
      bulk_store(i, active);
      break;
    case Kind::remote_store:
      remote_store(i, active);
      break;
    case Kind::commit:
      commit(i.bulk ? stores_ : copies_);
      break;
    case Kind::wait_group:
      wait_group(i);
      break;
    default:
      throw std::runtime_error("the emulator does not support this instruction");
  }
  return Stop::none;
}

const Lanes& Warp::read(const Operand& o, uint32_t lanes) {
  if (o.kind == Operand::Kind::constant) return o.constant;
  if (o.kind == Operand::Kind::shared) return shared_;
  if (o.kind != Operand::Kind::reg) throw std::runtime_error("the operand has no value");
  return read_register(o.reg, lanes);
}

const Lanes& Warp::read_register(int reg, uint32_t lanes) {
  const uint32_t undefined = lanes & ~defined_[reg];
  if (undefined) {
    lane_ = __builtin_ctz(undefined);
    throw std::runtime_error("a register is read before it is written");
  }
  expect_free(reg);
  return registers_[reg];
}

Lanes& Warp::write(const Operand& o, uint32_t lanes) {
  if (o.kind != Operand::Kind::reg) throw std::runtime_error("the destination is not a register");
  expect_free(o.reg);
  defined_[o.reg] |= lanes;
  return registers_[o.reg];
}

void Warp::pure(const Instruction& i, uint32_t lanes) {
  const size_t n = i.operands.size();
  const Lanes& a = read(i.operands[1], lanes);
  const Lanes& b = n > 2 ? read(i.operands[2], lanes) : a;
  const Lanes& c = n > 3 ? read(i.operands[3], lanes) : a;
  Lanes values;
  const bool all = lanes == kAllLanes && !i.pairs;
  if (all) i.all(values, a, b, c, lane_);
  each_lane(all ? 0 : lanes, [&](int lane) {
    lane_ = lane;
    values[lane] = i.pairs ? i.function(low(a[lane], 2), low(b[lane], 2), low(c[lane], 2)) |
                                 i.function(a[lane] >> 16, b[lane] >> 16, c[lane] >> 16) << 16
                           : i.function(a[lane], b[lane], c[lane]);
  });
  if (i.operands[0].kind != Operand::Kind::vector) {
    Lanes& out = write(i.operands[0], lanes);
    if (all) {
      out = values;
      return;
    }
    return each_lane(lanes, [&](int lane) { out[lane] = values[lane]; });
  }
  for (size_t p = 0; p < i.operands[0].parts.size(); ++p) {  // a predicate per half
    if (i.operands[0].parts[p].kind == Operand::Kind::sink) continue;
    Lanes& out = write(i.operands[0].parts[p], lanes);
    each_lane(lanes, [&](int lane) { out[lane] = values[lane] >> (16 * p) & 1; });
  }
}

void Warp::move(const Instruction& i, uint32_t lanes) {
  const Lanes& from = read(i.operands[1], lanes);
  Lanes& to = write(i.operands[0], lanes);
  each_lane(lanes,
            [&](int lane) { to[lane] = i.bytes ? low(from[lane], i.bytes) : from[lane] & 1; });
}

void Warp::parameter_address(const Instruction& i, uint32_t lanes) {
  const size_t number = static_cast<size_t>(i.operands[1].offset),
               slots = machine_.launch.slots.size();
  if (number < slots || number - slots >= machine_.launch.maps.size())
    throw std::runtime_error("the address of a parameter that is not a tensor map");
  Lanes& to = write(i.operands[0], lanes);
  each_lane(lanes, [&](int lane) {
    to[lane] = reinterpret_cast<uintptr_t>(&machine_.launch.maps[number - slots]);
  });
}

void Warp::pack(const Instruction& i, uint32_t lanes) {
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

void Warp::unpack(const Instruction& i, uint32_t lanes) {
  const Lanes from = read(i.operands[1], lanes);
  const auto& parts = i.operands[0].parts;
  const int bytes = i.bytes / static_cast<int>(parts.size());
  for (size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].kind == Operand::Kind::sink) continue;
    Lanes& to = write(parts[p], lanes);
    each_lane(lanes, [&](int lane) { to[lane] = low(from[lane] >> (8 * bytes * p), bytes); });
  }
}

// bfi: replaces a bit field of operand 2 with the lowest bits of operand 1.
void Warp::insert_bits(const Instruction& i, uint32_t lanes) {
  const Lanes from = read(i.operands[1], lanes), into = read(i.operands[2], lanes);
  const Lanes first = read(i.operands[3], lanes), length = read(i.operands[4], lanes);
  Lanes& to = write(i.operands[0], lanes);
  each_lane(lanes, [&](int lane) {
    const uint64_t at = first[lane] & 255, count = length[lane] & 255;
    to[lane] = into[lane];
    for (uint64_t bit = 0; bit < count && at + bit < 32; ++bit) {
      const uint64_t one = uint64_t{1} << (at + bit);
      to[lane] = (to[lane] & ~one) | (from[lane] >> bit & 1) << (at + bit);
    }
  });
}

}  // namespace ligerdsl::test::ptx

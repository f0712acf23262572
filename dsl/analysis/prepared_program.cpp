#include "analysis/prepared_program.h"

#include <algorithm>
#include <initializer_list>
#include <set>

namespace ligerdsl::analysis {
namespace {

using program::AttrKey;
using program::Op;
using program::OpCode;
using program::Region;
using program::Type;
using program::TypeKind;
using program::ValueId;

constexpr double kAddressInstructions = 4;  // per access, in addition to those per vector

double elements_of(const Type& type) {
  return type.shape.empty() ? 1 : static_cast<double>(program::tileElements(type.shape));
}

double block_elements(const Op& op) {
  double elements = 1;
  for (int64_t extent : std::get<program::Shape>(*op.find(AttrKey::tile_shape)))
    elements *= static_cast<double>(std::max<int64_t>(extent, 1));
  return elements;
}

// Finds the values from which operands of dots are computed, also in earlier iterations of a loop.
class DotOperands {
 public:
  explicit DotOperands(const program::Program& program)
      : program_(program),
        sources_(program.values.size()),
        marked_(program.values.size()),
        loaded_(program.values.size()) {
    collect(program.body);
    for (const Op* dot : dots_)
      for (size_t i : {0, 1}) mark(dot->operands[i]);
  }
  bool feeds(ValueId value) const { return marked_[value]; }
  // Returns true if the value is a loaded tile, possibly after permute or reshape.
  bool is_loaded(ValueId value) const { return loaded_[value]; }

 private:
  void collect(const Region& region) {
    for (const Op& op : region.ops) {
      if (op.code == OpCode::dot) dots_.push_back(&op);
      const bool follows = op.regions.empty() && op.code != OpCode::dot &&
                           program::info(op.code).family != program::Family::memory &&
                           op.code != OpCode::broadcast;
      for (ValueId result : op.results)
        if (follows) sources_[result] = op.operands;
      if (op.code == OpCode::load_tile || op.code == OpCode::load) loaded_[op.results[0]] = true;
      if (op.code == OpCode::permute || op.code == OpCode::reshape)
        loaded_[op.results[0]] = loaded_[op.operands[0]];
      if (op.code == OpCode::for_range) {
        const Region& body = op.regions[0];
        const Op& yield = body.ops.back();
        for (size_t i = 1; i < body.arguments.size(); ++i)
          sources_[body.arguments[i]] = {op.operands[i + 2], yield.operands[i - 1]},
          loaded_[body.arguments[i]] = loaded_[op.operands[i + 2]];
      }
      for (const Region& inner : op.regions) collect(inner);
    }
  }
  void mark(ValueId value) {
    if (marked_[value] || program_.values[value].kind != TypeKind::tile) return;
    marked_[value] = true;
    for (ValueId source : sources_[value]) mark(source);
  }

  const program::Program& program_;
  std::vector<std::vector<ValueId>> sources_;
  std::vector<bool> marked_, loaded_;
  std::vector<const Op*> dots_;
};

// Finds the values that the bounds of loops, conditions and memory accesses depend on.
class NeededValues {
 public:
  explicit NeededValues(const program::Program& program)
      : sources_(program.values.size()), needed_(program.values.size()) {
    collect(program.body);
    for (ValueId root : roots_) need(root);
  }
  bool has(ValueId value) const { return needed_[value]; }

 private:
  void collect(const Region& region) {
    for (const Op& op : region.ops) {
      const program::Family family = program::info(op.code).family;
      if (family == program::Family::memory || family == program::Family::atomic)
        memory(op);
      else if (family == program::Family::control)
        control(op);
      else if (family != program::Family::reduction && family != program::Family::contraction)
        for (ValueId result : op.results) sources_[result] = op.operands;
    }
  }
  // The operands of an access are needed. The result of a load is unknown, so it has no sources.
  void memory(const Op& op) {
    if (op.code == OpCode::view_ptr || op.code == OpCode::addptr || op.code == OpCode::slice) {
      sources_[op.results[0]] = op.operands;
      return;
    }
    roots_.insert(roots_.end(), op.operands.begin(), op.operands.end());
  }
  void control(const Op& op) {
    for (const Region& inner : op.regions) collect(inner);
    switch (static_cast<program::ControlOp>(op.code)) {
      case program::ControlOp::for_range: {
        const Region& body = op.regions[0];
        roots_.insert(roots_.end(), op.operands.begin(), op.operands.begin() + 3);
        for (size_t i = 3; i < op.operands.size(); ++i) {
          link(body.arguments[i - 2], {op.operands[i], body.ops.back().operands[i - 3]});
          link(op.results[i - 3], {body.arguments[i - 2]});
        }
        return;
      }
      case program::ControlOp::if_else:
        roots_.push_back(op.operands[0]);
        for (const Region& inner : op.regions)
          for (size_t i = 0; i < op.results.size(); ++i)
            link(op.results[i], {inner.ops.back().operands[i]});
        return;
      case program::ControlOp::while_loop: {
        const Region &test = op.regions[0], &body = op.regions[1];
        const Op &tested = test.ops.back(), &next = body.ops.back();
        roots_.push_back(tested.operands[0]);
        for (size_t i = 0; i < test.arguments.size(); ++i)
          link(test.arguments[i], {op.operands[i], next.operands[i]});
        for (size_t i = 0; i < body.arguments.size(); ++i) {
          link(body.arguments[i], {tested.operands[i + 1]});
          link(op.results[i], {tested.operands[i + 1]});
        }
        return;
      }
      case program::ControlOp::yield:
        return;
    }
  }
  void link(ValueId value, std::initializer_list<ValueId> sources) {
    sources_[value].insert(sources_[value].end(), sources);
  }
  void need(ValueId root) {
    std::vector<ValueId> open = {root};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (needed_[value]) continue;
      needed_[value] = true;
      open.insert(open.end(), sources_[value].begin(), sources_[value].end());
    }
  }

  std::vector<std::vector<ValueId>> sources_;
  std::vector<bool> needed_;
  std::vector<ValueId> roots_;
};

// Peak bytes of a program's live tiles. Counts loaded tiles, accumulators and loop-carried tiles.
// Other tiles are not counted, because they are computed from these tiles element by element.
class LiveBytes {
 public:
  explicit LiveBytes(const program::Program& program)
      : program_(program), last_use_(program.values.size(), -1), defined_(program.values.size()) {
    for (const program::Argument& argument : program.arguments) defined_[argument.value] = 0;
    number(program.body);
    walk(program.body);
  }
  double most() const { return most_; }

 private:
  double bytes(ValueId id) const {
    const Type& type = program_.values[id];
    return type.shape.empty() || type.kind != TypeKind::tile
               ? 0
               : elements_of(type) * static_cast<double>(size_of(type.dtype));
  }
  void number(const Region& region) {
    for (ValueId argument : region.arguments) defined_[argument] = at_;
    for (const Op& op : region.ops) {
      const int64_t begin = at_++;
      for (const Region& inner : op.regions) number(inner);
      use(op, begin);
      for (ValueId result : op.results) defined_[result] = at_;
    }
  }
  // A value that is used in an operation's regions, but defined before them, lives until the end of
  // the operation.
  void use(const Op& op, int64_t begin) {
    for (ValueId operand : op.operands)
      if (defined_[operand] <= begin) last_use_[operand] = std::max(last_use_[operand], at_);
    for (const Region& inner : op.regions)
      for (const Op& own : inner.ops) use(own, begin);
  }
  void walk(const Region& region) {
    for (ValueId argument : region.arguments) hold(argument);
    for (const Op& op : region.ops) {
      ++place_;
      for (const Region& inner : op.regions) walk(inner);
      if (op.code == OpCode::load_tile || op.code == OpCode::load || op.code == OpCode::dot ||
          !op.regions.empty())
        for (ValueId result : op.results) hold(result);
      std::erase_if(held_, [&](ValueId id) { return last_use_[id] <= place_; });
    }
  }
  void hold(ValueId id) {
    if (bytes(id) == 0 || last_use_[id] < 0) return;
    held_.insert(id);
    double sum = 0;
    for (ValueId held : held_) sum += bytes(held);
    most_ = std::max(most_, sum);
  }

  const program::Program& program_;
  std::vector<int64_t> last_use_, defined_;  // positions in program order
  std::set<ValueId> held_;
  int64_t at_ = 0, place_ = 0;
  double most_ = 0;
};

class Preparation {
 public:
  Preparation(PreparedProgram& out, int num_stages)
      : out_(out), operands_(out.program), needed_(out.program), num_stages_(num_stages) {}

  PreparedBlock block(const Region& region, bool in_loop) {
    PreparedBlock prepared;
    prepared.region = &region;
    for (const Op& op : region.ops) {
      out_.counts_programs = out_.counts_programs || op.code == OpCode::num_programs;
      if (op.code == OpCode::yield)
        prepared.yield = &op;
      else
        add(op, in_loop, &prepared);
    }
    return prepared;
  }

 private:
  const Type& type(ValueId id) const { return out_.program.values[id]; }

  void add(const Op& op, bool in_loop, PreparedBlock* block) {
    const program::Family family = program::info(op.code).family;
    bool evaluated = family == program::Family::atomic || !op.regions.empty();
    switch (family) {
      case program::Family::reduction:
        reduction(op, block);
        return;
      case program::Family::contraction:
        block->dots.push_back(dot(op, in_loop));
        return;
      case program::Family::memory:
        evaluated =
            evaluated || op.results.empty() || program::reads(program::info(op.code).effect);
        if (evaluated) block->scalars += kAddressInstructions;
        break;
      case program::Family::atomic:
        block->scalars += kAddressInstructions;
        break;
      default:
        cost(op, block);
    }
    for (ValueId result : op.results) evaluated = evaluated || needed_.has(result);
    if (evaluated) block->ops.push_back(one(op, family, in_loop));
  }
  PreparedOp one(const Op& op, program::Family family, bool in_loop) {
    PreparedOp prepared;
    prepared.op = &op;
    prepared.family = family;
    if (op.find(AttrKey::tile_shape))
      prepared.elements = block_elements(op);
    else if (!op.operands.empty())
      prepared.elements = elements_of(type(op.operands[0]));
    if (!op.operands.empty())
      prepared.element_bytes = static_cast<double>(size_of(type(op.operands[0]).dtype));
    if (op.code == OpCode::load_tile || op.code == OpCode::load) load(op, &prepared);
    control(op, in_loop, &prepared);
    return prepared;
  }
  void cost(const Op& op, PreparedBlock* block) {
    if (op.results.empty() || op.operands.empty()) return;
    const Type& result = type(op.results[0]);
    const LaneCost each = lane_cost(op, type(op.operands[0]).dtype, result.dtype);
    if (result.shape.empty()) {
      block->scalars += each.lanes + each.functions;
      return;
    }
    block->cost.lanes += each.lanes * elements_of(result);
    block->cost.functions += each.functions * elements_of(result);
  }
  // Counts one step of the combiner per element, or three for a scan.
  void reduction(const Op& op, PreparedBlock* block) {
    constexpr double kScanSteps = 3;
    LaneCost step{static_cast<double>(op.operands.size()), 0};
    if (!op.regions.empty()) {
      step = {};
      for (const Op& inner : op.regions[0].ops) {
        if (inner.results.empty() || inner.operands.empty()) continue;
        const LaneCost each =
            lane_cost(inner, type(inner.operands[0]).dtype, type(inner.results[0]).dtype);
        step.lanes += each.lanes, step.functions += each.functions;
      }
    }
    const double steps =
        elements_of(type(op.operands[0])) * (op.code == OpCode::scan ? kScanSteps : 1);
    block->reductions += 1;
    block->cost.lanes += steps * step.lanes;
    block->cost.functions += steps * step.functions;
  }
  int dot(const Op& op, bool in_loop) {
    const Type &a = type(op.operands[0]), &b = type(op.operands[1]);
    out_.dots.push_back({.dtype = a.dtype,
                         .tf32 = program::roundsToTf32(op),
                         .in_loop = in_loop,
                         .loads_a = operands_.is_loaded(op.operands[0]),
                         .m = a.shape[0],
                         .n = b.shape[1],
                         .k = a.shape[1]});
    return static_cast<int>(out_.dots.size()) - 1;
  }
  void load(const Op& op, PreparedOp* prepared) {
    prepared->feeds_dot = operands_.feeds(op.results[0]);
    const int64_t row = op.integer(AttrKey::resident);
    prepared->repeats = row != 0 && !resident_.insert(row).second;
  }
  void control(const Op& op, bool in_loop, PreparedOp* prepared) {
    if (op.regions.empty()) return;
    const bool loop = op.code == OpCode::for_range || op.code == OpCode::while_loop;
    const bool dynamic = op.find(AttrKey::independent) != nullptr;
    for (const Region& region : op.regions)
      prepared->regions.push_back(block(region, in_loop || (loop && !dynamic)));
    for (size_t i = 0; op.code == OpCode::for_range && i < op.results.size(); ++i)
      if (needed_.has(op.results[i]) || needed_.has(op.regions[0].arguments[i + 1]))
        prepared->carried.push_back(i);
    if (!loop || dynamic) return;
    const Loads found = loads_of(prepared->regions.back());
    prepared->loads = found.bytes > 0;
    const int64_t own = op.integer(AttrKey::num_stages);
    prepared->stages = prepared->loads ? static_cast<int>(own > 0 ? own : num_stages_) : 1;
    out_.stages = std::max(out_.stages, prepared->stages);
    if (prepared->stages > 1)
      out_.ring_bytes = std::max(out_.ring_bytes, prepared->stages * found.ring);
  }
  struct Loads {
    double bytes = 0, ring = 0;
  };
  // Returns the bytes that one iteration loads outside its inner loops. `ring` counts only the
  // tiles of at least kLeastSlot bytes, which have slots in shared memory.
  Loads loads_of(const PreparedBlock& block) const {
    constexpr double kLeastSlot = 1024;  // bytes; smaller tiles are loaded to registers
    Loads loads;
    for (const PreparedOp& one : block.ops) {
      if (one.op->code == OpCode::load_tile || one.op->code == OpCode::load) {
        const double bytes = one.elements * one.element_bytes;
        loads.bytes += bytes;
        if (bytes >= kLeastSlot) loads.ring += bytes;
      }
      if (one.op->code != OpCode::if_else) continue;
      for (const PreparedBlock& branch : one.regions) {
        const Loads inner = loads_of(branch);
        loads.bytes += inner.bytes, loads.ring += inner.ring;
      }
    }
    return loads;
  }

  PreparedProgram& out_;
  DotOperands operands_;
  NeededValues needed_;
  int num_stages_;
  std::set<int64_t> resident_;
};

}  // namespace

PreparedProgram::PreparedProgram(const program::Program& recorded, int num_stages)
    : program(recorded) {
  Preparation preparation(*this, num_stages);
  body = preparation.block(recorded.body, false);
  dynamic_persistent = program::isDynamicPersistent(recorded);
  counts_programs = counts_programs && !dynamic_persistent;
  live_bytes = LiveBytes(recorded).most();
}

}  // namespace ligerdsl::analysis

// Checks a program's structure: types of the value table, SSA order, regions and their yields.
// verify_ops.cpp checks each op.
#include "program/verify.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "program/op_info.h"
#include "program/overlap.h"
#include "program/print.h"
#include "program/verify_ops.h"

namespace ligerdsl::program {
namespace {

std::string checkType(const Type& type) {
  const bool tile = type.kind == TypeKind::tile || type.kind == TypeKind::ptr_tile;
  if (type.kind == TypeKind::view) {
    if (type.shape.empty() || type.shape.size() > size_t{kMaxViewRank})
      return "a view must have 1 to 8 dimensions, got " + std::to_string(type.shape.size());
    if (type.strides.size() != type.shape.size())
      return "a view must have one stride per dimension, got " +
             std::to_string(type.strides.size()) + " for " + std::to_string(type.shape.size());
    for (int64_t extent : type.shape) {
      if (extent != kDynamic && extent < 1)
        return "a view dimension must be dynamic or positive, got " + std::to_string(extent);
    }
    for (int64_t stride : type.strides) {
      if (stride != kDynamic && stride < 0)
        return "a view stride must be dynamic, 0 or positive, got " + std::to_string(stride);
    }
    return "";
  }
  if (!type.strides.empty()) return "only views may have strides";
  if (!tile) return type.shape.empty() ? "" : "only tiles and views may have a shape";
  if (type.shape.empty()) return "a tile must have at least one dimension";
  for (int64_t extent : type.shape) {
    if (!isTileExtent(extent))
      return "a dimension of the tile type " + print(type) + " is " + std::to_string(extent) +
             "; expected c * 2^n with odd c <= 31, at most 2^20";
  }
  return tileElements(type.shape) < 0
             ? "the tile type " + print(type) + " has more than 2^20 elements"
             : "";
}

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program), state_(program.values.size(), State::undefined) {}

  void run() {
    if (!isIdentifier(program_.name))
      fail("the name must match [a-zA-Z_][a-zA-Z0-9_]*, got '" + program_.name + "'");
    for (const Type& type : program_.values) {
      const std::string problem = checkType(type);
      if (!problem.empty()) fail(problem);
    }
    arguments();
    if (!program_.body.arguments.empty()) fail("the body must have no arguments of its own");
    region(program_.body, nullptr);
  }

 private:
  enum class State : uint8_t { undefined, visible, ended };

  [[noreturn]] void fail(const std::string& message, const Op* op = nullptr) const {
    std::string where;
    if (op) {
      if (op->loc.file < program_.files.size()) {
        where = program_.files[op->loc.file] + ":" + std::to_string(op->loc.line) + ":" +
                std::to_string(op->loc.column) + ": ";
      }
      where += std::string(opName(op->code)) + ": ";
    }
    throw std::runtime_error("bad program: " + where + message);
  }

  void arguments() {
    std::set<std::string> names;
    for (const Argument& argument : program_.arguments) {
      if (!isIdentifier(argument.name))
        fail("an argument's name must match [a-zA-Z_][a-zA-Z0-9_]*, got '" + argument.name + "'");
      if (!names.insert(argument.name).second)
        fail("two arguments are named '" + argument.name + "'");
      define(argument.value, nullptr);
      const Type& type = program_.values[argument.value];
      if (type.kind == TypeKind::tile || type.kind == TypeKind::ptr_tile)
        fail("argument '" + argument.name + "' must be a view, scalar or pointer, got " +
             print(type));
    }
  }

  void require_in_table(const char* what, ValueId id, const Op* op) const {
    if (id >= state_.size())
      fail(what + std::to_string(id) + " is not in the value table of " +
               std::to_string(state_.size()) + " values",
           op);
  }

  void define(ValueId id, const Op* op) {
    require_in_table("value ", id, op);
    if (state_[id] != State::undefined)
      fail("value " + std::to_string(id) + " is defined twice", op);
    state_[id] = State::visible;
    if (op && program_.values[id].kind == TypeKind::view && op->code != OpCode::slice)
      fail("a view must be an argument of the kernel, or a slice of one", op);
  }

  void use(ValueId id, const Op& op) const {
    require_in_table("value ", id, &op);
    if (state_[id] == State::undefined)
      fail("value " + std::to_string(id) + " is used before its definition", &op);
    if (state_[id] == State::ended)
      fail("value " + std::to_string(id) + " is used outside its region", &op);
  }

  // `owner` is the op with the region. It is null for the body, which ends without a yield.
  void region(const Region& region, const Op* owner) {
    for (ValueId id : region.arguments) define(id, owner);
    for (size_t i = 0; i < region.ops.size(); ++i) {
      const Op& op = region.ops[i];
      const bool last = i + 1 == region.ops.size();
      info(op.code);  // throws for an unknown op
      if ((op.code == OpCode::yield) != (owner && last))
        fail(owner ? "a region must have one yield, at its end" : "the body must have no yield",
             &op);
      check(op);
    }
    for (ValueId id : region.arguments) state_[id] = State::ended;
    for (const Op& op : region.ops) {
      for (ValueId id : op.results) state_[id] = State::ended;
    }
  }

  bool givesScalars(const Op& op) const {
    return std::all_of(op.results.begin(), op.results.end(),
                       [&](ValueId id) { return program_.values[id].kind == TypeKind::scalar; });
  }

  void check(const Op& op) {
    if (op.loc.file >= program_.files.size())
      fail("the location has file number " + std::to_string(op.loc.file) + ", expected less than " +
               std::to_string(program_.files.size()),
           &op);
    for (ValueId id : op.operands) use(id, op);
    for (ValueId id : op.results) require_in_table("result value ", id, &op);
    for (const Region& inner : op.regions) {
      for (ValueId id : inner.arguments) require_in_table("region argument value ", id, &op);
    }
    const std::string problem = checkOp(program_, op);
    if (!problem.empty()) fail(problem, &op);
    if (in_combiner_ && !(fitsCombiner(op.code) && givesScalars(op)))
      fail("a combiner must contain only arithmetic on scalars", &op);
    const bool combines = info(op.code).family == Family::reduction;
    for (const Region& inner : op.regions) {
      // Only the else branch of an if without results may be empty.
      if (inner.ops.empty() && inner.arguments.empty() && op.code == OpCode::if_else) continue;
      if (inner.ops.empty()) fail("a region must end in a yield", &op);
      in_combiner_ = combines;
      region(inner, &op);
      in_combiner_ = false;
      const std::string mismatch = checkYield(program_, op, inner);
      if (!mismatch.empty()) fail(mismatch, &op);
    }
    for (ValueId id : op.results) define(id, &op);
  }

  const Program& program_;
  std::vector<State> state_;
  bool in_combiner_ = false;  // one flag suffices: a combiner contains no op with regions
};

}  // namespace

void verify(const Program& program) {
  Verifier(program).run();
}

}  // namespace ligerdsl::program

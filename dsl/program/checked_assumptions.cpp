#include "program/checked_assumptions.h"

#include <utility>

namespace ligerdsl::program {
namespace {

class Rewriter {
 public:
  explicit Rewriter(const Program& program) : result_{program, {}} {
    report_ = value({TypeKind::ptr, DType::i64, {}, {}});
    result_.program.arguments.push_back({free_name(), report_});
  }

  CheckedAssumptions run() && {
    region(result_.program.body);
    return std::move(result_);
  }

 private:
  ValueId value(Type type) {
    result_.program.values.push_back(std::move(type));
    return static_cast<ValueId>(result_.program.values.size() - 1);
  }
  ValueId scalar(DType dtype) { return value({TypeKind::scalar, dtype, {}, {}}); }

  std::string free_name() const {
    std::string name = "broken_assumption";
    for (const Argument& argument : result_.program.arguments) {
      if (argument.name.starts_with(name)) name = argument.name + "_";
    }
    return name;
  }

  void region(Region& region) {
    std::vector<Op> ops = std::exchange(region.ops, {});
    for (Op& op : ops) {
      for (Region& inner : op.regions) this->region(inner);
      if (op.code == OpCode::assume) {
        report_unless(region, op.operands[0], op.loc, "assume: the assumption does not hold");
      } else if (op.code == OpCode::assume_divisible) {
        divisible(region, op);
      } else {
        region.ops.push_back(std::move(op));
      }
    }
  }

  ValueId constant(Region& region, DType dtype, int64_t number, Location loc) {
    const ValueId result = scalar(dtype);
    region.ops.push_back({OpCode::constant, {}, {result}, {{AttrKey::value_int, number}}, {}, loc});
    return result;
  }

  void report_unless(Region& region, ValueId condition, Location loc, const std::string& text) {
    const std::string place = result_.program.files[loc.file] + ":" + std::to_string(loc.line) +
                              ":" + std::to_string(loc.column) + ": error: ";
    result_.reports.push_back(place + text);
    Region holds, broken;
    holds.ops.push_back({OpCode::yield, {}, {}, {}, {}, loc});
    const ValueId number =
        constant(broken, DType::i64, -static_cast<int64_t>(result_.reports.size()), loc);
    broken.ops.push_back({OpCode::store, {report_, number}, {}, {}, {}, loc});
    broken.ops.push_back({OpCode::yield, {}, {}, {}, {}, loc});
    region.ops.push_back(
        {OpCode::if_else, {condition}, {}, {}, {std::move(holds), std::move(broken)}, loc});
  }

  // Replaces the op with a check, and with a value whose divisor the compiler does not know.
  void divisible(Region& region, const Op& op) {
    const DType dtype = result_.program.values[op.operands[0]].dtype;
    const int64_t divisor = op.integer(AttrKey::divisor);
    const ValueId zero = constant(region, dtype, 0, op.loc), whole = scalar(DType::i1);
    ValueId rest = op.operands[0];  // a divisor above INT32_MAX leaves an i32 as the remainder
    if (dtype == DType::i64 || divisor <= INT32_MAX) {
      const ValueId by = constant(region, dtype, divisor, op.loc);
      rest = scalar(dtype);
      region.ops.push_back({OpCode::rem, {op.operands[0], by}, {rest}, {}, {}, op.loc});
    }
    region.ops.push_back({OpCode::compare,
                          {rest, zero},
                          {whole},
                          {{AttrKey::predicate, static_cast<int64_t>(Predicate::eq)}},
                          {},
                          op.loc});
    report_unless(region, whole, op.loc,
                  "assume_divisible: not a multiple of " + std::to_string(divisor));
    region.ops.push_back({OpCode::add, {op.operands[0], zero}, op.results, {}, {}, op.loc});
  }

  CheckedAssumptions result_;
  ValueId report_ = 0;
};

}  // namespace

CheckedAssumptions check_assumptions(const Program& program) {
  return Rewriter(program).run();
}

}  // namespace ligerdsl::program

#include "analysis/lane_cost.h"

#include "program/op_info.h"

namespace ligerdsl::analysis {
namespace {

using program::AttrKey;
using program::Family;
using program::OpCode;

bool is_wide(DType type) {
  return type == DType::i64;
}

LaneCost cast_cost(DType from, DType to) {
  if (from == to) return {};
  if (is_float(from) && is_float(to)) return {1};
  if (is_float(from) != is_float(to)) return {2};  // conversions have half the rate
  return {};  // integers: the value stays in its register, or in one register of an i64
}

LaneCost math_cost(program::MathOp code, bool fast) {
  using program::MathOp;
  switch (code) {
    case MathOp::floor:
    case MathOp::ceil:
    case MathOp::round:
      return {1, 1};
    case MathOp::exp:
      return fast ? LaneCost{2, 1} : LaneCost{6, 1};
    case MathOp::exp2:
      return fast ? LaneCost{1, 1} : LaneCost{4, 1};
    case MathOp::log:
    case MathOp::log2:
      return fast ? LaneCost{2, 1} : LaneCost{14, 1};
    case MathOp::sqrt:
    case MathOp::rsqrt:
      return fast ? LaneCost{1, 1} : LaneCost{8, 1};
    case MathOp::tanh:
      return fast ? LaneCost{1, 1} : LaneCost{14, 2};
    case MathOp::sigmoid:
      return fast ? LaneCost{3, 2} : LaneCost{10, 2};
    case MathOp::erf:
      return {18, 1};
    case MathOp::sin:
    case MathOp::cos:
      return {28};
    case MathOp::log1p:
    case MathOp::expm1:
      return {18, 1};
  }
  return {1};
}

LaneCost arithmetic_cost(const program::Op& op, DType type) {
  const double words = is_wide(type) ? 2 : 1;
  switch (op.code) {
    case OpCode::mul:
      return {is_float(type) ? 1.0 : 2.0};  // integers have half the rate, also for i64
    case OpCode::div:
      if (is_float(type)) return op.integer(AttrKey::fast) ? LaneCost{2, 1} : LaneCost{9, 1};
      return {8 * words};
    default:
      return {words};
  }
}

LaneCost elementwise_cost(const program::Op& op, DType operand, DType result) {
  switch (static_cast<program::ElementwiseOp>(op.code)) {
    case program::ElementwiseOp::cast:
      return cast_cost(operand, result);
    case program::ElementwiseOp::bitcast:
      return {};
    case program::ElementwiseOp::select:
    case program::ElementwiseOp::compare:
      return {is_wide(operand) || is_wide(result) ? 2.0 : 1.0};
    case program::ElementwiseOp::fma:
      return {1};
    case program::ElementwiseOp::pow:
      return {40, 2};
  }
  return {1};
}

}  // namespace

LaneCost lane_cost(const program::Op& op, DType operand, DType result) {
  const program::OpInfo& info = program::info(op.code);
  switch (info.family) {
    case Family::elementwise:
      return elementwise_cost(op, operand, result);
    case Family::arithmetic:
      return arithmetic_cost(op, result);
    case Family::integer:
      if (op.code == OpCode::rem || op.code == OpCode::udiv || op.code == OpCode::urem)
        return {is_wide(result) ? 16.0 : 8.0};
      // Most i64 shifts are by 32 bits. Such a shift only renames registers.
      if (op.code == OpCode::shr || op.code == OpCode::lshr || op.code == OpCode::shl)
        return {is_wide(result) ? 0.0 : 1.0};
      return {is_wide(result) ? 1.0 : 0.5};  // one LOP3 instruction does two logical operations
    case Family::sign:
      return {is_float(result) ? 0.0 : 1.0};  // float: an operand modifier of the next instruction
    case Family::math:
      return math_cost(static_cast<program::MathOp>(op.code), op.integer(AttrKey::fast) != 0);
    case Family::shape:
      if (op.code == OpCode::shuffle_xor || op.code == OpCode::gather) return {2};
      return {};
    case Family::reduction:
      return {op.code == OpCode::scan ? 3.0 : 1.0};
    case Family::creation:
    case Family::contraction:
    case Family::memory:
    case Family::atomic:
    case Family::control:
    case Family::hint:
      return {};
  }
  return {};
}

}  // namespace ligerdsl::analysis

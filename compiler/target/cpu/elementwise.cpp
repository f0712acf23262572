#include "compiler/target/cpu/elementwise.h"

#include "compiler/dialect/tile.h"
#include "compiler/math/fp8.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

static bool isHalf(Type type) {
  return type.isF16() || type.isBF16();
}
static Type elementOf(Type type) {
  return getElementTypeOrSelf(type);
}

// Returns `type` if `like` is a scalar type, else a vector of `type` with the shape of `like`.
static Type withLanes(Type like, Type type) {
  if (auto vector = dyn_cast<VectorType>(like)) return VectorType::get(vector.getShape(), type);
  return type;
}

Type registerType(Type element) {
  if (isHalf(element)) return IntegerType::get(element.getContext(), 16);
  if (isa<tile::PtrType>(element)) return IntegerType::get(element.getContext(), 64);
  return element;
}

Type storageType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : registerType(element);
}

Type registerType(Type element, int64_t lanes) {
  return lanes == 1 ? registerType(element) : VectorType::get({lanes}, registerType(element));
}

Value Registers::integer(Location loc, Type type, int64_t value) {
  TypedAttr attr = b.getIntegerAttr(elementOf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = SplatElementsAttr::get(vector, Attribute(attr));
  return arith::ConstantOp::create(b, loc, attr);
}

Value Registers::constant(Location loc, TypedAttr scalar) {
  if (auto number = dyn_cast<FloatAttr>(scalar); number && isHalf(number.getType()))
    scalar = b.getIntegerAttr(b.getIntegerType(16), number.getValue().bitcastToAPInt());
  return arith::ConstantOp::create(b, loc, scalar);
}

Value Registers::splat(Location loc, Value scalar, int64_t lanes) {
  if (lanes == 1 || isa<VectorType>(scalar.getType())) return scalar;
  auto type = VectorType::get({lanes}, scalar.getType());
  Attribute known;
  if (matchPattern(scalar, m_Constant(&known)))
    return arith::ConstantOp::create(b, loc, SplatElementsAttr::get(type, known));
  Value first = LLVM::InsertElementOp::create(b, loc, LLVM::PoisonOp::create(b, loc, type), scalar,
                                              integer(loc, b.getI64Type(), 0));
  return LLVM::ShuffleVectorOp::create(b, loc, first, first, SmallVector<int32_t>(lanes, 0));
}

//===-- 16-bit floats ---------------------------------------------------------===//

// Rounds f32 to the nearest bf16, ties to even. A NaN keeps its sign and becomes quiet.
Value Registers::narrowBf16(Location loc, Value f32) {
  Type i32 = withLanes(f32.getType(), b.getI32Type()),
       i16 = withLanes(f32.getType(), b.getIntegerType(16));
  Value bits = arith::BitcastOp::create(b, loc, i32, f32), sixteen = integer(loc, i32, 16);
  Value high = arith::ShRUIOp::create(b, loc, bits, sixteen);
  Value odd = arith::AndIOp::create(b, loc, high, integer(loc, i32, 1));
  Value rounded = arith::AddIOp::create(
      b, loc, arith::AddIOp::create(b, loc, bits, integer(loc, i32, 0x7fff)), odd);
  rounded = arith::ShRUIOp::create(b, loc, rounded, sixteen);
  Value quiet = arith::OrIOp::create(b, loc, high, integer(loc, i32, 0x40));
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, f32, f32);
  return arith::TruncIOp::create(b, loc, i16,
                                 arith::SelectOp::create(b, loc, isNan, quiet, rounded));
}

// Uses the hardware conversion if the CPU has F16C, else integer arithmetic. Numbers below 2^-14
// are rounded by adding 0.5 in f32: the last bit of such a sum is 2^-24, as in a subnormal f16.
Value Registers::narrowF16(Location loc, Value f32) {
  Type i32 = withLanes(f32.getType(), b.getI32Type()),
       i16 = withLanes(f32.getType(), b.getIntegerType(16));
  if (hasF16c) {
    Value half = arith::TruncFOp::create(b, loc, withLanes(f32.getType(), b.getF16Type()), f32);
    return arith::BitcastOp::create(b, loc, i16, half);
  }
  Value bits = arith::BitcastOp::create(b, loc, i32, f32);
  Value sign =
      arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, integer(loc, i32, 16)),
                            integer(loc, i32, 0x8000));
  Value size = arith::AndIOp::create(b, loc, bits, integer(loc, i32, 0x7fffffff));
  auto less = [&](int64_t limit) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, size, integer(loc, i32, limit));
  };
  Value odd = arith::AndIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, size, integer(loc, i32, 13)), integer(loc, i32, 1));
  Value normal = arith::AddIOp::create(
      b, loc, arith::AddIOp::create(b, loc, size, integer(loc, i32, int32_t(0xc8000fff))), odd);
  normal = arith::ShRUIOp::create(b, loc, normal, integer(loc, i32, 13));
  Value halfBits = integer(loc, i32, 0x3f000000);
  Value sum = arith::AddFOp::create(b, loc, arith::BitcastOp::create(b, loc, f32.getType(), size),
                                    arith::BitcastOp::create(b, loc, f32.getType(), halfBits));
  Value small = arith::SubIOp::create(b, loc, arith::BitcastOp::create(b, loc, i32, sum), halfBits);
  Value infinite = arith::SelectOp::create(b, loc, less(0x7f800001), integer(loc, i32, 0x7c00),
                                           integer(loc, i32, 0x7e00));
  Value result = arith::SelectOp::create(b, loc, less(0x47800000), normal, infinite);
  result = arith::SelectOp::create(b, loc, less(0x38800000), small, result);
  return arith::TruncIOp::create(b, loc, i16, arith::OrIOp::create(b, loc, result, sign));
}

Value Registers::widenF16(Location loc, Value half) {
  Type f32 = withLanes(half.getType(), b.getF32Type()),
       i32 = withLanes(half.getType(), b.getI32Type());
  if (hasF16c) {
    Value number =
        arith::BitcastOp::create(b, loc, withLanes(half.getType(), b.getF16Type()), half);
    return arith::ExtFOp::create(b, loc, f32, number);
  }
  Value bits = arith::ExtUIOp::create(b, loc, i32, half);
  Value sign =
      arith::ShLIOp::create(b, loc, arith::AndIOp::create(b, loc, bits, integer(loc, i32, 0x8000)),
                            integer(loc, i32, 16));
  Value size =
      arith::ShLIOp::create(b, loc, arith::AndIOp::create(b, loc, bits, integer(loc, i32, 0x7fff)),
                            integer(loc, i32, 13));
  Value isSpecial = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, size,
                                          integer(loc, i32, 0x7c00 << 13));
  Value special = arith::OrIOp::create(b, loc, size, integer(loc, i32, 0x7f800000));
  // Multiplying by 2^112 changes the exponent bias from 15 to 127 and normalises subnormals.
  Value scale = arith::BitcastOp::create(b, loc, f32, integer(loc, i32, (127 + 112) << 23));
  Value scaled = arith::MulFOp::create(b, loc, arith::BitcastOp::create(b, loc, f32, size), scale);
  Value result = arith::SelectOp::create(b, loc, isSpecial, special,
                                         arith::BitcastOp::create(b, loc, i32, scaled));
  return arith::BitcastOp::create(b, loc, f32, arith::OrIOp::create(b, loc, result, sign));
}

Value Registers::toF32(Location loc, Value value, Type element) {
  if (element.isF16()) return widenF16(loc, value);
  if (!element.isBF16()) return value;
  Type i32 = withLanes(value.getType(), b.getI32Type());
  Value bits = arith::ShLIOp::create(b, loc, arith::ExtUIOp::create(b, loc, i32, value),
                                     integer(loc, i32, 16));
  return arith::BitcastOp::create(b, loc, withLanes(value.getType(), b.getF32Type()), bits);
}

Value Registers::fromF32(Location loc, Value value, Type element) {
  if (element.isF16()) return narrowF16(loc, value);
  return element.isBF16() ? narrowBf16(loc, value) : value;
}

//===-- Ops -------------------------------------------------------------------===//

Value Registers::clone(Operation* op, ArrayRef<Value> operands, Type result) {
  Operation* created = Operation::create(op->getLoc(), op->getName(), result, operands,
                                         op->getDiscardableAttrDictionary(),
                                         op->getPropertiesStorage(), BlockRange(), 0);
  return b.insert(created)->getResult(0);
}

// The host's integer division traps if the divisor is zero, or for lowest integer / -1. Lanes after
// the end of a view may hold such operands. Their result is unspecified, but the division must not
// end the process.
Value Registers::divideIntegers(Operation* op, Value a, Value divisor) {
  Location loc = op->getLoc();
  Type type = divisor.getType();
  APInt known;
  bool safe = matchPattern(divisor, m_ConstantInt(&known)) && !known.isZero() && !known.isAllOnes();
  if (!safe) {
    Value one = integer(loc, type, 1);
    Value isZero =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, divisor, integer(loc, type, 0));
    unsigned bits = elementOf(type).getIntOrFloatBitWidth();
    Value isLowest =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, a,
                              integer(loc, type, APInt::getSignedMinValue(bits).getSExtValue()));
    Value isMinusOne =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, divisor, integer(loc, type, -1));
    Value bad =
        arith::OrIOp::create(b, loc, isZero, arith::AndIOp::create(b, loc, isLowest, isMinusOne));
    if (isa<arith::DivUIOp, arith::RemUIOp>(op)) bad = isZero;
    divisor = arith::SelectOp::create(b, loc, bad, one, divisor);
  }
  return clone(op, {a, divisor}, type);
}

// Emits a compare and a select, which become the host's min or max instruction. If either operand
// is NaN, that instruction returns its second operand, but the result must be the NaN.
// - If `other` is a constant except NaN and zero, it becomes the first operand. The instruction
//   then returns a NaN in `a`.
// - Otherwise a second select returns a NaN in `a`. Zeros of both signs compare equal, so a
//   constant zero stays the second operand: max(-0, +0) is +0.
Value Registers::extremum(Operation* op, Value a, Value other) {
  Location loc = op->getLoc();
  auto predicate =
      isa<arith::MaximumFOp>(op) ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
  APFloat limit(0.0f);
  if (matchPattern(other, m_ConstantFloat(&limit)) && !limit.isNaN() && !limit.isZero())
    return arith::SelectOp::create(b, loc, arith::CmpFOp::create(b, loc, predicate, other, a),
                                   other, a);
  Value picked =
      arith::SelectOp::create(b, loc, arith::CmpFOp::create(b, loc, predicate, a, other), a, other);
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, a, a);
  return arith::SelectOp::create(b, loc, isNan, a, picked);
}

Value Registers::emit(Operation* op, ArrayRef<Value> given, int64_t lanes) {
  Location loc = op->getLoc();
  SmallVector<Value> operands;
  for (Value value : given) operands.push_back(splat(loc, value, lanes));
  Type resultElement = elementOf(op->getResult(0).getType());
  Type result = registerType(resultElement, lanes);
  Type source = elementOf(op->getOperand(op->getNumOperands() - 1).getType());

  if (auto addptr = dyn_cast<tile::AddPtrOp>(op)) {
    Type i64 = registerType(b.getI64Type(), lanes);
    Value offset = operands[1].getType() == i64
                       ? operands[1]
                       : arith::ExtSIOp::create(b, loc, i64, operands[1]).getResult();
    Type pointee = cast<tile::PtrType>(resultElement).getElementType();
    int64_t bytes = (pointee.getIntOrFloatBitWidth() + 7) / 8;
    return arith::AddIOp::create(b, loc, operands[0],
                                 arith::MulIOp::create(b, loc, offset, integer(loc, i64, bytes)));
  }
  if (isa<tile::AssumeDivisibleOp>(op)) return operands[0];
  if (isa<arith::SelectOp>(op))
    return arith::SelectOp::create(b, loc, operands[0], operands[1], operands[2]);
  if (isa<arith::ExtFOp>(op)) return toF32(loc, operands[0], source);
  if (isa<arith::TruncFOp>(op)) return fromF32(loc, operands[0], resultElement);
  if (auto decode = dyn_cast<tile::Fp8DecodeOp>(op))
    return fromF32(loc, decodeFp8(b, loc, operands[0], decode.getFormat()), resultElement);
  if (auto encode = dyn_cast<tile::Fp8EncodeOp>(op))
    return encodeFp8(b, loc, toF32(loc, operands[0], source), encode.getFormat());
  if (isa<arith::BitcastOp>(op))  // 16-bit floats are integers in registers
    return operands[0].getType() == result ? operands[0]
                                           : arith::BitcastOp::create(b, loc, result, operands[0]);
  if (isa<arith::DivSIOp, arith::RemSIOp, arith::DivUIOp, arith::RemUIOp>(op))
    return divideIntegers(op, operands[0], operands[1]);
  if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect())) {
    op->emitOpError("has no lowering for the CPU");
    return {};
  }
  for (Value& operand : operands) operand = toF32(loc, operand, source);
  Type computed = isHalf(resultElement) ? withLanes(result, b.getF32Type()) : result;
  Value value = isa<arith::MaximumFOp, arith::MinimumFOp>(op)
                    ? extremum(op, operands[0], operands[1])
                    : clone(op, operands, computed);
  return fromF32(loc, value, resultElement);
}

SmallVector<Value> Registers::combine(Region& combiner, ArrayRef<Value> arguments, int64_t lanes) {
  Block& block = combiner.front();
  llvm::DenseMap<Value, Value> map;
  for (auto [argument, value] : llvm::zip_equal(block.getArguments(), arguments))
    map[argument] = value;
  auto mapped = [&](Value value) {
    Value known = map.lookup(value);
    return known ? known : outer(value);
  };
  for (Operation& op : block.without_terminator()) {
    if (auto number = dyn_cast<arith::ConstantOp>(op)) {
      map[number] = constant(op.getLoc(), number.getValue());
      continue;
    }
    if (op.getNumResults() != 1 || op.getNumRegions() != 0) {
      op.emitOpError("is not supported in a combiner on the CPU: expected elementwise arithmetic");
      return {};
    }
    Value value = emit(&op, llvm::map_to_vector(op.getOperands(), mapped), lanes);
    if (!value) return {};
    map[op.getResult(0)] = value;
  }
  return llvm::map_to_vector(block.getTerminator()->getOperands(), [&](Value value) {
    return splat(value.getLoc(), mapped(value), lanes);
  });
}

Value Registers::identity(Location loc, tile::ReductionKind kind, Type element) {
  bool isMax = kind == tile::ReductionKind::max;
  if (auto type = dyn_cast<FloatType>(element)) {
    const llvm::fltSemantics& semantics = type.getFloatSemantics();
    APFloat value = kind == tile::ReductionKind::sum
                        ? APFloat::getZero(semantics, /*Negative=*/true)
                        : APFloat::getInf(semantics, isMax);
    return constant(loc, b.getFloatAttr(element, value));
  }
  unsigned bits = element.getIntOrFloatBitWidth();
  APInt value = kind == tile::ReductionKind::sum ? APInt::getZero(bits)
                : isMax                          ? APInt::getSignedMinValue(bits)
                                                 : APInt::getSignedMaxValue(bits);
  return constant(loc, b.getIntegerAttr(element, value));
}

//===-- Memory ----------------------------------------------------------------===//

Value Registers::toMemory(Location loc, Value value, Type element) {
  if (!element.isInteger(1)) return value;
  return arith::ExtUIOp::create(b, loc, withLanes(value.getType(), b.getI8Type()), value);
}

Value Registers::fromMemory(Location loc, Value value, Type element) {
  if (!element.isInteger(1)) return value;
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value,
                               integer(loc, value.getType(), 0));
}

}  // namespace ligerdsl::compiler::cpu

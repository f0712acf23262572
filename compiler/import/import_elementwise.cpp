// Imports elementwise ops as arith and math ops on scalars or tiles.
#include "compiler/import/importer.h"

using namespace mlir;

namespace ligerdsl::compiler {

using arith::FastMathFlags;
using program::ArithmeticOp;
using program::AttrKey;
using program::ElementwiseOp;
using program::IntegerOp;
using program::MathOp;
using program::SignOp;

Value Importer::splatConstant(Location loc, Type type, double number) {
  TypedAttr attr = builder.getFloatAttr(getElementTypeOrSelf(type), number);
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    attr = SplatElementsAttr::get(tensor, Attribute(attr));
  return arith::ConstantOp::create(builder, loc, attr);
}

// Returns 1 / (1 + e^-x). The approximate exponential and division keep an absolute error of 1e-6
// and a relative error of 1e-5.
Value Importer::sigmoid(Location loc, Value x) {
  Value one = splatConstant(loc, x.getType(), 1.0);
  Value e = mlir::math::ExpOp::create(builder, loc, arith::NegFOp::create(builder, loc, x),
                                      FastMathFlags::afn);
  Value denominator = arith::AddFOp::create(builder, loc, one, e);
  return arith::DivFOp::create(builder, loc, one, denominator, FastMathFlags::afn);
}

Value Importer::compare(Location loc, int64_t predicate, Value a, Value b) {
  static constexpr arith::CmpFPredicate floats[] = {
      arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE, arith::CmpFPredicate::OLT,
      arith::CmpFPredicate::OLE, arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
  static constexpr arith::CmpIPredicate integers[] = {
      arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,  arith::CmpIPredicate::slt,
      arith::CmpIPredicate::sle, arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge};
  if (isa<FloatType>(getElementTypeOrSelf(a.getType())))
    return arith::CmpFOp::create(builder, loc, floats[predicate], a, b);
  return arith::CmpIOp::create(builder, loc, integers[predicate], a, b);
}

// Converts integers of more than 24 bits to bf16 by way of f32. The first rounding is to odd, so
// that the second one gives the same result as a single rounding.
Value Importer::narrowOnce(Location loc, Value source, Type type) {
  Type integer = source.getType(), f32 = builder.getF32Type(), i32 = builder.getI32Type();
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    f32 = tensor.clone(f32), i32 = tensor.clone(i32);
  const auto constant = [&](Type type, int64_t value) -> Value {
    TypedAttr attr = builder.getIntegerAttr(getElementTypeOrSelf(type), value);
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      attr = SplatElementsAttr::get(tensor, Attribute(attr));
    return arith::ConstantOp::create(builder, loc, attr);
  };
  const auto is = [&](arith::CmpIPredicate predicate, Value a, int64_t b) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, a, constant(a.getType(), b));
  };
  Value nearest = arith::SIToFPOp::create(builder, loc, f32, source);
  Value left = arith::SubIOp::create(builder, loc, source,
                                     arith::FPToSIOp::create(builder, loc, integer, nearest));
  Value bits = arith::BitcastOp::create(builder, loc, i32, nearest);
  Value even =
      is(arith::CmpIPredicate::eq, arith::AndIOp::create(builder, loc, bits, constant(i32, 1)), 0);
  Value moves = arith::AndIOp::create(builder, loc, even, is(arith::CmpIPredicate::ne, left, 0));
  Value outward =
      is(arith::CmpIPredicate::sge, arith::XOrIOp::create(builder, loc, left, source), 0);
  Value step = arith::SelectOp::create(builder, loc, outward, constant(i32, 1), constant(i32, -1));
  Value odd = arith::AddIOp::create(
      builder, loc, bits, arith::SelectOp::create(builder, loc, moves, step, constant(i32, 0)));
  return arith::TruncFOp::create(builder, loc, type,
                                 arith::BitcastOp::create(builder, loc, f32, odd));
}

// Casts between dtypes. i1 converts to 0 or 1, and a number converts to i1 as x != 0.
Value Importer::cast(Location loc, Value source, Type type) {
  Type from = getElementTypeOrSelf(source.getType()), to = getElementTypeOrSelf(type);
  if (from == to) return source;
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(to);
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  if (to.isInteger(1)) {
    TypedAttr zero = builder.getZeroAttr(source.getType());
    return compare(loc, static_cast<int64_t>(program::Predicate::ne), source,
                   arith::ConstantOp::create(builder, loc, zero));
  }
  if (fromFloat && toFloat) {
    if (fromBits < toBits) return arith::ExtFOp::create(builder, loc, type, source);
    if (fromBits > toBits) return arith::TruncFOp::create(builder, loc, type, source);
    Type wide = builder.getF32Type();  // f16 <-> bf16
    if (auto tensor = dyn_cast<RankedTensorType>(type)) wide = tensor.clone(wide);
    return arith::TruncFOp::create(builder, loc, type,
                                   arith::ExtFOp::create(builder, loc, wide, source));
  }
  if (fromFloat) return arith::FPToSIOp::create(builder, loc, type, source);
  if (toFloat) {
    if (from.isInteger(1)) return arith::UIToFPOp::create(builder, loc, type, source);
    if (to.isBF16() && fromBits > 24) return narrowOnce(loc, source, type);
    return arith::SIToFPOp::create(builder, loc, type, source);
  }
  if (fromBits > toBits) return arith::TruncIOp::create(builder, loc, type, source);
  if (from.isInteger(1)) return arith::ExtUIOp::create(builder, loc, type, source);
  return arith::ExtSIOp::create(builder, loc, type, source);
}

FastMathFlags Importer::flags(const program::Op& op) {
  FastMathFlags contract = options.contract && !op.integer(AttrKey::no_contract)
                               ? FastMathFlags::contract
                               : FastMathFlags::none;
  return op.integer(AttrKey::fast) ? FastMathFlags::afn | contract : contract;
}

Value Importer::elementwise(const program::Op& op, Location loc, Type type) {
  SmallVector<Value> v = lookup(op.operands);
  switch (static_cast<ElementwiseOp>(op.code)) {
    case ElementwiseOp::cast: {
      const DType from = program.values[op.operands[0]].dtype,
                  to = program.values[op.results[0]].dtype;
      return is_fp8(from) != is_fp8(to) ? castFp8(loc, v[0], from, to) : cast(loc, v[0], type);
    }
    case ElementwiseOp::bitcast:
      return v[0].getType() == type ? v[0] : arith::BitcastOp::create(builder, loc, type, v[0]);
    case ElementwiseOp::select:
      return arith::SelectOp::create(builder, loc, v[0], v[1], v[2]);
    case ElementwiseOp::compare:
      return compare(loc, op.integer(AttrKey::predicate), v[0], v[1]);
    case ElementwiseOp::fma:
      return mlir::math::FmaOp::create(builder, loc, v[0], v[1], v[2]);
    case ElementwiseOp::pow:
      return mlir::math::PowFOp::create(builder, loc, v[0], v[1]);
  }
  return unknown(op);
}

Value Importer::arithmetic(const program::Op& op, Location loc) {
  Value a = values[op.operands[0]], b = values[op.operands[1]];
  auto create = [&]<typename Float, typename Int>() -> Value {
    if (isa<FloatType>(getElementTypeOrSelf(a.getType())))
      return Float::create(builder, loc, a, b, flags(op));
    return Int::create(builder, loc, a, b);
  };
  switch (static_cast<ArithmeticOp>(op.code)) {
    case ArithmeticOp::add:
      return create.operator()<arith::AddFOp, arith::AddIOp>();
    case ArithmeticOp::sub:
      return create.operator()<arith::SubFOp, arith::SubIOp>();
    case ArithmeticOp::mul:
      return create.operator()<arith::MulFOp, arith::MulIOp>();
    case ArithmeticOp::div:
      return create.operator()<arith::DivFOp, arith::DivSIOp>();
    case ArithmeticOp::min:
      return create.operator()<arith::MinimumFOp, arith::MinSIOp>();
    case ArithmeticOp::max:
      return create.operator()<arith::MaximumFOp, arith::MaxSIOp>();
  }
  return unknown(op);
}

Value Importer::integer(const program::Op& op, Location loc) {
  Value a = values[op.operands[0]], b = values[op.operands[1]];
  switch (static_cast<IntegerOp>(op.code)) {
    case IntegerOp::rem:
      return arith::RemSIOp::create(builder, loc, a, b);
    case IntegerOp::bit_and:
      return arith::AndIOp::create(builder, loc, a, b);
    case IntegerOp::bit_or:
      return arith::OrIOp::create(builder, loc, a, b);
    case IntegerOp::bit_xor:
      return arith::XOrIOp::create(builder, loc, a, b);
    case IntegerOp::shl:
      return arith::ShLIOp::create(builder, loc, a, b);
    case IntegerOp::shr:
      return arith::ShRSIOp::create(builder, loc, a, b);
    case IntegerOp::lshr:
      return arith::ShRUIOp::create(builder, loc, a, b);
    case IntegerOp::udiv:
      return arith::DivUIOp::create(builder, loc, a, b);
    case IntegerOp::urem:
      return arith::RemUIOp::create(builder, loc, a, b);
  }
  return unknown(op);
}

Value Importer::sign(const program::Op& op, Location loc, Type type) {
  Value x = values[op.operands[0]];
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(type));
  switch (static_cast<SignOp>(op.code)) {
    case SignOp::neg:
      if (isFloat) return arith::NegFOp::create(builder, loc, x);
      return arith::SubIOp::create(
          builder, loc, arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type)), x);
    case SignOp::abs:
      if (isFloat) return mlir::math::AbsFOp::create(builder, loc, x);
      return mlir::math::AbsIOp::create(builder, loc, x);
  }
  return unknown(op);
}

Value Importer::math(const program::Op& op, Location loc) {
  Value x = values[op.operands[0]];
  auto create = [&]<typename Math>() -> Value { return Math::create(builder, loc, x, flags(op)); };
  switch (static_cast<MathOp>(op.code)) {
    case MathOp::floor:
      return create.operator()<mlir::math::FloorOp>();
    case MathOp::ceil:
      return create.operator()<mlir::math::CeilOp>();
    case MathOp::round:
      return create.operator()<mlir::math::RoundEvenOp>();
    case MathOp::exp:
      return create.operator()<mlir::math::ExpOp>();
    case MathOp::exp2:
      return create.operator()<mlir::math::Exp2Op>();
    case MathOp::log:
      return create.operator()<mlir::math::LogOp>();
    case MathOp::log2:
      return create.operator()<mlir::math::Log2Op>();
    case MathOp::sqrt:
      return create.operator()<mlir::math::SqrtOp>();
    case MathOp::rsqrt:
      return create.operator()<mlir::math::RsqrtOp>();
    case MathOp::tanh:
      return create.operator()<mlir::math::TanhOp>();
    case MathOp::erf:
      return create.operator()<mlir::math::ErfOp>();
    case MathOp::sigmoid:
      return sigmoid(loc, x);
    case MathOp::sin:
      return create.operator()<mlir::math::SinOp>();
    case MathOp::cos:
      return create.operator()<mlir::math::CosOp>();
    case MathOp::log1p:
      return create.operator()<mlir::math::Log1pOp>();
    case MathOp::expm1:
      return create.operator()<mlir::math::ExpM1Op>();
  }
  return unknown(op);
}

}  // namespace ligerdsl::compiler

// Elementwise ops: arith and math on scalars or tiles.
#include "compiler/import/importer.h"

using namespace mlir;

namespace ligerdsl::compiler {

using arith::FastMathFlags;
using program::AttrKey;
using program::OpCode;

Value Importer::splatConstant(Location loc, Type type, double number) {
  TypedAttr attr = builder.getFloatAttr(getElementTypeOrSelf(type), number);
  if (auto tensor = dyn_cast<RankedTensorType>(type)) attr = SplatElementsAttr::get(tensor, Attribute(attr));
  return arith::ConstantOp::create(builder, loc, attr);
}

// 1 / (1 + e^-x): the approximate exponential and division keep abs 1e-6 and rel 1e-5 over the whole range.
Value Importer::sigmoid(Location loc, Value x) {
  Value one = splatConstant(loc, x.getType(), 1.0);
  Value e = math::ExpOp::create(builder, loc, arith::NegFOp::create(builder, loc, x), FastMathFlags::afn);
  Value denominator = arith::AddFOp::create(builder, loc, one, e);
  return arith::DivFOp::create(builder, loc, one, denominator, FastMathFlags::afn);
}

Value Importer::compare(Location loc, int64_t predicate, Value a, Value b) {
  static constexpr arith::CmpFPredicate floats[] = {arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE,
                                                    arith::CmpFPredicate::OLT, arith::CmpFPredicate::OLE,
                                                    arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
  static constexpr arith::CmpIPredicate integers[] = {arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,
                                                      arith::CmpIPredicate::slt, arith::CmpIPredicate::sle,
                                                      arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge};
  if (isa<FloatType>(getElementTypeOrSelf(a.getType()))) return arith::CmpFOp::create(builder, loc, floats[predicate], a, b);
  return arith::CmpIOp::create(builder, loc, integers[predicate], a, b);
}

// i1 counts as 0 or 1 on the way to any number; any number to i1 asks "is it nonzero".
Value Importer::cast(Location loc, Value source, Type type) {
  Type from = getElementTypeOrSelf(source.getType()), to = getElementTypeOrSelf(type);
  if (from == to) return source;
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(to);
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  if (to.isInteger(1)) {
    TypedAttr zero = builder.getZeroAttr(source.getType());
    return compare(loc, static_cast<int64_t>(program::Predicate::ne), source, arith::ConstantOp::create(builder, loc, zero));
  }
  if (fromFloat && toFloat) {
    if (fromBits < toBits) return arith::ExtFOp::create(builder, loc, type, source);
    if (fromBits > toBits) return arith::TruncFOp::create(builder, loc, type, source);
    Type wide = builder.getF32Type();  // f16 <-> bf16
    if (auto tensor = dyn_cast<RankedTensorType>(type)) wide = tensor.clone(wide);
    return arith::TruncFOp::create(builder, loc, type, arith::ExtFOp::create(builder, loc, wide, source));
  }
  if (fromFloat) return arith::FPToSIOp::create(builder, loc, type, source);
  if (toFloat) {
    if (from.isInteger(1)) return arith::UIToFPOp::create(builder, loc, type, source);
    return arith::SIToFPOp::create(builder, loc, type, source);
  }
  if (fromBits > toBits) return arith::TruncIOp::create(builder, loc, type, source);
  if (from.isInteger(1)) return arith::ExtUIOp::create(builder, loc, type, source);
  return arith::ExtSIOp::create(builder, loc, type, source);
}

Value Importer::elementwise(const program::Op& op, Location loc, Type type) {
  SmallVector<Value> v = lookup(op.operands);
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(v.back().getType()));
  bool fast = op.integer(AttrKey::fast);
  FastMathFlags contract =
      options.contract && !op.integer(AttrKey::no_contract) ? FastMathFlags::contract : FastMathFlags::none;
  FastMathFlags flags = fast ? FastMathFlags::afn | contract : contract;
  auto binary = [&]<typename Float, typename Int>() -> Value {
    if (isFloat) return Float::create(builder, loc, v[0], v[1], flags);
    return Int::create(builder, loc, v[0], v[1]);
  };
  auto unary = [&]<typename Math>() -> Value { return Math::create(builder, loc, v[0], flags); };
  switch (op.code) {
    case OpCode::cast: return cast(loc, v[0], type);
    case OpCode::select: return arith::SelectOp::create(builder, loc, v[0], v[1], v[2]);
    case OpCode::add: return binary.operator()<arith::AddFOp, arith::AddIOp>();
    case OpCode::sub: return binary.operator()<arith::SubFOp, arith::SubIOp>();
    case OpCode::mul: return binary.operator()<arith::MulFOp, arith::MulIOp>();
    case OpCode::div: return binary.operator()<arith::DivFOp, arith::DivSIOp>();
    case OpCode::rem: return binary.operator()<arith::RemFOp, arith::RemSIOp>();
    case OpCode::min: return binary.operator()<arith::MinimumFOp, arith::MinSIOp>();
    case OpCode::max: return binary.operator()<arith::MaximumFOp, arith::MaxSIOp>();
    case OpCode::bit_and: return arith::AndIOp::create(builder, loc, v[0], v[1]);
    case OpCode::bit_or: return arith::OrIOp::create(builder, loc, v[0], v[1]);
    case OpCode::bit_xor: return arith::XOrIOp::create(builder, loc, v[0], v[1]);
    case OpCode::shl: return arith::ShLIOp::create(builder, loc, v[0], v[1]);
    case OpCode::shr: return arith::ShRSIOp::create(builder, loc, v[0], v[1]);
    case OpCode::compare: return compare(loc, op.integer(AttrKey::predicate), v[0], v[1]);
    case OpCode::fma: return math::FmaOp::create(builder, loc, v[0], v[1], v[2]);
    case OpCode::neg:
      if (isFloat) return arith::NegFOp::create(builder, loc, v[0]);
      return arith::SubIOp::create(builder, loc, arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type)), v[0]);
    case OpCode::abs:
      if (isFloat) return math::AbsFOp::create(builder, loc, v[0]);
      return math::AbsIOp::create(builder, loc, v[0]);
    case OpCode::floor: return unary.operator()<math::FloorOp>();
    case OpCode::ceil: return unary.operator()<math::CeilOp>();
    case OpCode::exp: return unary.operator()<math::ExpOp>();
    case OpCode::exp2: return unary.operator()<math::Exp2Op>();
    case OpCode::log: return unary.operator()<math::LogOp>();
    case OpCode::log2: return unary.operator()<math::Log2Op>();
    case OpCode::sqrt: return unary.operator()<math::SqrtOp>();
    case OpCode::rsqrt: return unary.operator()<math::RsqrtOp>();
    case OpCode::tanh: return unary.operator()<math::TanhOp>();
    case OpCode::erf: return unary.operator()<math::ErfOp>();
    default: return sigmoid(loc, v[0]);
  }
}

}  // namespace ligerdsl::compiler

#include "compiler/math/fp8.h"

#include <bit>
#include <cmath>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr int kF32Fraction = 23, kF32Bias = 127, kF32Infinity = 0x7f800000;

// A code has a sign, an exponent and a fraction of `fraction` bits. Its value is 2^(exponent -
// bias) (1 + fraction). Exponent 0 is subnormal: 2^(1 - bias) fraction.
struct Format {
  int fraction, bias;
  int special;    // first code that is NaN or infinite
  float largest;  // largest finite number
  int dropped() const { return kF32Fraction - fraction; }
  int rebias() const { return kF32Bias - bias; }
  // Exponent of the smallest subnormal number.
  int leastExponent() const { return 1 - bias - fraction; }
};

Format formatOf(Type type) {
  if (isa<Float8E5M2Type>(type))
    return {.fraction = 2, .bias = 15, .special = 0x7c, .largest = 57344};
  return {.fraction = 3, .bias = 7, .special = 0x7f, .largest = 448};
}

class Converter {
 public:
  Converter(OpBuilder& builder, Location loc, Type like, Type format)
      : b(loc, builder), i8(like), i32(like), f32(like), format(formatOf(format)) {
    i8 = withElement(like, b.getI8Type()), i32 = withElement(like, b.getI32Type());
    f32 = withElement(like, b.getF32Type());
  }
  Value decode(Value codes);
  Value encode(Value numbers);

 private:
  static Type withElement(Type like, Type element) {
    auto vector = dyn_cast<VectorType>(like);
    return vector ? Type(vector.clone(element)) : element;
  }
  Value constant(Type type, TypedAttr scalar) {
    auto vector = dyn_cast<VectorType>(type);
    return arith::ConstantOp::create(
        b, vector ? SplatElementsAttr::get(vector, Attribute(scalar)) : scalar);
  }
  Value i(int32_t value) { return constant(i32, b.getI32IntegerAttr(value)); }
  Value f(float value) { return constant(f32, b.getF32FloatAttr(value)); }
  Value and_(Value x, int32_t mask) { return arith::AndIOp::create(b, x, i(mask)); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value shiftLeft(Value x, int n) { return arith::ShLIOp::create(b, x, i(n)); }
  Value shiftRight(Value x, int n) { return arith::ShRUIOp::create(b, x, i(n)); }
  Value less(Value x, int32_t limit) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, i(limit));
  }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, c, x, y); }
  Value bits(Value x) { return arith::BitcastOp::create(b, i32, x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(b, f32, x); }

  ImplicitLocOpBuilder b;
  Type i8, i32, f32;
  Format format;
};

Value Converter::decode(Value codes) {
  Value code = arith::ExtUIOp::create(b, i32, codes), size = and_(code, 0x7f);
  Value normal = add(shiftLeft(size, format.dropped()), i(format.rebias() << kF32Fraction));
  // A subnormal number is a multiple of the smallest one. The result is a normal f32 number.
  Value units = arith::SIToFPOp::create(b, f32, size);
  Value small = bits(arith::MulFOp::create(b, units, f(std::ldexp(1.0f, format.leastExponent()))));
  Value number = select(less(size, 1 << format.fraction), small, normal);
  // The largest exponent means infinity or NaN, depending on the fraction. In f8E4M3FN only code
  // 0x7f is special, a NaN.
  Value special = arith::OrIOp::create(b, normal, i(kF32Infinity));
  number = select(less(size, format.special), number, special);
  return fromBits(arith::OrIOp::create(b, number, shiftLeft(and_(code, 0x80), 24)));
}

Value Converter::encode(Value numbers) {
  Value word = bits(numbers), all = and_(word, 0x7fffffff);
  // Positive floats compare like their bits, so an integer minimum clamps.
  Value size = arith::MinSIOp::create(b, all, i(std::bit_cast<int32_t>(format.largest)));
  // Adds half a unit of the last kept bit, minus one if that bit is 0: ties round to even.
  Value odd = and_(shiftRight(size, format.dropped()), 1);
  Value rounded = add(add(size, i((1 << (format.dropped() - 1)) - 1)), odd);
  Value normal = shiftRight(add(rounded, i(-(format.rebias() << kF32Fraction))), format.dropped());
  // The last bit of this f32 is worth the smallest subnormal fp8 number, so the addition rounds to
  // a multiple of that number.
  const int32_t roundingBits = (format.leastExponent() + kF32Fraction + kF32Bias) << kF32Fraction;
  Value sum = arith::AddFOp::create(b, fromBits(size), fromBits(i(roundingBits)));
  Value small = add(bits(sum), i(-roundingBits));
  Value code = select(less(size, (format.rebias() + 1) << kF32Fraction), small, normal);
  code = select(less(all, kF32Infinity + 1), code, i(0x7f));
  code = arith::OrIOp::create(b, code, and_(shiftRight(word, 24), 0x80));
  return arith::TruncIOp::create(b, i8, code);
}

}  // namespace

Value decodeFp8(OpBuilder& builder, Location loc, Value codes, Type format) {
  return Converter(builder, loc, codes.getType(), format).decode(codes);
}

Value encodeFp8(OpBuilder& builder, Location loc, Value numbers, Type format) {
  return Converter(builder, loc, numbers.getType(), format).encode(numbers);
}

}  // namespace ligerdsl::compiler

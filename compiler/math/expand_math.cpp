// Method of each function. P, Q, S, C and W are polynomials, fitted at Chebyshev nodes in 50-digit
// arithmetic. The only exception is log's P without AVX-512, fitted in double precision.
//   exp    x = i ln2 + f, |f| <= ln2/2; polynomial for e^f (nvptx: ex2.approx of f); scaled by 2^i
//   exp2   like exp, without the change of base. The approximate exp2 has a shorter polynomial and
//          one power of two, which is 0 or infinity at the ends of the range
//   log    x = 2^e m, m in [sqrt(1/2), sqrt(2)), with AVX-512 in [3/4, 3/2);
//          log(1 + f) = f - f^2/2 + f^3 P(f)
//          approximate with AVX-512: f + f^2 P(f) with a shorter P; relative error 4e-7, also near
//          1
//   log2   like log, with log2(1 + f) = f log2(e) + f^2 Q(f)
//   tanh   |x| < 0.6: x + x^3 P(x^2); else 1 - 2 / (1 + e^2|x|). On nvptx, a thread whose elements
//          all have |x| < 0.6 skips the second formula
//   sin    x = q pi/2 + r, |r| <= pi/4. For |x| < 2^15 three fmas reduce x. Otherwise 96 bits of
//          2/pi give the last two bits of q and the fraction after them.
//          Then sin r = r + r^3 S(r^2) or cos r = 1 - r^2/2 + r^4 C(r^2)
//   cos    sin of |x| with q + 1
//   log1p  log of u = 1 + x, plus (x - (u - 1)) / u to restore the part of x that rounding u lost
//   expm1  x = n ln2 + r as in exp. The result is 2^n (e^r - 1) + (2^n - 1), computed at half the
//          scale so that 2^128 is finite
//   pow    2^(y log2 |x|), with log2 |x| and its multiple by y as pairs of floats.
//          log(m) = 2s (1 + s^2 W(s^2)) with s = (m - 1) / (m + 1). The last coefficients of W are
//          those of the series. `select` ops return the special values of C's pow
//   erf    |x| < 0.92: x + x P(x^2); else 1 - 2^Q(|x|)
#include "compiler/math/expand_math.h"

#include <limits>
#include <numeric>
#include <optional>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// log2(e) and ln(2), each as a high and a low part.
constexpr float kLog2eHigh = 1.44269502e+00f, kLog2eLow = 1.92596303e-08f;
constexpr float kLn2High = 6.93145752e-01f, kLn2Low = 1.42860677e-06f;
// Adding 1.5 * 2^23 to a float rounds it to an integer in the low bits. Subtracting it again gives
// the integer as a float.
constexpr float kRounder = 12582912.0f;
// 2^r = 1 + r P(r) for |r| <= 1/2.
constexpr float kExp2[] = {6.931471881e-01f, 2.402265076e-01f, 5.550356899e-02f,
                           9.618082371e-03f, 1.339097825e-03f, 1.545326241e-04f};
constexpr float kFastExp2[] = {6.931470037e-01f, 2.402224243e-01f, 5.550733581e-02f,
                               9.671512991e-03f, 1.326472731e-03f};

// Builds the expansion of one op on one type (f32 or a vector of it).
class Expander {
 public:
  Expander(Operation* op, MathFlavor flavor)
      : b(op->getLoc(), op),
        type(op->getOperand(0).getType()),
        integer(b.getI32Type()),
        gpu(flavor == MathFlavor::nvptx),
        avx512(flavor == MathFlavor::avx512) {
    if (auto vector = dyn_cast<VectorType>(type)) integer = vector.clone(integer);
    if (auto flags = dyn_cast<arith::ArithFastMathInterface>(op))
      fast = arith::bitEnumContainsAny(flags.getFastMathFlagsAttr().getValue(),
                                       arith::FastMathFlags::afn);
  }

  Value exp(Value x);
  Value exp2(Value x);
  Value log(Value x);
  Value log2(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value rsqrt(Value x);
  Value sin(Value x);
  Value cos(Value x);
  Value log1p(Value x);
  Value expm1(Value x);
  Value pow(Value x, Value y);
  // Returns x / y to a few ulp. Requires y >= 1, so that a GPU need not scale y.
  Value quotient(Value x, Value y) {
    if (gpu) return mul(x, intrinsic("llvm.nvvm.rcp.approx.ftz.f", y));
    return arith::DivFOp::create(b, x, y, arith::FastMathFlags::afn);
  }

 private:
  using Predicate = arith::CmpFPredicate;

  // Sets `fast` and returns the approximate e^x.
  Value power(Value x) {
    fast = true;
    return exp(x);
  }

  // Emits a branch on a GPU: `small` in threads whose elements of x are all below `limit`, else
  // `any`. The branch pays off because the threads of a warp mostly agree. On a CPU, and for
  // scalars, emits only `any`.
  Value whereAll(Value x, float limit, llvm::function_ref<Value()> small,
                 llvm::function_ref<Value()> any) {
    auto vector = dyn_cast<VectorType>(type);
    if (!gpu || !vector) return any();
    Value largest;
    for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
      Value element = LLVM::ExtractElementOp::create(
          b, x, arith::ConstantOp::create(b, b.getI32IntegerAttr(lane)));
      largest = largest ? Value(arith::MaxNumFOp::create(b, largest, element)) : element;
    }
    Value below =
        arith::CmpFOp::create(b, Predicate::OLT, largest,
                              arith::ConstantOp::create(b, b.getF32FloatAttr(limit)).getResult());
    auto branch = scf::IfOp::create(b, TypeRange(type), below, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(b, small());
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, any());
    return branch.getResult(0);
  }

  TypedAttr splat(TypedAttr scalar, Type of) {
    auto shaped = dyn_cast<ShapedType>(of);
    return shaped ? TypedAttr(SplatElementsAttr::get(shaped, Attribute(scalar))) : scalar;
  }
  Value f(float value) {
    return arith::ConstantOp::create(b, splat(b.getF32FloatAttr(value), type));
  }
  Value i(int32_t value) {
    return arith::ConstantOp::create(b, splat(b.getI32IntegerAttr(value), integer));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
  Value compare(Predicate predicate, Value x, float y) {
    return arith::CmpFOp::create(b, predicate, x, f(y));
  }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, c, x, y); }
  Value bits(Value x) { return arith::BitcastOp::create(b, integer, x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(b, type, x); }
  Value shiftLeft(Value x, int n) { return arith::ShLIOp::create(b, x, i(n)); }
  Value shiftRight(Value x, int n) { return arith::ShRSIOp::create(b, x, i(n)); }
  Value addInt(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value subInt(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  // Clamps that keep NaN: an ordered comparison with NaN is false.
  Value atLeast(Value x, float low) { return select(compare(Predicate::OLT, x, low), f(low), x); }
  Value atMost(Value x, float high) { return select(compare(Predicate::OGT, x, high), f(high), x); }

  Value polynomial(Value x, ArrayRef<float> coefficients) {
    Value sum = f(coefficients.back());
    for (float c : llvm::reverse(coefficients.drop_back())) sum = fma(sum, x, f(c));
    return sum;
  }

  // Calls a scalar nvvm intrinsic for each element of a vector.
  Value intrinsic(StringRef name, Value x) {
    auto call = [&](Value scalar) -> Value {
      return LLVM::CallIntrinsicOp::create(b, b.getF32Type(), b.getStringAttr(name),
                                           ValueRange(scalar))
          .getResult(0);
    };
    auto vector = dyn_cast<VectorType>(type);
    if (!vector) return call(x);
    Value result = LLVM::PoisonOp::create(b, type);
    for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
      Value index = arith::ConstantOp::create(b, b.getI32IntegerAttr(lane));
      Value element = call(LLVM::ExtractElementOp::create(b, x, index));
      result = LLVM::InsertElementOp::create(b, result, element, index);
    }
    return result;
  }

  // Calls an AVX-512 instruction on the operands `xs`. Lanes outside the mask `counts` become 0; a
  // null mask has all lanes. Vectors of fewer than 8 lanes are padded to 8. Vectors of more than 16
  // lanes are split in halves.
  Value onVectors(StringRef name, ArrayRef<Value> xs, std::optional<int32_t> immediate,
                  Value counts = {});

  // Returns 2^n for an integer n in [-126, 127], passed as n + kRounder. Returns 0 for -127 and
  // infinity for 128.
  Value powerOfTwo(Value rounded) {
    return fromBits(addInt(shiftLeft(bits(rounded), 23), i(0x3f800000)));
  }
  // Returns x minus the nearest integer (ties to even), and 0 for infinities.
  Value fractionOf(Value x) { return onVectors("llvm.x86.avx512.mask.reduce.ps", {x}, 8); }
  // Returns x * 2^floor(n), and 0 in lanes masked off by `counts`. An infinite n gives 0 or
  // infinity, even if x is NaN.
  Value scaleBy(Value x, Value n, Value counts = {}) {
    return onVectors("llvm.x86.avx512.mask.scalef.ps", {x, n}, std::nullopt, counts);
  }

  // Returns value * 2^n for n in [-252, 254], passed as n + kRounder. Multiplies twice, so that
  // only a subnormal result is rounded.
  Value scale(Value value, Value rounded) {
    Value n = subInt(bits(rounded), i(0x4b400000));
    Value half = shiftRight(n, 1);
    auto factor = [&](Value m) { return fromBits(addInt(shiftLeft(m, 23), i(0x3f800000))); };
    return mul(mul(value, factor(half)), factor(subInt(n, half)));
  }
  // x = quarters pi/2 + rest, |rest| <= pi/4. Only the last two bits of `quarters` are used.
  struct ReducedAngle {
    Value quarters, rest;
  };
  ReducedAngle reduceSmall(Value x);  // 0 <= x < kLargeAngle
  ReducedAngle reduceLarge(Value x);  // kLargeAngle <= x
  Value sinOf(ReducedAngle angle);
  // Returns sin(magnitude + quarters pi/2), and NaN for infinity.
  Value sinOfMagnitude(Value magnitude, int quarters);
  // x = n ln2 + r, |r| <= ln2 / 2, for finite x. rounded = n + kRounder, lessOne = e^r - 1.
  struct Power {
    Value rounded, n, lessOne;
  };
  Power powerOf(Value x);
  // Sum high + low of two floats, where `low` holds the rounding error of `high`.
  struct Pair {
    Value high, low;
  };
  // Returns large + small + lowPart, where |large| >= |small| and lowPart is small.
  Pair sumOf(Value large, Value small, Value lowPart);
  Pair productOf(Pair x, Pair y);
  // Returns log2 x for positive finite x.
  Pair log2Pair(Value x);
  // Returns 2^t, 0 below the range and infinity above it.
  Value powerOfPair(Pair t);
  Value minusWhereOdd(Value magnitude, Value x, Value odd);
  // Returns log x + `correction`, where null means 0. The correction is added before the last two
  // roundings.
  Value logWith(Value x, Value correction);
  Value shiftRightUnsigned(Value x, Value n) { return arith::ShRUIOp::create(b, x, n); }
  Value and_(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
  Value xor_(Value x, Value y) { return arith::XOrIOp::create(b, x, y); }
  struct Split {
    Value exponent, fraction, normal;  // normal: x, times 2^23 if x is subnormal
  };
  // x = 2^exponent (1 + fraction), fraction in [sqrt(1/2) - 1, sqrt(2) - 1), for positive finite x.
  Split split(Value x);
  // Like split, with AVX-512 instructions: fraction is in [-1/4, 1/2) and normal = x. The exponent
  // is -infinity for 0 and infinity for infinity. The fraction is NaN for NaN and negative x.
  Split splitAvx512(Value x);
  // Returns `result` if `normal` (of a Split) is positive and finite, else -infinity, infinity or
  // NaN.
  Value logLimits(Value normal, Value result);

  ImplicitLocOpBuilder b;
  Type type, integer;
  bool gpu, avx512, fast = false;
};

Value Expander::onVectors(StringRef name, ArrayRef<Value> xs, std::optional<int32_t> immediate,
                          Value counts) {
  auto vector = dyn_cast<VectorType>(xs.front().getType());
  const int64_t lanes = vector ? vector.getNumElements() : 1, width = std::max<int64_t>(lanes, 8);
  if (lanes > 16) {
    SmallVector<Value> halves;
    for (int64_t first : {int64_t{0}, lanes / 2}) {
      SmallVector<int32_t> picked(lanes / 2);
      std::iota(picked.begin(), picked.end(), static_cast<int32_t>(first));
      auto halfOf = [&](Value x) -> Value {
        return LLVM::ShuffleVectorOp::create(b, x, x, picked);
      };
      halves.push_back(onVectors(name, llvm::map_to_vector(xs, halfOf), immediate,
                                 counts ? halfOf(counts) : Value()));
    }
    SmallVector<int32_t> all(lanes);
    std::iota(all.begin(), all.end(), 0);
    return LLVM::ShuffleVectorOp::create(b, halves[0], halves[1], all);
  }
  const Type wide = VectorType::get({width}, b.getF32Type()), mask = b.getIntegerType(width);
  auto widen = [&](Value x) -> Value {
    if (lanes == width) return x;
    const Type element = getElementTypeOrSelf(x.getType());
    const Type padded = VectorType::get({width}, element);
    if (!vector) {
      Value zero = LLVM::ZeroOp::create(b, padded);
      return LLVM::InsertElementOp::create(b, zero, x,
                                           arith::ConstantOp::create(b, b.getI32IntegerAttr(0)));
    }
    SmallVector<int32_t> picked(width, lanes);  // elements after those of x are 0
    std::iota(picked.begin(), picked.begin() + lanes, 0);
    return LLVM::ShuffleVectorOp::create(b, x, LLVM::ZeroOp::create(b, x.getType()), picked);
  };
  SmallVector<Value> operands = llvm::map_to_vector(xs, widen);
  if (immediate) operands.push_back(LLVM::ConstantOp::create(b, b.getI32IntegerAttr(*immediate)));
  operands.push_back(LLVM::ZeroOp::create(b, wide));
  operands.push_back(counts ? Value(LLVM::BitcastOp::create(b, mask, widen(counts)))
                            : Value(LLVM::ConstantOp::create(b, b.getIntegerAttr(mask, -1))));
  constexpr int32_t kCurrentRounding = 4;
  if (width == 16)
    operands.push_back(LLVM::ConstantOp::create(b, b.getI32IntegerAttr(kCurrentRounding)));
  const std::string full = (name + (width == 16 ? ".512" : ".256")).str();
  Value result =
      LLVM::CallIntrinsicOp::create(b, wide, b.getStringAttr(full), operands).getResult(0);
  if (lanes == width) return result;
  if (!vector)
    return LLVM::ExtractElementOp::create(b, result,
                                          arith::ConstantOp::create(b, b.getI32IntegerAttr(0)));
  SmallVector<int32_t> picked(lanes);
  std::iota(picked.begin(), picked.end(), 0);
  return LLVM::ShuffleVectorOp::create(b, result, result, picked);
}

Value Expander::exp(Value x) {
  if (fast) return exp2(mul(x, f(kLog2eHigh)));
  if (gpu) {
    // Clamps the integer part so that its power of two is a normal number. At the ends of the range
    // the fraction holds the rest, and ex2 overflows or underflows by itself.
    Value limited = arith::MinNumFOp::create(
        b, arith::MaxNumFOp::create(b, mul(x, f(kLog2eHigh)), f(-126.0f)), f(127.0f));
    Value rounded = add(limited, f(kRounder));
    Value fraction = fma(x, f(kLog2eHigh), arith::NegFOp::create(b, sub(rounded, f(kRounder))));
    fraction = fma(x, f(kLog2eLow), fraction);
    return mul(intrinsic("llvm.nvvm.ex2.approx.ftz.f32", fraction), powerOfTwo(rounded));
  }
  auto [rounded, n, lessOne] = powerOf(atLeast(atMost(x, 89.0f), -104.0f));
  Value e = add(lessOne, f(1.0f));
  return avx512 ? scaleBy(e, n) : scale(e, rounded);
}

Expander::Power Expander::powerOf(Value x) {
  Value rounded = add(mul(x, f(kLog2eHigh)), f(kRounder));
  Value n = sub(rounded, f(kRounder));
  Value r = fma(n, f(-kLn2High), x);
  r = fma(n, f(-kLn2Low), r);
  Value p = polynomial(r, {5.000000000e-01f, 1.666657606e-01f, 4.166655346e-02f, 8.363333082e-03f,
                           1.392637600e-03f});
  return {rounded, n, fma(mul(r, r), p, r)};
}

// Below -17.5 the result is -1, so x is clamped.
Value Expander::expm1(Value x) {
  auto [rounded, n, lessOne] = powerOf(atLeast(atMost(x, 89.0f), -18.0f));
  Value half = powerOfTwo(sub(rounded, f(1.0f)));
  Value result = fma(half, lessOne, sub(half, f(0.5f)));
  return add(result, result);
}

Value Expander::exp2(Value x) {
  if (gpu) return intrinsic(fast ? "llvm.nvvm.ex2.approx.ftz.f32" : "llvm.nvvm.ex2.approx.f32", x);
  auto mantissa = [&](Value r) {
    ArrayRef<float> p = fast ? ArrayRef(kFastExp2) : ArrayRef(kExp2);
    return fma(r, polynomial(r, p), f(1.0f));
  };
  if (avx512) {
    // scalef is slow if the result is subnormal, so the approximate exp2 masks these lanes.
    Value counts = fast ? compare(Predicate::UGE, x, -126.0f) : Value();
    Value r = fractionOf(x);
    return scaleBy(mantissa(r), sub(x, r), counts);
  }
  Value limited = fast ? atLeast(atMost(x, 128.0f), -127.0f) : atLeast(atMost(x, 129.0f), -151.0f);
  Value rounded = add(limited, f(kRounder));
  Value r = sub(limited, sub(rounded, f(kRounder)));
  return fast ? mul(mantissa(r), powerOfTwo(rounded)) : scale(mantissa(r), rounded);
}

Expander::Split Expander::splitAvx512(Value x) {
  constexpr int32_t kFromThreeQuarters = 3, kNegativeIsNan = 8;
  Value m = onVectors("llvm.x86.avx512.mask.getmant.ps", {x}, kFromThreeQuarters | kNegativeIsNan);
  auto exponentOf = [&](Value v) {
    return onVectors("llvm.x86.avx512.mask.getexp.ps", {v}, std::nullopt);
  };
  return {sub(exponentOf(x), exponentOf(m)), sub(m, f(1.0f)), x};
}

Expander::Split Expander::split(Value x) {
  Value tiny = compare(Predicate::OLT, x, std::numeric_limits<float>::min());
  Value normal = select(tiny, mul(x, f(0x1p23f)), x);
  constexpr int32_t kRootOfHalf = 0x3f3504f3, kExponent = static_cast<int32_t>(0xff800000);
  Value shifted = and_(subInt(bits(normal), i(kRootOfHalf)), i(kExponent));  // exponent << 23
  Value mantissa = fromBits(subInt(bits(normal), shifted));
  Value exponent =
      fma(arith::SIToFPOp::create(b, type, shifted), f(0x1p-23f), select(tiny, f(-23.0f), f(0.0f)));
  return {exponent, sub(mantissa, f(1.0f)), normal};
}

Value Expander::logLimits(Value normal, Value result) {
  if (gpu) {
    // lg2.approx runs on a unit that is otherwise idle. It is finite exactly where `result` is
    // valid, and returns the limits elsewhere. It treats subnormal inputs as 0, but `normal` is
    // never subnormal.
    Value approximate = intrinsic("llvm.nvvm.lg2.approx.ftz.f", normal);
    return select(compare(Predicate::OLT, math::AbsFOp::create(b, approximate), kInfinity), result,
                  approximate);
  }
  Value special = select(compare(Predicate::OLT, normal, 0.0f), f(kNan),
                         select(compare(Predicate::OEQ, normal, 0.0f), f(-kInfinity), normal));
  Value ordinary = arith::AndIOp::create(b, compare(Predicate::OGT, normal, 0.0f),
                                         compare(Predicate::OLT, normal, kInfinity));
  return select(ordinary, result, special);
}

Value Expander::log(Value x) {
  if (gpu && fast) return mul(intrinsic("llvm.nvvm.lg2.approx.ftz.f", x), f(kLn2High + kLn2Low));
  if (avx512 && fast) {
    auto [exponent, r, normal] = splitAvx512(x);
    Value p =
        polynomial(r, {-5.000020862e-01f, 3.333100677e-01f, -2.497680634e-01f, 2.008122057e-01f,
                       -1.735570431e-01f, 1.431383342e-01f, -6.900248677e-02f});
    return fma(exponent, f(kLn2High + kLn2Low), fma(mul(r, r), p, r));
  }
  return logWith(x, Value());
}

Value Expander::log1p(Value x) {
  Value one = f(1.0f), u = add(x, one);
  Value lost = sub(x, sub(u, one));
  return logWith(u, gpu ? mul(lost, intrinsic("llvm.nvvm.rcp.approx.ftz.f", u))
                        : arith::DivFOp::create(b, lost, u, arith::FastMathFlags::afn).getResult());
}

Value Expander::logWith(Value x, Value correction) {
  constexpr float kP[] = {3.333333135e-01f, -2.500081956e-01f, 2.000124156e-01f, -1.662340909e-01f,
                          1.420157999e-01f, -1.315961033e-01f, 1.276221722e-01f, -7.636439055e-02f};
  constexpr float kAvx512P[] = {3.333333315e-01f,  -2.500005671e-01f, 2.000014090e-01f,
                                -1.666081753e-01f, 1.426830597e-01f,  -1.263931114e-01f,
                                1.168068179e-01f,  -9.561340014e-02f, 4.287197804e-02f};
  constexpr float kLn2 = 0x1.62e43p-1f;  // relative error 3e-9
  auto [exponent, r, normal] = avx512 ? splitAvx512(x) : split(x);
  Value p = fma(polynomial(r, avx512 ? ArrayRef(kAvx512P) : ArrayRef(kP)), r, f(-0.5f));
  Value square = mul(r, r);
  Value ofFraction = correction ? add(r, fma(p, square, correction)) : fma(p, square, r);
  Value result = fma(exponent, f(kLn2), ofFraction);
  // log1p needs logLimits, because its correction is NaN at the limits.
  return avx512 && !correction ? result : logLimits(normal, result);
}

Value Expander::log2(Value x) {
  if (gpu && fast) return intrinsic("llvm.nvvm.lg2.approx.ftz.f", x);
  constexpr float kQ[] = {-7.213474865e-01f, 4.808982992e-01f,  -3.606850327e-01f,
                          2.885568231e-01f,  -2.398717397e-01f, 2.049325710e-01f,
                          -1.893909603e-01f, 1.835509873e-01f,  -1.107083373e-01f};
  constexpr float kAvx512Q[] = {-7.213475175e-01f, 4.808992431e-01f,  -3.606759803e-01f,
                                2.884465676e-01f,  -2.401747357e-01f, 2.083028995e-01f,
                                -1.893230943e-01f, 1.532954256e-01f,  -6.835838935e-02f};
  auto [exponent, r, normal] = avx512 ? splitAvx512(x) : split(x);
  Value q = polynomial(r, avx512 ? ArrayRef(kAvx512Q) : ArrayRef(kQ));
  Value tail = fma(mul(r, r), q, mul(r, f(kLog2eLow)));
  Value result = add(exponent, fma(r, f(kLog2eHigh), tail));
  return avx512 ? result : logLimits(normal, result);
}

Value Expander::tanh(Value x) {
  if (gpu && fast) return LLVM::TanhOp::create(b, type, x, LLVM::FastmathFlags::afn);
  constexpr float kSmall = 0.6f;
  Value magnitude = math::AbsFOp::create(b, x);
  const auto small = [&] {
    Value square = mul(x, x);
    Value p = polynomial(square, {-3.333332843e-01f, 1.333271885e-01f, -5.384326318e-02f,
                                  2.096132911e-02f, -6.045165097e-03f});
    return fma(mul(x, square), p, x);
  };
  const auto any = [&] {
    Value e = power(add(magnitude, magnitude));
    Value large = math::CopySignOp::create(b, sub(f(1.0f), quotient(f(2.0f), add(e, f(1.0f)))), x);
    return select(compare(Predicate::OLT, magnitude, kSmall), small(), large);
  };
  return whereAll(magnitude, kSmall, small, any);
}

Value Expander::erf(Value x) {
  Value magnitude = math::AbsFOp::create(b, x), square = mul(x, x);
  Value p = polynomial(square, {1.283791497e-01f, -3.761249299e-01f, 1.128179653e-01f,
                                -2.676556065e-02f, 4.991231234e-03f, -5.979258060e-04f});
  Value small = fma(x, p, x);
  Value q = polynomial(atMost(magnitude, 4.05f),
                       {-8.802577812e-04f, -1.625025411e+00f, -9.211847700e-01f, -1.496145076e-01f,
                        3.284972742e-02f, -5.005056539e-03f, 4.635861239e-04f, -1.945878182e-05f});
  fast = true;  // approximate exp2 suffices: at most 0.2 is subtracted from 1
  Value large = math::CopySignOp::create(b, sub(f(1.0f), exp2(q)), x);
  return select(compare(Predicate::OLT, magnitude, 0.92f), small, large);
}

Value Expander::rsqrt(Value x) {
  if (gpu) return intrinsic(fast ? "llvm.nvvm.rsqrt.approx.ftz.f" : "llvm.nvvm.rsqrt.approx.f", x);
  return arith::DivFOp::create(b, f(1.0f), math::SqrtOp::create(b, x));
}

// Three floats whose sum is pi/2.
constexpr float kHalfPi[] = {1.57079637e+00f, -4.37113883e-08f, -1.71512451e-15f};
constexpr float kLargeAngle = 32768.0f;

// The first fma of the loop is exact if n is at most 2^15.
Expander::ReducedAngle Expander::reduceSmall(Value x) {
  Value rounded = fma(x, f(6.36619772e-01f), f(kRounder));
  Value n = sub(rounded, f(kRounder));
  Value rest = x;
  for (float part : kHalfPi) rest = fma(n, f(-part), rest);
  return {bits(rounded), rest};
}

// Payne-Hanek reduction of x = m 2^(e - 31), where m has 32 bits. Computes 64 bits of x 2/pi, the
// number of quarters: the bits worth 2 and 1, and 62 bits of fraction. Higher bits are multiples of
// 4 quarters. The 64 bits depend on 96 bits of 2/pi, from the bit worth 2^(33 - e) down. Four words
// hold these 96 bits, beginning with the word that contains bit e - 1.
Expander::ReducedAngle Expander::reduceLarge(Value x) {
  constexpr uint32_t kTwoOverPi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                     0xf534ddc0, 0xdb629599, 0x3c439041};
  auto word = [&](uint32_t value) { return i(static_cast<int32_t>(value)); };
  Value at = subInt(shiftRight(bits(x), 23), i(128));  // e - 1, 14 to 127 (x is not negative)
  Value m = arith::OrIOp::create(b, shiftLeft(bits(x), 8), word(0x80000000u));
  Value first = shiftRight(at, 5), by = and_(at, i(31)), rest = subInt(i(31), by);
  SmallVector<Value> words;
  for (int k = 0; k < 4; ++k) {
    Value picked = word(kTwoOverPi[k]);
    for (int from = 1; from < 4; ++from) {
      Value here = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, first, i(from));
      picked = select(here, word(kTwoOverPi[k + from]), picked);
    }
    words.push_back(picked);
  }
  auto window = [&](int k) -> Value {
    Value high = arith::ShLIOp::create(b, words[k], by);
    return arith::OrIOp::create(b, high,
                                shiftRightUnsigned(shiftRightUnsigned(words[k + 1], i(1)), rest));
  };
  auto product = [&](Value y) { return arith::MulUIExtendedOp::create(b, m, y); };
  auto middle = product(window(1));
  Value low = addInt(middle.getLow(), product(window(2)).getHigh());
  Value carry = arith::ExtUIOp::create(
      b, integer, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, low, middle.getLow()));
  Value high = addInt(addInt(middle.getHigh(), arith::MulIOp::create(b, m, window(0))), carry);
  // The nearest quarter, and the signed rest in units of 2^-32. The rest is summed from three
  // floats: its first 24 bits, the next 8 bits, and the 32 bits of `low`.
  Value quarters = shiftRightUnsigned(addInt(high, i(0x20000000)), i(30));
  Value signedRest = arith::OrIOp::create(b, shiftLeft(high, 2), shiftRightUnsigned(low, i(30)));
  Value tail = arith::UIToFPOp::create(b, type, shiftLeft(low, 2));
  Value next = arith::UIToFPOp::create(b, type, and_(signedRest, i(0xff)));
  Value lead = mul(arith::SIToFPOp::create(b, type, and_(signedRest, i(~0xff))), f(0x1p-32f));
  Value small = fma(tail, f(0x1p-64f), mul(next, f(0x1p-32f)));
  return {quarters, fma(lead, f(kHalfPi[0]), fma(lead, f(kHalfPi[1]), mul(small, f(kHalfPi[0]))))};
}

Value Expander::sinOf(ReducedAngle angle) {
  auto [quarters, r] = angle;
  Value square = mul(r, r);
  Value s = polynomial(square,
                       {-1.666666716e-01f, 8.333331905e-03f, -1.984008268e-04f, 2.724931392e-06f});
  Value c = polynomial(square, {4.166666418e-02f, -1.388830016e-03f, 2.454743662e-05f});
  Value sine = fma(mul(r, square), s, r);
  Value cosine = fma(mul(square, square), c, fma(square, f(-0.5f), f(1.0f)));
  Value odd = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, and_(quarters, i(1)), i(0));
  return fromBits(xor_(bits(select(odd, cosine, sine)), shiftLeft(and_(quarters, i(2)), 30)));
}

Value Expander::sinOfMagnitude(Value magnitude, int quarters) {
  const auto more = [&](ReducedAngle angle) -> ReducedAngle {
    return {quarters == 0 ? angle.quarters : addInt(angle.quarters, i(quarters)), angle.rest};
  };
  const auto any = [&] {
    Value isLarge = arith::CmpFOp::create(b, Predicate::OGE, magnitude, f(kLargeAngle));
    const ReducedAngle near = reduceSmall(magnitude), far = reduceLarge(magnitude);
    const Value sine = sinOf(
        more({select(isLarge, far.quarters, near.quarters), select(isLarge, far.rest, near.rest)}));
    return select(compare(Predicate::OLT, magnitude, kInfinity), sine, f(kNan));
  };
  return whereAll(
      magnitude, kLargeAngle, [&] { return sinOf(more(reduceSmall(magnitude))); }, any);
}

Value Expander::cos(Value x) {
  return sinOfMagnitude(math::AbsFOp::create(b, x), 1);
}

Value Expander::sin(Value x) {
  Value sine = sinOfMagnitude(math::AbsFOp::create(b, x), 0);
  return fromBits(xor_(bits(sine), and_(bits(x), i(std::numeric_limits<int32_t>::min()))));
}

Expander::Pair Expander::sumOf(Value large, Value small, Value lowPart) {
  Value high = add(large, small);
  return {high, add(add(sub(large, high), small), lowPart)};
}

Expander::Pair Expander::productOf(Pair x, Pair y) {
  Value high = mul(x.high, y.high);
  Value rest = fma(x.high, y.high, arith::NegFOp::create(b, high));
  return {high, add(rest, fma(x.high, y.low, mul(x.low, y.high)))};
}

Expander::Pair Expander::log2Pair(Value x) {
  constexpr float kThird = 0x1.555556p-2f, kThirdLow = -9.93410776e-09f;
  auto negative = [&](Value value) { return arith::NegFOp::create(b, value).getResult(); };
  auto [exponent, r, normal] = split(x);  // x = 2^exponent (1 + r)
  Value zero = f(0.0f), one = f(1.0f);
  const Pair denominator = sumOf(f(2.0f), r, zero);
  Value inverse = gpu ? intrinsic("llvm.nvvm.rcp.approx.ftz.f", denominator.high)
                      : arith::DivFOp::create(b, one, denominator.high).getResult();
  Value quotient = mul(r, inverse), minus = negative(quotient);
  Value rest = fma(minus, denominator.low, fma(minus, denominator.high, r));
  const Pair s{quotient, mul(rest, inverse)}, square = productOf(s, s);
  Value tail = mul(square.high,
                   polynomial(square.high, {1.0f / 5, 1.0f / 7, 1.0f / 9, 1.0f / 11, 1.0f / 13}));
  const Pair w = productOf(square, sumOf(f(kThird), tail, f(kThirdLow)));
  const Pair scaled = productOf(s, {f(2 * kLog2eHigh), f(2 * kLog2eLow)});
  const Pair log = productOf(scaled, sumOf(one, w.high, w.low));
  return sumOf(exponent, log.high, log.low);
}

Value Expander::powerOfPair(Pair t) {
  constexpr float kBeyond = 160.0f;
  Value size = math::AbsFOp::create(b, t.high);
  // The low part of an infinity is NaN.
  Value low = select(compare(Predicate::OLT, size, kBeyond), t.low, f(0.0f));
  Value limited = atLeast(atMost(t.high, kBeyond), -kBeyond);
  Value rounded = add(limited, f(kRounder));
  Value fraction = add(sub(limited, sub(rounded, f(kRounder))), low);
  return scale(fma(fraction, polynomial(fraction, kExp2), f(1.0f)), rounded);
}

// Returns `magnitude`, with the sign of x if `odd`. Odd powers of -0 and negative x are negative.
Value Expander::minusWhereOdd(Value magnitude, Value x, Value odd) {
  Value sign = and_(bits(x), i(std::numeric_limits<int32_t>::min()));
  return fromBits(arith::OrIOp::create(b, bits(magnitude), select(odd, sign, i(0))));
}

// Special values are those of C. x^0 and 1^y are 1, even for NaN. (-1)^infinity is 1. A finite
// negative x with a fractional y gives NaN. All floats from 2^24 on are even integers.
Value Expander::pow(Value x, Value y) {
  constexpr float kEven = 16777216.0f;
  auto either = [&](Value p, Value q) -> Value { return arith::OrIOp::create(b, p, q); };
  auto both = [&](Value p, Value q) -> Value { return and_(p, q); };
  Value magnitude = math::AbsFOp::create(b, x), size = math::AbsFOp::create(b, y), zero = f(0.0f);
  Value isFinite = compare(Predicate::OLT, magnitude, kInfinity);

  const Pair log = log2Pair(magnitude);
  Value special = select(compare(Predicate::OEQ, magnitude, 0.0f), f(-kInfinity), magnitude);
  Value ordinary = both(isFinite, compare(Predicate::OGT, magnitude, 0.0f));
  Value result = powerOfPair(productOf({select(ordinary, log.high, special), log.low}, {y, zero}));
  result = select(compare(Predicate::OEQ, magnitude, 1.0f), f(1.0f), result);

  Value counted = select(compare(Predicate::OLT, size, kEven), size, f(kEven));
  Value whole = arith::FPToSIOp::create(b, integer, counted);
  Value back = arith::SIToFPOp::create(b, type, whole);
  Value isWhole = arith::CmpFOp::create(b, Predicate::OEQ, back, counted);
  Value lastBit = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, and_(whole, i(1)), i(0));
  result = minusWhereOdd(result, x, both(isWhole, lastBit));

  Value fractional = arith::CmpFOp::create(b, Predicate::UNE, back, counted);
  Value refused = both(both(compare(Predicate::OLT, x, 0.0f), isFinite), fractional);
  Value isNan = arith::CmpFOp::create(b, Predicate::UNO, y, y);
  result = select(either(refused, isNan), f(kNan), result);
  return select(either(compare(Predicate::OEQ, y, 0.0f), compare(Predicate::OEQ, x, 1.0f)), f(1.0f),
                result);
}

using Expansion = Value (Expander::*)(Value);

Expansion expansionOf(Operation* op) {
  if (isa<math::ExpOp>(op)) return &Expander::exp;
  if (isa<math::Exp2Op>(op)) return &Expander::exp2;
  if (isa<math::LogOp>(op)) return &Expander::log;
  if (isa<math::Log2Op>(op)) return &Expander::log2;
  if (isa<math::TanhOp>(op)) return &Expander::tanh;
  if (isa<math::ErfOp>(op)) return &Expander::erf;
  if (isa<math::RsqrtOp>(op)) return &Expander::rsqrt;
  if (isa<math::SinOp>(op)) return &Expander::sin;
  if (isa<math::CosOp>(op)) return &Expander::cos;
  if (isa<math::Log1pOp>(op)) return &Expander::log1p;
  if (isa<math::ExpM1Op>(op)) return &Expander::expm1;
  return nullptr;
}

bool isExpanded(Operation* op) {
  return expansionOf(op) || isa<math::PowFOp>(op);
}

Value expand(Operation* op, MathFlavor flavor) {
  Expander expander(op, flavor);
  if (isa<math::PowFOp>(op)) return expander.pow(op->getOperand(0), op->getOperand(1));
  return (expander.*expansionOf(op))(op->getOperand(0));
}

// Makes a cast saturate on every target. Numbers outside the type's range become its nearest bound,
// and NaN becomes 0.
void saturate(arith::FPToSIOp cast) {
  ImplicitLocOpBuilder b(cast.getLoc(), cast);
  Value x = cast.getIn();
  Type wide = b.getF32Type();
  if (auto vector = dyn_cast<VectorType>(x.getType())) wide = vector.clone(wide);
  if (x.getType() != wide) x = arith::ExtFOp::create(b, wide, x);
  auto call = LLVM::CallIntrinsicOp::create(b, cast.getType(), b.getStringAttr("llvm.fptosi.sat"),
                                            ValueRange(x));
  cast.replaceAllUsesWith(call.getResult(0));
  cast.erase();
}

// Returns true if x is an exponential, a magnitude, a constant >= 0, or a product or minimum of
// such values. Ignores NaN.
bool isNotNegative(Value x) {
  APFloat constant(0.0f);
  if (matchPattern(x, m_ConstantFloat(&constant))) return !constant.isNegative();
  Operation* op = x.getDefiningOp();
  if (isa_and_present<math::ExpOp, math::Exp2Op, math::AbsFOp>(op)) return true;
  return isa_and_present<arith::MulFOp, arith::MinimumFOp>(op) &&
         llvm::all_of(op->getOperands(), isNotNegative);
}

// Returns true for an approximate division by 1 plus a value that is not negative. The constant is
// on the right in canonical form.
bool isByOneOrMore(arith::DivFOp division) {
  if (!arith::bitEnumContainsAny(division.getFastmath(), arith::FastMathFlags::afn)) return false;
  if (auto fma = division.getRhs().getDefiningOp<math::FmaOp>())
    return isNotNegative(fma.getA()) && isNotNegative(fma.getB()) &&
           matchPattern(fma.getC(), m_OneFloat());
  auto sum = division.getRhs().getDefiningOp<arith::AddFOp>();
  return sum && isNotNegative(sum.getLhs()) && matchPattern(sum.getRhs(), m_OneFloat());
}

}  // namespace

LogicalResult expandMath(Operation* root, MathFlavor flavor) {
  SmallVector<Operation*> found;
  SmallVector<arith::DivFOp> quotients;
  SmallVector<arith::FPToSIOp> casts;
  root->walk([&](Operation* op) {
    if (auto cast = dyn_cast<arith::FPToSIOp>(op)) casts.push_back(cast);
    if (isExpanded(op)) found.push_back(op);
    auto division = dyn_cast<arith::DivFOp>(op);
    if (flavor == MathFlavor::nvptx && division && isByOneOrMore(division))
      quotients.push_back(division);
  });
  llvm::for_each(casts, saturate);
  for (arith::DivFOp division : quotients) {
    division.replaceAllUsesWith(
        Expander(division, flavor).quotient(division.getLhs(), division.getRhs()));
    division.erase();
  }
  for (Operation* op : found) {
    Type type = op->getOperand(0).getType();
    if (!getElementTypeOrSelf(type).isF32())
      return op->emitOpError("expected an f32 operand, got ")
             << type << "; convert the operand with .to(f32)";
    Value result = expand(op, flavor);
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
  return success();
}

}  // namespace ligerdsl::compiler

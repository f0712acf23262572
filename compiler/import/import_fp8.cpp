// Imports fp8 constants and casts. An fp8 tile holds 8-bit codes as i8, and only casts interpret
// them.
#include "compiler/import/importer.h"

using namespace mlir;

namespace ligerdsl::compiler {

FloatType Importer::formatOf(DType dtype) {
  if (dtype == DType::f8e5m2) return builder.getType<Float8E5M2Type>();
  return builder.getType<Float8E4M3FNType>();
}

TypedAttr Importer::floatAttr(DType dtype, double number) {
  if (!is_fp8(dtype)) return builder.getFloatAttr(elementType(dtype), number);
  const bool has = std::isnan(number) || (std::isinf(number) && dtype == DType::f8e5m2);
  APFloat code(has ? number : std::clamp(number, -largest_of(dtype), largest_of(dtype)));
  bool inexact = false;
  code.convert(formatOf(dtype).getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
  return builder.getIntegerAttr(builder.getI8Type(), code.bitcastToAPInt());
}

// Casts from or to fp8. Other types are converted through f32, except f16, which represents all fp8
// numbers.
Value Importer::castFp8(Location loc, Value source, DType from, DType to) {
  auto like = [&](Type element) -> Type {
    auto tensor = dyn_cast<RankedTensorType>(source.getType());
    return tensor ? Type(tensor.clone(element)) : element;
  };
  const DType other = is_fp8(from) ? to : from;
  Type direct = like(other == DType::f16 ? Type(builder.getF16Type()) : builder.getF32Type());
  auto format = formatOf(is_fp8(from) ? from : to);
  if (is_fp8(from))
    return cast(loc, tile::Fp8DecodeOp::create(builder, loc, direct, source, format),
                like(elementType(to)));
  return tile::Fp8EncodeOp::create(builder, loc, like(builder.getI8Type()),
                                   cast(loc, source, direct), format);
}

Value Importer::printable(Location loc, program::ValueId id) {
  const DType dtype = program.values[id].dtype;
  return is_fp8(dtype) ? castFp8(loc, values[id], dtype, DType::f32) : values[id];
}

}  // namespace ligerdsl::compiler

#include "ligerdsl/dsl/dot.h"

#include "recorder.h"

namespace ligerdsl {

using detail::fail;

Tile dot(const Tile& a, const Tile& b, const Tile& acc, const DotOptions& options, Loc loc) {
  for (const Tile* tile : {&a, &b})
    detail::require_operand(tile->handle(), program::Dtypes::dot_operands, "dot", loc);
  if (a.dtype() != b.dtype() && !(is_fp8(a.dtype()) && is_fp8(b.dtype())))
    fail(loc, "dot",
         std::string("expected two operands of one dtype, or two of fp8, got ") + name(a.dtype()) +
             " and " + name(b.dtype()) + "; convert one with .to(...)");
  const DType type = a.dtype() == i8 ? i32 : f32;
  detail::Recorder& recorder = detail::require_operand(
      acc.handle(), type == i32 ? program::Dtypes::i32 : program::Dtypes::f32, "dot", loc);
  if (a.rank() != 2 || b.rank() != 2 || a.shape()[1] != b.shape()[0])
    fail(loc, "dot",
         "expected operands of shapes [m, k] and [k, n], got " + detail::to_string(a.shape()) +
             " and " + detail::to_string(b.shape()) + "; transpose one with .permute({1, 0})");
  const Shape shape{a.shape()[0], b.shape()[1]};
  if (acc.shape() != shape)
    fail(loc, "dot",
         "expected an accumulator of shape " + detail::to_string(shape) + ", got " +
             detail::to_string(acc.shape()));
  detail::Attrs attributes;
  if (options.input_precision == InputPrecision::tf32) {
    if (a.dtype() != f32)
      fail(loc, "dot",
           std::string("InputPrecision::tf32 requires f32 operands, got ") + name(a.dtype()) +
               "; omit input_precision");
    attributes.push_back(
        {program::AttrKey::input_precision, static_cast<int64_t>(program::InputPrecision::tf32)});
  }
  return Tile(recorder.emit_one(detail::OpCode::dot, {a.handle(), b.handle(), acc.handle()},
                                detail::tile_type(type, shape), attributes, loc));
}

}  // namespace ligerdsl

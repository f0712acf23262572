// Imports creation, shape, memory, reduction and hint ops.
#include "compiler/compile.h"
#include "compiler/dialect/slice_step.h"
#include "compiler/import/importer.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler {

using program::AttrKey;
using program::CreationOp;
using program::Family;
using program::MemoryOp;
using program::OpCode;
using program::ShapeOp;

void Importer::bind(const program::Op& op, ValueRange results) {
  for (auto [id, value] : llvm::zip_equal(op.results, results)) values[id] = value;
}

Value Importer::toI64(Location loc, Value integer) {
  if (integer.getType().isInteger(64)) return integer;
  return arith::ExtSIOp::create(builder, loc, builder.getI64Type(), integer);
}

// Imports alignment_offset and max_alignment_offset. Both become 0 on a CPU, and if the last axis
// is not contiguous or every row provably begins at a vector boundary.
Value Importer::alignmentOffset(const program::Op& op, Location loc, Type type) {
  Value view = values[op.operands[0]];
  auto viewType = mlir::cast<tile::ViewType>(view.getType());
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value));
  };
  if (options.target != program::Target::nvptx || !tile::rowsMayBeginInsideVectors(viewType))
    return number(0);
  if (op.code == OpCode::max_alignment_offset)
    return number(tile::kVectorBytes / viewType.getElementBytes() - 1);
  SmallVector<Value> indices =
      llvm::map_to_vector(ArrayRef(op.operands).drop_front(),
                          [&](program::ValueId id) { return toI64(loc, values[id]); });
  return tile::AlignmentOffsetOp::create(builder, loc, type, view, indices);
}

Value Importer::creation(const program::Op& op, Location loc, Type type) {
  auto axis = static_cast<uint32_t>(op.integer(AttrKey::axis));
  switch (static_cast<CreationOp>(op.code)) {
    case CreationOp::program_id:
      return tile::ProgramIdOp::create(builder, loc, type, axis);
    case CreationOp::num_programs:
      return tile::NumProgramsOp::create(builder, loc, type, axis);
    case CreationOp::constant:
      return constant(op, loc, type);
    case CreationOp::arange:
      return tile::MakeRangeOp::create(builder, loc, type);
    case CreationOp::dim:
      return tile::DimOp::create(builder, loc, values[op.operands[0]], axis);
    case CreationOp::stride:
      return tile::StrideOp::create(builder, loc, values[op.operands[0]], axis);
    case CreationOp::alignment_offset:
    case CreationOp::max_alignment_offset:
      return alignmentOffset(op, loc, type);
  }
  return unknown(op);
}

Value Importer::constant(const program::Op& op, Location loc, Type type) {
  TypedAttr scalar;
  if (DType dtype = program.values[op.results[0]].dtype; is_float(dtype))
    scalar = floatAttr(dtype, op.number(AttrKey::value_float));
  else
    scalar = builder.getIntegerAttr(getElementTypeOrSelf(type), op.integer(AttrKey::value_int));
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    scalar = SplatElementsAttr::get(tensor, Attribute(scalar));
  return arith::ConstantOp::create(builder, loc, scalar);
}

Value Importer::shape(const program::Op& op, Location loc, Type type) {
  Value source = values[op.operands[0]];
  switch (static_cast<ShapeOp>(op.code)) {
    case ShapeOp::splat:
      return tile::SplatOp::create(builder, loc, type, source);
    case ShapeOp::expand_dims:
      return tile::ExpandDimsOp::create(builder, loc, type, source,
                                        static_cast<uint32_t>(op.integer(AttrKey::axis)));
    case ShapeOp::broadcast:
      return tile::BroadcastOp::create(builder, loc, type, source);
    case ShapeOp::reshape:
      return tile::ReshapeOp::create(builder, loc, type, source);
    case ShapeOp::permute:
      return tile::PermuteOp::create(
          builder, loc, type, source,
          std::get<std::vector<int64_t>>(*op.find(AttrKey::permutation)));
    case ShapeOp::shuffle_xor:
      return tile::ShuffleXorOp::create(builder, loc, type, source,
                                        static_cast<uint32_t>(op.integer(AttrKey::axis)),
                                        static_cast<uint32_t>(op.integer(AttrKey::xor_mask)));
    case ShapeOp::gather:
      return tile::GatherOp::create(builder, loc, type, source, values[op.operands[1]],
                                    static_cast<uint32_t>(op.integer(AttrKey::axis)));
  }
  return unknown(op);
}

// Rounds to 11 bits of significand, ties away from zero, like cvt.rna.tf32.f32 of a GPU. Keeps NaN
// and infinity.
static Value roundedToTf32(OpBuilder& builder, Location loc, Value number) {
  auto tile = cast<RankedTensorType>(number.getType());
  const RankedTensorType words = tile.clone(builder.getI32Type());
  const auto constant = [&](int32_t bits) {
    return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(words, bits));
  };
  constexpr int32_t kHalf = 1 << 12, kKept = ~(2 * kHalf - 1), kExponent = 0x7f800000;
  Value bits = arith::BitcastOp::create(builder, loc, words, number);
  Value nearest = arith::AndIOp::create(
      builder, loc, arith::AddIOp::create(builder, loc, bits, constant(kHalf)), constant(kKept));
  Value isFinite = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::ne,
      arith::AndIOp::create(builder, loc, bits, constant(kExponent)), constant(kExponent));
  return arith::BitcastOp::create(builder, loc, tile,
                                  arith::SelectOp::create(builder, loc, isFinite, nearest, bits));
}

// Imports a dot. A CPU multiplies in f32, or in i32 for i8, so operands are converted before the
// dot.
Value Importer::contraction(const program::Op& op, Location loc, Type type) {
  auto dtypeOf = [&](int number) { return program.values[op.operands[number]].dtype; };
  auto format = [&](int number) {
    const bool coded = is_fp8(dtypeOf(number)) && options.target == program::Target::nvptx;
    return coded ? TypeAttr::get(formatOf(dtypeOf(number))) : TypeAttr();
  };
  auto operand = [&](int number) -> Value {
    Value value = values[op.operands[number]];
    auto tile = mlir::cast<RankedTensorType>(value.getType());
    const bool whole = dtypeOf(number) == DType::i8;
    if (program::roundsToTf32(op) && options.target != program::Target::nvptx)
      return roundedToTf32(builder, loc, value);
    if (whole && options.target != program::Target::nvptx)
      return arith::ExtSIOp::create(builder, loc, tile.clone(builder.getI32Type()), value);
    if (options.target == program::Target::nvptx || tile.getElementType().isF32()) return value;
    if (is_fp8(dtypeOf(number))) return castFp8(loc, value, dtypeOf(number), DType::f32);
    return arith::ExtFOp::create(builder, loc, tile.clone(builder.getF32Type()), value);
  };
  switch (static_cast<program::ContractionOp>(op.code)) {
    case program::ContractionOp::dot: {
      const bool tf32 = program::roundsToTf32(op) && options.target == program::Target::nvptx;
      return tile::DotOp::create(builder, loc, type, operand(0), operand(1), values[op.operands[2]],
                                 format(0), format(1), tf32 ? builder.getUnitAttr() : UnitAttr());
    }
  }
  return unknown(op);
}

void Importer::memory(const program::Op& op, Location loc) {
  SmallVector<Value> operands = lookup(op.operands);
  auto cache = static_cast<tile::CacheHint>(op.integer(AttrKey::cache));
  auto evict = static_cast<tile::EvictHint>(op.integer(AttrKey::evict));
  bool hasMask = op.integer(AttrKey::has_mask);
  auto tileShape = [&] { return std::get<std::vector<int64_t>>(*op.find(AttrKey::tile_shape)); };
  Value alignmentOffset;
  if (op.integer(AttrKey::has_alignment_offset)) {
    auto at = operands.end() - (op.code == OpCode::load_tile ? 1 : 2);
    alignmentOffset = matchPattern(*at, m_Zero()) ? Value() : *at;
    operands.erase(at);
  }
  auto indices = [&](ArrayRef<Value> scalars) {
    return llvm::map_to_vector(scalars, [&](Value v) { return toI64(loc, v); });
  };
  switch (static_cast<MemoryOp>(op.code)) {
    case MemoryOp::load_tile: {
      Type result = typeOf(op.results[0]);
      TypedAttr pad;
      if (double value = op.number(AttrKey::pad); value != 0 || std::signbit(value)) {
        DType dtype = program.values[op.results[0]].dtype;
        pad = is_float(dtype)
                  ? floatAttr(dtype, value)
                  : builder.getIntegerAttr(elementType(dtype), static_cast<int64_t>(value));
      }
      int64_t resident = op.integer(AttrKey::resident);
      bind(op, tile::LoadTileOp::create(
                   builder, loc, result, operands[0], indices(ArrayRef(operands).drop_front()),
                   alignmentOffset, tileShape(), pad, cache, evict,
                   resident ? builder.getI64IntegerAttr(resident) : IntegerAttr())
                   ->getResults());
      return;
    }
    case MemoryOp::store_tile:
    case MemoryOp::add_tile:
      tile::StoreTileOp::create(
          builder, loc, operands.back(), operands[0],
          indices(ArrayRef(operands).drop_front().drop_back()), alignmentOffset, tileShape(), cache,
          evict, op.code == OpCode::add_tile, op.integer(AttrKey::tensor_copies) != 0);
      return;
    case MemoryOp::view_ptr:
      bind(op,
           tile::ViewPtrOp::create(builder, loc, typeOf(op.results[0]), operands[0])->getResults());
      return;
    case MemoryOp::slice: {
      const auto axis = static_cast<uint32_t>(op.integer(AttrKey::axis));
      const int64_t step = op.integer(AttrKey::step, 1);
      const Type sliced =
          tile::sliceType(mlir::cast<tile::ViewType>(operands[0].getType()), axis, step);
      auto slice =
          tile::SliceOp::create(builder, loc, sliced, operands[0], axis, operands[1], operands[2]);
      tile::setStep(slice, step);
      bind(op, slice->getResults());
      return;
    }
    case MemoryOp::addptr:
      bind(op, tile::AddPtrOp::create(builder, loc, typeOf(op.results[0]), operands[0], operands[1])
                   ->getResults());
      return;
    case MemoryOp::load: {
      bool hasOther = op.integer(AttrKey::has_other);
      bind(op, tile::LoadOp::create(builder, loc, typeOf(op.results[0]), operands[0],
                                    hasMask ? operands[1] : Value(),
                                    hasOther ? operands.back() : Value())
                   ->getResults());
      return;
    }
    case MemoryOp::store:
      tile::StoreOp::create(builder, loc, operands[1], operands[0],
                            hasMask ? operands[2] : Value());
      return;
  }
  unknown(op);
}

// Creates the op tile.<name> with the operands in the program's order. The exception is
// tile.atomic_rmw, whose first operand is the value, not the pointer.
void Importer::atomic(const program::Op& op, Location loc) {
  OperationState state(loc, std::string("tile.") + program::opName(op.code));
  if (!state.name.isRegistered()) unknown(op);
  state.addOperands(lookup(op.operands));
  state.addTypes(typeOf(op.results[0]));
  if (op.find(AttrKey::atomic)) {
    std::swap(state.operands[0], state.operands[1]);
    auto kind = static_cast<tile::AtomicKind>(op.integer(AttrKey::atomic));
    state.addAttribute("kind", tile::AtomicKindAttr::get(builder.getContext(), kind));
  }
  bind(op, builder.create(state)->getResults());
}

// Emits the combiner of a named reduction. With `contract`, an addition may fuse with the
// multiplication before it. CPU kernels do not contract: a kernel that works in place fuses other
// loops than one with a separate output, and both must give the same result.
static Value namedCombiner(OpBuilder& builder, Location loc, tile::ReductionKind kind, Value a,
                           Value b, bool contract) {
  bool isFloat = isa<FloatType>(a.getType());
  switch (kind) {
    case tile::ReductionKind::sum:
      if (isFloat)
        return arith::AddFOp::create(
            builder, loc, a, b,
            contract ? arith::FastMathFlags::contract : arith::FastMathFlags::none);
      return arith::AddIOp::create(builder, loc, a, b);
    case tile::ReductionKind::max:
      if (isFloat) return arith::MaximumFOp::create(builder, loc, a, b);
      return arith::MaxSIOp::create(builder, loc, a, b);
    default:
      if (isFloat) return arith::MinimumFOp::create(builder, loc, a, b);
      return arith::MinSIOp::create(builder, loc, a, b);
  }
}

void Importer::reduction(const program::Op& op, Location loc) {
  SmallVector<Value> sources = lookup(op.operands);
  auto kind = static_cast<tile::ReductionKind>(op.integer(AttrKey::reduction));
  auto axis = static_cast<uint32_t>(op.integer(AttrKey::axis));
  SmallVector<Type> types =
      llvm::map_to_vector(op.results, [&](program::ValueId id) { return typeOf(id); });
  auto create = [&]() -> Operation* {
    switch (static_cast<program::ReductionOp>(op.code)) {
      case program::ReductionOp::reduce:
        return tile::ReduceOp::create(builder, loc, types, kind, sources, axis);
      case program::ReductionOp::scan:
        return tile::ScanOp::create(builder, loc, types, kind, sources, axis,
                                    op.integer(AttrKey::reverse) != 0);
    }
    unknown(op);
  };
  Operation* created = create();

  OpBuilder::InsertionGuard guard(builder);
  Block* block = builder.createBlock(&created->getRegion(0));
  for (int side = 0; side < 2; ++side)
    for (Value source : sources) block->addArgument(getElementTypeOrSelf(source.getType()), loc);
  if (kind == tile::ReductionKind::custom) {
    importBlock(op.regions[0], block);
  } else {
    bool contract = options.contract && options.target == program::Target::nvptx;
    Value combined =
        namedCombiner(builder, loc, kind, block->getArgument(0), block->getArgument(1), contract);
    tile::YieldOp::create(builder, loc, combined);
  }
  bind(op, created->getResults());
}

void Importer::hint(const program::Op& op, Location loc) {
  switch (static_cast<program::HintOp>(op.code)) {
    case program::HintOp::assume:
      tile::AssumeOp::create(builder, loc, values[op.operands[0]]);
      return;
    case program::HintOp::assume_divisible:
      bind(op,
           tile::AssumeDivisibleOp::create(builder, loc, typeOf(op.results[0]),
                                           values[op.operands[0]], op.integer(AttrKey::divisor, 1))
               ->getResults());
      return;
    case program::HintOp::device_print:
      tile::PrintOp::create(builder, loc, std::get<std::string>(*op.find(AttrKey::text)),
                            llvm::map_to_vector(op.operands, [&](program::ValueId id) {
                              return printable(loc, id);
                            }));
      return;
  }
  unknown(op);
}

Value Importer::unknown(const program::Op& op) {
  throw CompileError("internal error: the importer has no case for operation " +
                         std::to_string(static_cast<int>(op.code)),
                     /*internal=*/true);
}

void Importer::importOp(const program::Op& op) {
  Location loc = location(op.loc);
  auto resultType = [&] { return typeOf(op.results[0]); };
  switch (program::info(op.code).family) {
    case Family::creation:
      return bind(op, creation(op, loc, resultType()));
    case Family::shape:
      return bind(op, shape(op, loc, resultType()));
    case Family::elementwise:
      return bind(op, elementwise(op, loc, resultType()));
    case Family::arithmetic:
      return bind(op, arithmetic(op, loc));
    case Family::integer:
      return bind(op, integer(op, loc));
    case Family::sign:
      return bind(op, sign(op, loc, resultType()));
    case Family::math:
      return bind(op, math(op, loc));
    case Family::reduction:
      return reduction(op, loc);
    case Family::contraction:
      return bind(op, contraction(op, loc, resultType()));
    case Family::memory:
      return memory(op, loc);
    case Family::atomic:
      return atomic(op, loc);
    case Family::control:
      return controlFlow(op, loc);
    case Family::hint:
      return hint(op, loc);
  }
  unknown(op);
}

}  // namespace ligerdsl::compiler

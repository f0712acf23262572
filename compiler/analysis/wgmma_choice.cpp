#include "compiler/analysis/wgmma_choice.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/layout/swizzle.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

DotShape shapeOf(tile::DotOp dot, const Threads& threads, WarpPart part) {
  auto a = cast<RankedTensorType>(dot.getA().getType()),
       b = cast<RankedTensorType>(dot.getB().getType());
  return {a.getDimSize(0),      b.getDimSize(1), a.getDimSize(1), threads.warps, threads.ctas, part,
          dot.getOperandBytes()};
}

Value unconverted(Value value) {
  while (auto conversion = value.getDefiningOp<tgpu::ConvertLayoutOp>())
    value = conversion.getSource();
  return value;
}

// Returns true if the dot's loop loads the operand ahead, to swizzled rows of shared memory that
// wgmma reads. If `permuted` has a value, the operand must be permuted (true) or not (false).
bool isLoadedAhead(tile::DotOp dot, Value source, std::optional<bool> permuted = std::nullopt) {
  source = unconverted(source);
  auto permute = source.getDefiningOp<tile::PermuteOp>();
  if (permuted && *permuted != static_cast<bool>(permute)) return false;
  if (permute) source = unconverted(permute.getSource());
  auto load = source.getDefiningOp<tile::LoadTileOp>();
  if (!load || load->getParentOp() != dot->getParentOp()) return false;
  const auto type = cast<RankedTensorType>(load.getType());
  if (Swizzle::widest(type.getDimSize(0),
                      type.getDimSize(1) * sharedElementBytes(type.getElementType())) == 0)
    return false;
  auto loop = dyn_cast<scf::ForOp>(load->getParentOp());
  auto stages = loop ? loop->getAttrOfType<IntegerAttr>(tile::kNumStagesAttr) : IntegerAttr();
  return stages && stages.getInt() >= 2;
}

// Returns why wgmma cannot read the operands of an 8-bit or 32-bit dot, or "" if it can. Both must
// be in shared memory, with k along the rows.
std::string reasonNoRowWgmma(tile::DotOp dot) {
  const char* type = dot.isFp8() ? "fp8" : dot.isInt8() ? "i8" : "tf32";
  const int64_t depth = cast<RankedTensorType>(dot.getA().getType()).getDimSize(1);
  const int64_t step = kMmaBytes * 8 / dot.getOperandType().getIntOrFloatBitWidth();
  if (depth % step != 0)
    return llvm::formatv("k = {0}, and {1} operands need a multiple of {2}", depth, type, step)
        .str();
  if (!isLoadedAhead(dot, dot.getA(), false) || !isLoadedAhead(dot, dot.getB(), true))
    return llvm::formatv(
               "{0} operands must be loaded in the dot's pipelined loop, in rows along k of a "
               "multiple of 32 bytes: load A as [m, k], and B as [n, k] with .permute(){1}",
               type, dot.isFp8() ? "; mma.sync computes the dot in f16" : "")
        .str();
  if (dot.getTf32() && !dot->getParentOp()->hasAttr(tile::kTensorCopiesAttr))
    return "wgmma does not round f32 to tf32, and the loop's copies to shared memory do so only "
           "with tensor_copies = true; set it";
  return "";
}

// Returns true if the tile may differ between iterations of the loop that loads it.
bool variesInLoop(Value source) {
  source = unconverted(source);
  if (auto permute = source.getDefiningOp<tile::PermuteOp>())
    source = unconverted(permute.getSource());
  auto load = source.getDefiningOp<tile::LoadTileOp>();
  auto loop = load ? dyn_cast<scf::ForOp>(load->getParentOp()) : scf::ForOp();
  return loop && !llvm::all_of(load.getIndices(),
                               [&](Value index) { return loop.isDefinedOutsideOfLoop(index); });
}

// Returns true if the CTAs of a cluster can share the dot's operands, because TMA copies bring both
// in each iteration.
bool canBeShared(tile::DotOp dot) {
  if (!dot->getParentOp()->hasAttr(tile::kTensorCopiesAttr)) return false;
  return llvm::all_of(ValueRange{dot.getA(), dot.getB()}, [&](Value operand) {
    return isLoadedAhead(dot, operand) && variesInLoop(operand);
  });
}

// Returns true if wgmma can read the operands of an 8-bit or 32-bit dot: both are in slots, with k
// along the rows. The caller has checked that B is in a slot.
bool readsRows(tile::DotOp dot, const OperandPlace& placeOfA, const OperandPlace& placeOfB) {
  const auto a = cast<RankedTensorType>(dot.getA().getType());
  const int64_t bytes = a.getDimSize(1) * a.getElementTypeBitWidth() / 8;
  return bytes % kMmaBytes == 0 && placeOfA.inSlot && !placeOfA.permuted && placeOfB.permuted;
}

}  // namespace

DotLayouts layoutsOf(tile::DotOp dot, const Threads& threads, WarpPart part) {
  const DotShape shape = shapeOf(dot, threads, part);
  if (dot.isIeeeF32()) return threadLayouts(shape);
  const std::optional<DotLayouts> fragments = mmaLayouts(shape);
  return fragments ? *fragments : threadLayouts(shape);
}

std::string reasonNoTensorCores(tile::DotOp dot, const Threads& threads) {
  if (dot.isIeeeF32())
    return "they multiply f16, bf16, fp8, i8 and tf32, not IEEE f32; use InputPrecision::tf32 or "
           "16-bit operands";
  const DotShape shape = shapeOf(dot, threads, WarpPart::square);
  if (mmaLayouts(shape)) return "";
  return llvm::formatv("m = {0}, n = {1} and k = {2} must be multiples of {3}, {4} and {5}",
                       shape.m, shape.n, shape.k, kMmaM, kMmaN, mmaK(shape.bytes))
      .str();
}

bool couldUseWgmma(tile::DotOp dot, const Threads& threads) {
  return !dot.isIeeeF32() && fitsWgmma(shapeOf(dot, threads, WarpPart::group));
}

bool readsSlots(tile::DotOp dot, const Threads& threads) {
  if (threads.ctas > 1 && !canBeShared(dot)) return false;
  if (dot.takesRowsOnly()) return reasonNoRowWgmma(dot).empty();
  return isLoadedAhead(dot, dot.getB());
}

std::string reasonNoWgmma(tile::DotOp dot, const Threads& threads) {
  const DotShape shape = shapeOf(dot, threads, WarpPart::group);
  if (threads.ctas > 1 && !canBeShared(dot))
    return "num_ctas = " + std::to_string(threads.ctas) +
           ", and a cluster needs TMA copies of both operands in each iteration; load both in a "
           "loop with tensor_copies = true";
  if (dot.isInt8() && shape.n <= kMostWgmmaN && !fitsWgmmaColumns(shape))
    return "n = " + std::to_string(shape.n) +
           ", and with i8 operands n above 32 must be a multiple of 16";
  if (!fitsWgmma(shape))
    return llvm::formatv(
               "m = {0} and n = {1} with {2} warps{6}; it needs a multiple of 4 warps, m a "
               "multiple of {3} per warp, "
               "n of at most {4} and at most {5} accumulator elements per thread",
               shape.m, shape.n, threads.warps * threads.ctas, kMmaM, kMostWgmmaN, kMostWgmmaSums,
               threads.ctas > 1 ? " of a cluster, in which m is a power of two" : "")
        .str();
  if (dot.takesRowsOnly()) return reasonNoRowWgmma(dot);
  if (!readsSlots(dot, threads))
    return "B must be a tile that the dot's pipelined loop loads, with rows of a multiple of 32 "
           "bytes";
  return "";
}

bool hasWgmmaLayouts(tile::DotOp dot) {
  const RankedTensorType a = cast<RankedTensorType>(dot.getA().getType());
  const LinearLayout sums = layoutOf(dot.getResult());
  const DotShape shape{sums.shape()[0], sums.shape()[1], a.getDimSize(1),      sums.warps(),
                       sums.ctas(),     WarpPart::group, dot.getOperandBytes()};
  return !dot.isIeeeF32() && fitsWgmma(shape) && mmaLayouts(shape)->acc == sums &&
         mmaLayouts(shape)->a == layoutOf(a);
}

std::string reasonNotInSlots(tile::DotOp dot, llvm::function_ref<OperandPlace(Value)> placeOf,
                             bool roundsF32) {
  const OperandPlace placeOfA = placeOf(dot.getA()), placeOfB = placeOf(dot.getB());
  if (!placeOfB.inSlot) return "B is not staged in shared memory";
  if (dot.getTf32() && !roundsF32)
    return "only TMA copies to shared memory round f32 operands to tf32; use tensor_copies = true";
  if (dot.takesRowsOnly() && !readsRows(dot, placeOfA, placeOfB))
    return "the operands must both be staged in shared memory, with k along their rows";
  return "";
}

}  // namespace ligerdsl::compiler

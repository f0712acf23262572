// Matmuls by wgmma and their waits. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions";
// sm_90a.
//
// One block of inline assembly holds the fence, the wgmma instructions and their commit, so that
// nothing is scheduled between them. The accumulator is a tied operand of this block and of the
// wait: it stays in its registers, and code that reads it stays after the wait.
#include "compiler/analysis/shared_buffer.h"
#include "compiler/layout/dot_layout.h"
#include "compiler/layout/wgmma_descriptor.h"
#include "compiler/target/nvptx/buffer_access.h"
#include "compiler/target/nvptx/dot_fragments.h"
#include "compiler/target/nvptx/memory_access.h"
#include "compiler/target/nvptx/shuffle.h"
#include "compiler/target/nvptx/slot_operand.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Inline assembly that updates accumulator registers in place. These registers are its first
// operands. With `fresh`, it only writes them.
class AccumulatorAssembly {
 public:
  AccumulatorAssembly(ThreadLowering& t, ArrayRef<Value> acc, bool fresh = false)
      : t(t), type(acc.front().getType()), count(acc.size()), fresh(fresh) {
    if (!fresh) llvm::append_range(operands, acc);
  }

  // Returns the constraint of an accumulator register, f32 or i32.
  const char* constraint() const { return type.isInteger() ? "r" : "f"; }
  std::string operand(Value value, StringRef constraint) {
    operands.push_back(value);
    constraints += "," + constraint.str();
    return "$" + std::to_string(operands.size() - 1 + count);
  }
  void line(const std::string& text) { lines += text + ";\n"; }
  SmallVector<Value> emit() {
    std::string all, tied;
    for (size_t i = 0; i < count; ++i) {
      // `&`: a fresh accumulator is written while operands are still read.
      all += std::string(i ? "," : "") + (fresh ? "=&" : "=") + constraint();
      if (!fresh) tied += "," + std::to_string(i);
    }
    Type result =
        LLVM::LLVMStructType::getLiteral(t.b.getContext(), SmallVector<Type>(count, type));
    Value changed = inlinePtx(t, result, operands, lines, all + tied + constraints + ",~{memory}");
    SmallVector<Value> results;
    for (size_t i = 0; i < count; ++i)
      results.push_back(LLVM::ExtractValueOp::create(t.b, t.loc, changed, int64_t(i)));
    return results;
  }

 private:
  ThreadLowering& t;
  Type type;
  SmallVector<Value> operands;
  size_t count;  // accumulator registers
  bool fresh;
  std::string lines, constraints;
};

// Part of a slot, as an operand of wgmma.
class SlotOperand {
 public:
  // Largest address in a descriptor, in units of 16 bytes.
  static constexpr int64_t kMostAddress = 0x3fff;

  SlotOperand(ThreadLowering& t, TypedValue<tgpu::RingType> ring, Value slot, uint32_t part,
              bool transposed)
      : t(t), operand(operandOf(ring.getType().part(part), transposed)) {
    const int64_t bytes = bufferBytes(ring.getType().part(part));
    address = sharedAddress(t, bufferPart(t, t.pieces(ring)[part], t.scalar(slot), bytes));
  }
  // Advances the address to the rows of this warp group; each group has `rows` rows. A shuffle of
  // the group's number shows ptxas that the number, and thus each descriptor, is uniform in a warp.
  void moveToRowsOfGroup(int64_t rows) {
    constexpr int64_t kGroupBits = 7;  // bits of a thread's number inside a warp group
    Value group = arith::ShRUIOp::create(t.b, t.loc, t.threadInCta(), t.constant(kGroupBits));
    group = fromFirstOf(t, group, program::kWarpThreads - 1);
    Value bytes = arith::MulIOp::create(t.b, t.loc, group, t.constant(operand.offset(rows, 0)));
    address = arith::AddIOp::create(t.b, t.loc, address, bytes);
  }
  Value descriptor(int64_t row, int64_t k) {
    if (!first) {
      Value place = arith::ShRUIOp::create(t.b, t.loc, address, t.constant(4));
      // In a cluster, addresses contain the CTA's rank in bits that descriptors use for other
      // fields.
      if (t.options.num_ctas > 1)
        place = arith::AndIOp::create(t.b, t.loc, place, t.constant(kMostAddress));
      place = arith::ExtUIOp::create(t.b, t.loc, t.b.getI64Type(), place);
      first = arith::OrIOp::create(t.b, t.loc, place,
                                   t.constant(static_cast<int64_t>(operand.descriptor()), 64));
    }
    return arith::AddIOp::create(t.b, t.loc, first,
                                 t.constant(operand.offset(row, k) / Swizzle::kUnit, 64));
  }
  const char* transposed() const { return operand.transposed ? "1" : "0"; }

 private:
  static WgmmaOperand operandOf(tgpu::MemDescType part, bool transposed) {
    return {Swizzle(part.getShape()[0], part.getSwizzle()), transposed,
            sharedElementBytes(part.getElementType())};
  }
  ThreadLowering& t;
  WgmmaOperand operand;
  Value address, first;
};

// Appends the accumulator registers of the 64 rows from `row`, in the order of the instruction's
// operands.
void addRegisters(const LinearLayout& layout, int64_t row, SmallVectorImpl<int64_t>& registers) {
  for (int64_t column = 0; column < layout.shape()[1]; column += kMmaN)
    for (int64_t down : {0, 8})
      for (int64_t right : {0, 1})
        registers.push_back(*layout.registerAt({row + down, column + right}));
}

// Returns the name of an operand's type in the instruction.
StringRef typeName(Type element, TypeAttr format) {
  if (format) return isa<Float8E5M2Type>(format.getValue()) ? "e5m2" : "e4m3";
  if (element.isInteger(8)) return "s8";
  if (element.isF32()) return "tf32";
  return element.isF16() ? "f16" : "bf16";
}

std::string operandsFrom(int64_t first, int64_t count) {
  std::string text = "{";
  for (int64_t i = 0; i < count; ++i) text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

LogicalResult lowerWgmma(ThreadLowering& t, tgpu::WgmmaOp op) {
  if (!t.arch().wgmma) return op.emitOpError("expected target sm_90a, got ") << t.options.arch;
  const LinearLayout layout = layoutOf(op.getAcc());
  const tgpu::MemDescType part = op.getRing().getType().part(op.getPartB());
  const Type element = part.getElementType();
  const bool wide = element.getIntOrFloatBitWidth() == 16,
             integer = element.isInteger(8) && !op.getFormatB();
  if (!wide && op.getA() && !operandInSlot(op.getA()))
    return op.emitOpError("expected operand a in shared memory, got it in registers: wgmma reads ")
           << element << " operands from shared memory only";
  const int64_t n = layout.shape()[1], depth = part.getShape()[op.getPermutedB() ? 1 : 0];
  const int64_t groups = layout.warps() / kGroupWarps,
                powerOfTwo = (layout.shape()[0] & -layout.shape()[0]) / layout.ctas();

  SmallVector<int64_t> blocks, registers;  // first rows of blocks of 64 rows; accumulator registers
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    const LinearLayout::Coordinates at = layout.coordinates({reg, 0, 0, 0});
    if (at[0] % kWgmmaM != 0 || at[1] != 0) continue;
    blocks.push_back(at[0]);
    addRegisters(layout, at[0], registers);
  }
  const SmallVector<Value> elements = t.elements(op.getAcc());
  // A zero accumulator is not passed in registers, because ptxas would wait for wgmmas in flight
  // before it zeroes these registers.
  const bool fresh =
      matchPattern(op.getAcc(), m_PosZeroFloat()) || matchPattern(op.getAcc(), m_Zero());
  AccumulatorAssembly assembly(
      t, llvm::map_to_vector(registers, [&](int64_t reg) { return elements[reg]; }), fresh);

  SlotOperand b(t, op.getRing(), op.getSlot(), op.getPartB(), !op.getPermutedB());
  std::optional<SlotOperand> a;
  std::optional<TileElements> held;
  if (op.getPartA())
    a.emplace(t, op.getRing(), op.getSlot(), *op.getPartA(), op.getPermutedA());
  else if (auto read = operandInSlot(op.getA()))
    a.emplace(t, read.getRing(), read.getSlot(), read.getPart(), /*transposed=*/false);
  if (a) {
    if (groups > 1) a->moveToRowsOfGroup(powerOfTwo / groups);
  } else {
    held.emplace(t, op.getA());
  }
  const int64_t step = kMmaBytes / sharedElementBytes(element);
  const std::string opcode =
      ("wgmma.mma_async.sync.aligned.m64n" + Twine(n) + "k" + Twine(step) +
       (integer ? ".s32." : ".f32.") + typeName(element, op.getFormatAAttr()) + "." +
       typeName(element, op.getFormatBAttr()) + " ")
          .str();
  const std::string adds = assembly.operand(t.constant(1, 1), "b"),
                    begins = fresh ? assembly.operand(t.constant(0, 1), "b") : adds;
  assembly.line("wgmma.fence.sync.aligned");
  for (auto [number, row] : llvm::enumerate(blocks))
    for (int64_t k = 0; k < depth; k += step) {
      std::string operandA, transposed;
      if (a) {
        operandA = assembly.operand(a->descriptor(row, k), "l");
        transposed = std::string(", ") + a->transposed();
      } else {
        for (Value pair : fragmentOf(t, *held, row, k))
          operandA += (operandA.empty() ? "{" : ", ") + assembly.operand(pair, "r");
        operandA += "}";
      }
      const int64_t count = n / 2;  // accumulator registers per thread: 64 n elements, 128 threads
      assembly.line(opcode + operandsFrom(number * count, count) + ", " + operandA + ", " +
                    assembly.operand(b.descriptor(0, k), "l") + ", " + (k == 0 ? begins : adds) +
                    (integer ? "" : ", 1, 1") + (wide ? transposed + ", " + b.transposed() : ""));
    }
  assembly.line("wgmma.commit_group.sync.aligned");
  SmallVector<Value> results(elements.size());
  for (auto [reg, sum] : llvm::zip_equal(registers, assembly.emit())) results[reg] = sum;
  t.defineElements(op, results);
  return success();
}

// Makes operand A's registers inputs of the wait, so that they keep their values while a wgmma in
// flight reads them.
void keepRows(ThreadLowering& t, tgpu::WgmmaOp product, AccumulatorAssembly& assembly) {
  if (!product.getA() || operandInSlot(product.getA())) return;
  const TileElements held(t, product.getA());
  const LinearLayout& layout = held.layout;
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    const LinearLayout::Coordinates at = layout.coordinates({reg, 0, 0, 0});
    if (at[0] % kMmaM != 0 || at[1] % mmaK(2) != 0) continue;
    for (Value pair : fragmentOf(t, held, at[0], at[1])) assembly.operand(pair, "r");
  }
}

// Keeps computations that overlap wgmmas in flight before the wait, for example row maxima and row
// sums that the loop carries. To ptxas the wait has no operands, so ptxas would move the wait up to
// the wgmma. But ptxas moves no wait across a branch. This emits a sleep whose predicate depends on
// the carried values; ptxas implements the predicate by a branch. The sleep would be harmless. It
// never runs, because no arithmetic returns a NaN with these bits.
void keepBeforeWait(ThreadLowering& t, tgpu::WgmmaOp product, tgpu::WgmmaWaitOp op) {
  constexpr int64_t kMostRegisters = 4, kNoNumber = 0x7fbadbad;
  Value all;
  for (Value carried : op->getBlock()->getTerminator()->getOperands()) {
    Operation* made = carried.getDefiningOp();
    auto tile = dyn_cast<RankedTensorType>(carried.getType());
    if (!made || made->getBlock() != op->getBlock() || !product->isBeforeInBlock(made) ||
        !made->isBeforeInBlock(op))
      continue;
    if (!tile || !tile.getElementType().isF32() || t.layout(tile).registers() > kMostRegisters)
      continue;
    for (Value element : t.elements(carried))
      all = all ? arith::AddFOp::create(t.b, t.loc, all, element) : element;
  }
  if (!all) return;
  Value bits = t.bitcast(all, t.b.getI32Type());
  Value never =
      arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, bits, t.constant(kNoNumber));
  inlinePtx(t, {}, {never}, "@$0 nanosleep.u32 1;", "b,~{memory}");
}

LogicalResult lowerWait(ThreadLowering& t, tgpu::WgmmaWaitOp op) {
  auto product = op.getAcc().getDefiningOp<tgpu::WgmmaOp>();
  const bool later = product && product->getNextNode() != op;
  if (later) keepBeforeWait(t, product, op);
  AccumulatorAssembly assembly(t, t.elements(op.getAcc()));
  if (later) keepRows(t, product, assembly);
  assembly.line("wgmma.wait_group.sync.aligned " + std::to_string(op.getPending()));
  t.defineElements(op, assembly.emit());
  return success();
}

}  // namespace

void addWgmmaLowerings(LoweringTable& table) {
  table.add<tgpu::WgmmaOp, lowerWgmma>();
  table.add<tgpu::WgmmaWaitOp, lowerWait>();
}

}  // namespace ligerdsl::compiler::nvptx

#include "compiler/target/cpu/split_masked.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/InstSimplifyFolder.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

namespace ligerdsl::compiler::cpu {

namespace {

using Builder = llvm::IRBuilder<llvm::InstSimplifyFolder>;

llvm::SmallVector<int> lanesFrom(unsigned begin, unsigned count) {
  return llvm::to_vector(
      llvm::map_range(llvm::seq(begin, begin + count), [](unsigned lane) { return int(lane); }));
}

bool isConstant(llvm::Value* mask, bool active) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  return constant && (active ? constant->isAllOnesValue() : constant->isNullValue());
}

llvm::Value* lanesOf(Builder& b, llvm::Value* vector, unsigned begin, unsigned count) {
  return b.CreateShuffleVector(vector, lanesFrom(begin, count));
}

// Returns lanes [begin, begin + count) of a mask, simplified. A shuffle of the whole mask could
// hide a constant until instruction selection.
llvm::Value* maskLanes(Builder& b, llvm::Value* mask, unsigned begin, unsigned count) {
  const auto lanes = [&](llvm::Value* part) { return maskLanes(b, part, begin, count); };
  auto* op = llvm::dyn_cast<llvm::BinaryOperator>(mask);
  if (op && op->isBitwiseLogicOp())
    return b.CreateBinOp(op->getOpcode(), lanes(op->getOperand(0)), lanes(op->getOperand(1)));
  if (auto* select = llvm::dyn_cast<llvm::SelectInst>(mask)) {
    llvm::Value* condition = select->getCondition();
    if (condition->getType()->isVectorTy()) condition = lanes(condition);
    return b.CreateSelect(condition, lanes(select->getTrueValue()), lanes(select->getFalseValue()));
  }
  return lanesOf(b, mask, begin, count);
}

llvm::Value* concat(Builder& b, llvm::ArrayRef<llvm::Value*> parts, unsigned count) {
  llvm::SmallVector<llvm::Value*> rest(parts);
  for (; rest.size() > 1; count *= 2) {
    llvm::SmallVector<llvm::Value*> pairs;
    for (size_t k = 0; k < rest.size(); k += 2)
      pairs.push_back(b.CreateShuffleVector(rest[k], rest[k + 1], lanesFrom(0, 2 * count)));
    rest = pairs;
  }
  return rest[0];
}

// A masked load or store, and the parts of its mask.
struct Access {
  llvm::IntrinsicInst* call;
  // `other` is the pass-through value of a load or the stored value of a store.
  llvm::Value *pointer, *mask, *other;
  llvm::Align align;
  uint64_t bits = 0;   // bits per element
  unsigned count = 0;  // lanes per part
  llvm::SmallVector<llvm::Value*> masks;
};

llvm::Value* emitPart(Builder& b, const Access& access, unsigned part) {
  const unsigned begin = part * access.count;
  auto* whole = llvm::cast<llvm::FixedVectorType>(access.other->getType());
  llvm::Type* type = llvm::FixedVectorType::get(whole->getElementType(), access.count);
  const uint64_t offset = begin * access.bits / 8;
  llvm::Value* pointer = b.CreateConstGEP1_64(b.getInt8Ty(), access.pointer, offset);
  const llvm::Align align = llvm::commonAlignment(access.align, offset);
  llvm::Value *mask = access.masks[part], *other = lanesOf(b, access.other, begin, access.count);
  const bool load = access.call->getIntrinsicID() == llvm::Intrinsic::masked_load;
  if (isConstant(mask, false)) return load ? other : nullptr;
  if (isConstant(mask, true))
    return load ? static_cast<llvm::Value*>(b.CreateAlignedLoad(type, pointer, align))
                : b.CreateAlignedStore(other, pointer, align);
  return load ? b.CreateMaskedLoad(type, pointer, align, mask, other)
              : b.CreateMaskedStore(other, pointer, align, mask);
}

std::optional<Access> accessOf(llvm::Instruction& instruction) {
  auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  if (!call) return {};
  const bool load = call->getIntrinsicID() == llvm::Intrinsic::masked_load;
  if (!load && call->getIntrinsicID() != llvm::Intrinsic::masked_store) return {};
  const unsigned pointer = load ? 0 : 1;
  Access access{call, call->getArgOperand(pointer), call->getArgOperand(load ? 1 : 2),
                call->getArgOperand(load ? 2 : 0), call->getParamAlign(pointer).valueOrOne()};
  return access;
}

}  // namespace

llvm::PreservedAnalyses SplitMasked::run(llvm::Function& function,
                                         llvm::FunctionAnalysisManager& analyses) {
  const uint64_t registerBits =
      analyses.getResult<llvm::TargetIRAnalysis>(function)
          .getRegisterBitWidth(llvm::TargetTransformInfo::RGK_FixedWidthVector)
          .getFixedValue();
  const llvm::DataLayout& layout = function.getDataLayout();
  bool changed = false;
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    std::optional<Access> access = accessOf(instruction);
    if (!access) continue;
    auto* type = llvm::cast<llvm::FixedVectorType>(access->other->getType());
    access->bits = layout.getTypeSizeInBits(type->getElementType());
    access->count = static_cast<unsigned>(registerBits / access->bits);
    const unsigned lanes = type->getNumElements();
    if (access->count == 0 || access->count >= lanes || !llvm::isPowerOf2_32(lanes)) continue;
    changed = true;  // maskLanes may add instructions
    Builder b(instruction.getParent(), instruction.getIterator(), llvm::InstSimplifyFolder(layout));
    b.SetCurrentDebugLocation(instruction.getDebugLoc());
    for (unsigned begin = 0; begin < lanes; begin += access->count)
      access->masks.push_back(maskLanes(b, access->mask, begin, access->count));
    if (llvm::none_of(access->masks,
                      [](llvm::Value* mask) { return llvm::isa<llvm::Constant>(mask); }))
      continue;
    llvm::SmallVector<llvm::Value*> parts;
    for (unsigned part = 0; part < access->masks.size(); ++part)
      parts.push_back(emitPart(b, *access, part));
    if (!instruction.getType()->isVoidTy())
      instruction.replaceAllUsesWith(concat(b, parts, access->count));
    instruction.eraseFromParent();
  }
  return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
}

}  // namespace ligerdsl::compiler::cpu

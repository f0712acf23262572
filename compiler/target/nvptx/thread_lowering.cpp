#include "compiler/target/nvptx/thread_lowering.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/refusal.h"
#include "compiler/target/nvptx/affine_tile.h"
#include "compiler/target/nvptx/memory_access.h"
#include "compiler/target/nvptx/ptx_emitter.h"
#include "compiler/target/nvptx/tensor_maps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Returns the alignment of shared memory in bytes: the largest that a buffer or ring needs.
int64_t sharedAlignment(func::FuncOp kernel) {
  int64_t most = kLeastAlignment;
  kernel.walk([&](tgpu::RingOp ring) {
    for (Type part : ring.getType().getParts())
      most = std::max(most, bufferAlignment(cast<tgpu::MemDescType>(part)));
  });
  kernel.walk(
      [&](tgpu::LocalAllocOp alloc) { most = std::max(most, bufferAlignment(alloc.getType())); });
  return most;
}

}  // namespace

const LoweringTable& LoweringTable::get() {
  static const LoweringTable table = [] {
    LoweringTable all;
    addControlFlowLowerings(all);
    addShapeLowerings(all);
    addGatherLowerings(all);
    addCastLowerings(all);
    addFp8Lowerings(all);
    addViewLowerings(all);
    addPointerLowerings(all);
    addAtomicLowerings(all);
    addReduceLowerings(all);
    addDotLowerings(all);
    addWgmmaLowerings(all);
    addSharedLowerings(all);
    addTensorStoreLowerings(all);
    addMbarrierLowerings(all);
    addRingLowerings(all);
    addClusterExchangeLowerings(all);
    addDebugLowerings(all);
    addOverlapLowerings(all);
    return all;
  }();
  return table;
}

ThreadLowering::ThreadLowering(func::FuncOp kernel, const program::CompileOptions& options)
    : b(kernel.getContext()),
      options(options),
      loc(kernel.getLoc()),
      affine(std::make_unique<AffineTiles>()),
      kernel(kernel) {}

ThreadLowering::~ThreadLowering() = default;

//===-- Values --===//

const Pieces& ThreadLowering::pieces(Value tile) const {
  auto found = values.find(tile);
  assert(found != values.end() && "operands are lowered before their users");
  return found->second;
}

void ThreadLowering::define(Value original, Pieces pieces) {
  values[original] = std::move(pieces);
}

Value ThreadLowering::extract(Value piece, int64_t index) {
  if (!isa<VectorType>(piece.getType())) return piece;
  if (auto known = packed.find(piece); known != packed.end()) return known->second[index];
  return LLVM::ExtractElementOp::create(b, loc, piece, constant(index));
}

SmallVector<Value> ThreadLowering::elements(Value tile) {
  SmallVector<Value> result;

  Pieces list = pieces(tile);
  for (Value piece : list) {
    auto vector = dyn_cast<VectorType>(piece.getType());
    for (int64_t i = 0, n = vector ? vector.getNumElements() : 1; i < n; ++i)
      result.push_back(extract(piece, i));
  }
  return result;
}

// Returns the existing vector whose elements are exactly `elements`, in order, or null.
static Value wholeVector(ArrayRef<Value> elements) {
  Value source;
  for (auto [i, element] : llvm::enumerate(elements)) {
    auto extract = element.getDefiningOp<LLVM::ExtractElementOp>();
    if (!extract || (source && extract.getVector() != source)) return {};
    APInt index;
    if (!matchPattern(extract.getPosition(), m_ConstantInt(&index)) || index != i) return {};
    source = extract.getVector();
  }
  auto vector = dyn_cast<VectorType>(source.getType());
  return vector && vector.getNumElements() == int64_t(elements.size()) ? source : Value();
}

Value ThreadLowering::pack(ArrayRef<Value> elements) {
  if (elements.size() == 1) return elements[0];
  if (Value whole = wholeVector(elements)) return whole;
  auto type = VectorType::get(elements.size(), elements[0].getType());
  Value vector = LLVM::PoisonOp::create(b, loc, type);
  for (auto [i, element] : llvm::enumerate(elements))
    vector = LLVM::InsertElementOp::create(b, loc, vector, element, constant(i));
  packed[vector] = SmallVector<Value>(elements);
  return vector;
}

void ThreadLowering::defineElements(Value tile, ArrayRef<Value> elements) {
  auto tensor = dyn_cast<RankedTensorType>(tile.getType());
  int64_t width = tensor ? layout(tensor).width : 1;
  Pieces pieces;
  for (size_t i = 0; i < elements.size(); i += width)
    pieces.push_back(pack(elements.slice(i, width)));
  define(tile, std::move(pieces));
}

//===-- Types and layouts --===//

Type ThreadLowering::elementType(Type type) const {
  type = getElementTypeOrSelf(type);
  if (isa<tile::PtrType>(type)) return IntegerType::get(type.getContext(), 64);
  return type;
}

Type ThreadLowering::pieceType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor) return elementType(type);
  int64_t width = layout(tensor).width;
  if (width == 1) return elementType(type);
  return VectorType::get(width, elementType(type));
}

int64_t ThreadLowering::pieceCount(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? layout(tensor).pieces() : 1;
}

// Returns true if registers and threads change different bits of every coordinate.
static bool registersAreDisjoint(const LinearLayout& map) {
  for (int dim = 0; dim < map.rank(); ++dim) {
    int64_t registers = 0, threads = 0;
    for (const auto& basis : map.bases(Axis::reg)) registers |= basis[dim];
    for (Axis axis : {Axis::lane, Axis::warp, Axis::cta})
      for (const auto& basis : map.bases(axis)) threads |= basis[dim];
    if (registers & threads) return false;
  }
  return true;
}

const ThreadLayout& ThreadLowering::layout(RankedTensorType type) {
  // The key includes the shape: tiles of several shapes may have one layout attribute, but
  // different numbers of copies.
  Attribute key =
      TypeAttr::get(RankedTensorType::get(type.getShape(), b.getI1Type(), type.getEncoding()));
  std::unique_ptr<ThreadLayout>& entry = layouts[key];
  if (entry) return *entry;
  LinearLayout map = layoutOf(type);
  int64_t width = std::min<int64_t>(map.contiguous(), kMaxWidth);
  bool disjoint = registersAreDisjoint(map);
  SmallVector<Value> origin;
  for (int dim = 0; dim < map.rank(); ++dim) origin.push_back(threadCoordinate(map, dim));
  entry = std::make_unique<ThreadLayout>(
      ThreadLayout{std::move(map), width, disjoint, std::move(origin)});
  return *entry;
}

// Computes the coordinate of this thread's register 0. Consecutive thread bits that add consecutive
// powers of two form one field of the thread id: ((tid >> t) & mask) * 2^j.
Value ThreadLowering::threadCoordinate(const LinearLayout& map, int dim) {
  SmallVector<int64_t> moves;
  for (Axis axis : {Axis::lane, Axis::warp, Axis::cta})
    for (const auto& basis : map.bases(axis)) moves.push_back(basis[dim]);
  moves.resize(llvm::Log2_64(numThreads()), 0);  // the layout of one CTA's part has no CTA bits
  return atEntry([&] {
    Value sum;
    int64_t used = 0;
    for (size_t t = 0; t < moves.size();) {
      size_t n = 1;
      if (moves[t] == 0) {
        ++t;
        continue;
      }
      while (llvm::isPowerOf2_64(moves[t]) && t + n < moves.size() && moves[t + n] == moves[t] << n)
        ++n;
      Value field = t ? arith::ShRUIOp::create(b, loc, tid, constant(t)) : tid;
      if (t + n < moves.size())
        field = arith::AndIOp::create(b, loc, field, constant((int64_t(1) << n) - 1));
      if (moves[t] != 1) field = arith::MulIOp::create(b, loc, field, constant(moves[t]));
      int64_t bits = moves[t] * ((int64_t(1) << n) - 1);
      if (!sum)
        sum = field;
      else if (used & bits)
        sum = arith::XOrIOp::create(b, loc, sum, field);
      else
        sum = arith::AddIOp::create(b, loc, sum, field);
      used |= bits;
      t += n;
    }
    return sum ? sum : constant(0);
  });
}

Coordinate ThreadLowering::coordinate(const ThreadLayout& layout, int64_t reg, int dim) {
  Place place;
  place.reg = reg;
  int64_t offset = layout.map.coordinates(place)[dim];
  if (layout.disjoint || offset == 0) return {layout.origin[dim], offset};
  int64_t bits = int64_t(1) << splitOdd(layout.map.shape()[dim]).second;
  int64_t linear = offset % bits;
  Value moved = arith::XOrIOp::create(b, loc, layout.origin[dim], constant(linear));
  return {moved, offset - linear};
}

Value ThreadLowering::inCluster(Value thread) {
  if (!rank) return thread;
  Value before = arith::MulIOp::create(b, loc, rank, constant(int64_t{32} * options.num_warps));
  return arith::AddIOp::create(b, loc, before, thread);
}

// `lower` may use the constants of the enclosing entry. Values that are cached while `lower` runs
// do not dominate the code after it, so the caches are restored.
LogicalResult ThreadLowering::withOwnThread(llvm::function_ref<LogicalResult()> lower) {
  const auto outside = std::tuple(tid, inCta, sharedBase, knownZero, entryEnd);
  const auto constantsOutside = constants;
  const auto masksOutside = std::exchange(maskPredicates, decltype(maskPredicates)());
  auto layoutsOutside = std::exchange(layouts, decltype(layouts)());
  inCta = inlinePtx(*this, b.getI32Type(), {}, "mov.u32 $0, %tid.x;", "=r");
  tid = inCluster(inCta);
  entryEnd = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
  const LogicalResult result = lower();
  std::tie(tid, inCta, sharedBase, knownZero, entryEnd) = outside;
  constants = constantsOutside;
  maskPredicates = masksOutside;
  layouts = std::move(layoutsOutside);
  return result;
}

//===-- Small code --===//

Value ThreadLowering::constant(int64_t value, int bits) {
  Value& cached = constants[{value, bits}];
  if (!cached)
    cached = atEntry([&]() -> Value {
      return arith::ConstantOp::create(b, kernel.getLoc(),
                                       b.getIntegerAttr(b.getIntegerType(bits), value));
    });
  return cached;
}

Value ThreadLowering::zero(Type type) {
  return arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
}

Value ThreadLowering::threadMaskIsZero(int64_t mask) {
  Value& cached = maskPredicates[mask];
  if (!cached)
    cached = atEntry([&]() -> Value {
      Value bits = arith::AndIOp::create(b, kernel.getLoc(), tid, constant(mask));
      return arith::CmpIOp::create(b, kernel.getLoc(), arith::CmpIPredicate::eq, bits, constant(0));
    });
  return cached;
}

Value ThreadLowering::ownerPredicate(const ThreadLayout& layout, Within within) {
  BitMasks redundant = layout.map.redundant();
  int64_t mask = redundant.lane | redundant.warp << 5;
  if (within == Within::cluster) mask |= redundant.cta * 32 * options.num_warps;
  return mask ? threadMaskIsZero(mask) : Value();
}

Value ThreadLowering::threadField(int64_t bit, int64_t bits) {
  return atEntry([&]() -> Value {
    Value field = bit ? Value(arith::ShRUIOp::create(b, kernel.getLoc(), tid, constant(bit))) : tid;
    return arith::AndIOp::create(b, kernel.getLoc(), field, constant((int64_t(1) << bits) - 1));
  });
}

Value ThreadLowering::both(Value a, Value c) {
  if (!a) return c;
  if (!c) return a;
  return arith::AndIOp::create(b, loc, a, c);
}

Value ThreadLowering::bitcast(Value value, Type type) {
  if (value.getType() == type) return value;
  return LLVM::BitcastOp::create(b, loc, type, value);
}

Value ThreadLowering::sharedPointer(int64_t offset) {
  if (!sharedBase) {
    constexpr StringLiteral name = "ligerdsl_shared";
    auto array = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(module().getBody());
      LLVM::GlobalOp::create(b, kernel.getLoc(), array, /*isConstant=*/false,
                             LLVM::Linkage::External, name, Attribute(), sharedAlignment(kernel),
                             kSharedSpace);
    }
    sharedBase = atEntry([&]() -> Value {
      return LLVM::AddressOfOp::create(
          b, kernel.getLoc(), LLVM::LLVMPointerType::get(b.getContext(), kSharedSpace), name);
    });
  }
  if (offset == 0) return sharedBase;
  return LLVM::GEPOp::create(b, loc, sharedBase.getType(), b.getI8Type(), sharedBase,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
}

bool ThreadLowering::hasBulkCopies() const {
  return arch().bulk_copies;
}

Value ThreadLowering::opaqueZero() {
  if (knownZero) return knownZero;
  return knownZero = atEntry([&]() -> Value {
           int64_t slot = 0;
           for (Type type : kernel.getArgumentTypes()) {
             auto view = dyn_cast<tile::ViewType>(type);
             if (!view || view.getRank() == 0) {
               slot += 1;
               continue;
             }
             Value size = function.getBody().front().getArgument(slot + 1);
             Value sign = arith::ShRUIOp::create(b, loc, size, constant(63, 64));
             return arith::TruncIOp::create(b, loc, b.getI32Type(), sign);
           }
           return constant(0);
         });
}

Value ThreadLowering::opaqueLaneZero() {
  return arith::AndIOp::create(b, loc, opaqueZero(), threadId());
}

Value ThreadLowering::stackSlot(int64_t bytes) {
  return atEntry([&]() -> Value {
    return LLVM::AllocaOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), b.getI8Type(),
                                  constant(std::max<int64_t>(bytes, 8)), /*alignment=*/8);
  });
}

// Allocates the word at the function's entry, so that all iterations of a loop with an entry of its
// own (withOwnThread) use the same word.
Value ThreadLowering::stackWord() {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(functionEntryEnd);
  Value one = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(1));
  Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
  Value word = LLVM::AllocaOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()),
                                      b.getI32Type(), one);
  LLVM::StoreOp::create(b, loc, zero, word);
  return word;
}

//===-- The walk --===//

// Emits the op for every element. LLVM selects mul.wide.u32 for a 64-bit product only if the
// operands are scalars. For vectors it multiplies twice, for the low and for the high words.
static LogicalResult lowerByElement(ThreadLowering& t, Operation* op) {
  SmallVector<SmallVector<Value>> from;
  size_t count = 1;
  for (Value operand : op->getOperands()) {
    from.push_back(t.elements(operand));
    if (count != 1 && from.back().size() != 1 && from.back().size() != count)
      return op->emitOpError("expected operands of one layout, got ")
             << count << " and " << from.back().size() << " elements per thread";
    count = std::max(count, from.back().size());
  }
  Type result = t.elementType(getElementTypeOrSelf(op->getResult(0).getType()));
  SmallVector<Value> elements;
  for (size_t i = 0; i < count; ++i) {
    SmallVector<Value> operands;
    for (const auto& all : from) operands.push_back(all.size() == 1 ? all[0] : all[i]);
    Operation* element =
        t.b.create(op->getLoc(), op->getName().getIdentifier(), operands, result, op->getAttrs());
    elements.push_back(element->getResult(0));
  }
  t.defineElements(op->getResult(0), elements);
  return success();
}

// Emits the op for every piece. A scalar operand, such as the condition of arith.select, is the
// operand of all these ops.
static LogicalResult lowerElementwise(ThreadLowering& t, Operation* op) {
  if (op->getNumResults() != 1) return op->emitOpError("has no lowering for this target");
  if (t.wideProducts.contains(op)) return lowerByElement(t, op);
  Type result = t.pieceType(op->getResult(0).getType());
  int64_t count = t.pieceCount(op->getResult(0).getType());
  Pieces pieces;
  for (int64_t i = 0; i < count; ++i) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      const Pieces& from = t.pieces(operand);
      if (from.size() != 1 && int64_t(from.size()) != count)
        return op->emitOpError("expected operands of one layout, got ")
               << count << " and " << from.size() << " pieces per thread";
      operands.push_back(from.size() == 1 ? from[0] : from[i]);
    }
    Operation* piece =
        t.b.create(op->getLoc(), op->getName().getIdentifier(), operands, result, op->getAttrs());
    pieces.push_back(piece->getResult(0));
  }
  t.define(op->getResult(0), std::move(pieces));
  return success();
}

// Rejects tiles that are too large for a thread. They would fail later and more slowly: LLVM would
// take too long, or the assembler would spill.
static LogicalResult checkTileSizes(ThreadLowering& t, Operation* op) {
  constexpr int64_t kMost = 4096;
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor) continue;
    int64_t registers = t.layout(tensor).registers();
    if (registers > kMost) {
      markRefused(op);
      return op->emitOpError("makes a tile of ")
             << tensor.getNumElements() << " elements, " << registers
             << " in each thread; expected at most " << kMost
             << "; use smaller tiles or more warps (num_warps is " << t.numWarps() << ")";
    }
  }
  return success();
}

LogicalResult ThreadLowering::lowerOp(Operation* op) {
  loc = op->getLoc();
  if (failed(checkTileSizes(*this, op))) return failure();
  if (affine->lowerEquality(*this, op)) return success();
  LowerFunction lower = LoweringTable::get().find(op);
  if (!lower && op->hasTrait<OpTrait::Elementwise>()) lower = lowerElementwise;
  if (!lower) return op->emitOpError("has no lowering for this target");
  if (failed(lower(*this, op))) return failure();
  affine->note(*this, op);
  return success();
}

LogicalResult ThreadLowering::lowerBlock(Block& block) {
  for (Operation& op : block.without_terminator())
    if (failed(lowerOp(&op))) return failure();
  return success();
}

// Clones a combiner's op and folds it. A value that is constant in all partial results, for example
// their element count, then stays constant through the reduction.
static void cloneFolded(OpBuilder& b, Operation& op, IRMapping& mapping) {
  Operation* copy = b.clone(op, mapping);
  SmallVector<Value> folded;
  if (op.getNumResults() == 0 || failed(b.tryFold(copy, folded))) return;
  if (folded.empty() || folded[0].getDefiningOp() == copy) return;  // folded in place
  mapping.map(op.getResults(), ValueRange(folded));
  copy->erase();
}

// Lowers a combiner's tile-dialect op by its registered function, which also works on scalars.
static void lowerScalars(ThreadLowering& t, Operation& op, IRMapping& mapping) {
  for (Value operand : op.getOperands()) t.define(operand, {mapping.lookup(operand)});
  LogicalResult lowered = LoweringTable::get().find(&op)(t, &op);
  assert(succeeded(lowered) && "casts of scalars always lower");
  (void)lowered;
  for (Value result : op.getResults()) mapping.map(result, t.scalar(result));
}

SmallVector<Value> ThreadLowering::inlineCombiner(Region& region, ArrayRef<Value> arguments) {
  IRMapping mapping;
  Block& block = region.front();
  mapping.map(block.getArguments(), ValueRange(arguments));
  // Values from outside the region are scalars of the kernel.
  for (Operation& op : block)
    for (Value operand : op.getOperands())
      if (operand.getParentRegion() != &region && !mapping.contains(operand))
        mapping.map(operand, scalar(operand));
  for (Operation& op : block.without_terminator()) {
    if (isa<tile::TileDialect>(op.getDialect()))
      lowerScalars(*this, op, mapping);
    else
      cloneFolded(b, op, mapping);
  }
  return llvm::map_to_vector(block.getTerminator()->getOperands(),
                             [&](Value v) { return mapping.lookup(v); });
}

// Marks a tensor map parameter as passed by value and read in place (__grid_constant__).
static void addMapAttributes(LLVM::LLVMFuncOp function, size_t parameter) {
  constexpr int64_t kBytes = 128, kAlignment = 64;  // size and alignment of a CUtensorMap
  OpBuilder b(function.getContext());
  function.setArgAttr(parameter, LLVM::LLVMDialect::getByValAttrName(),
                      TypeAttr::get(LLVM::LLVMArrayType::get(b.getI8Type(), kBytes)));
  function.setArgAttr(parameter, LLVM::LLVMDialect::getAlignAttrName(),
                      b.getI64IntegerAttr(kAlignment));
  function.setArgAttr(parameter, NVVM::NVVMDialect::getGridConstantAttrName(), b.getUnitAttr());
}

Value ThreadLowering::tensorMap(const program::TensorMap& map) {
  return mapAddresses[llvm::find(maps, map) - maps.begin()];
}

// Creates the kernel function. It has one i64 parameter per launch slot, then the tensor maps.
// Defines each argument by pieces made from its slots.
LogicalResult ThreadLowering::createFunction() {
  Type i64 = b.getI64Type();
  size_t slots = 0;
  for (Type type : kernel.getArgumentTypes()) slots += slotsOf(type);
  maps = tensorMapsOf(kernel);
  b.setInsertionPoint(kernel);
  SmallVector<Type> parameters(slots, i64);
  parameters.append(maps.size(), LLVM::LLVMPointerType::get(b.getContext()));
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), parameters);
  function = LLVM::LLVMFuncOp::create(b, loc, ("ligerdsl_" + kernel.getName()).str(), type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    b.getDenseI32ArrayAttr({32 * options.num_warps}));
  if (options.num_ctas > 1)
    function->setAttr(NVVM::NVVMDialect::getClusterDimAttrName(),
                      b.getDenseI32ArrayAttr({options.num_ctas, 1, 1}));
  if (options.min_ctas_per_sm)
    function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                      b.getI32IntegerAttr(options.min_ctas_per_sm));
  if (options.max_registers)
    function->setAttr(NVVM::NVVMDialect::getMaxnregAttrName(),
                      b.getI32IntegerAttr(options.max_registers));

  for (size_t map = 0; map < maps.size(); ++map) addMapAttributes(function, slots + map);

  Block* entry = function.addEntryBlock(b);
  llvm::append_range(mapAddresses, entry->getArguments().drop_front(slots));
  b.setInsertionPointToEnd(entry);
  entryEnd = LLVM::ReturnOp::create(b, loc, ValueRange());
  b.setInsertionPoint(entryEnd);
  inCta = NVVM::ThreadIdXOp::create(b, loc, b.getI32Type());
  if (options.num_ctas > 1) rank = NVVM::ClusterId::create(b, loc, b.getI32Type());
  tid = inCluster(inCta);

  size_t slot = 0;
  for (BlockArgument argument : kernel.getArguments()) {
    Value first = entry->getArgument(slot);
    if (auto view = dyn_cast<tile::ViewType>(argument.getType())) {
      Pieces list{first};
      for (ArrayRef<int64_t> sizes : {view.getShape(), view.getStrides()})
        for (int64_t size : sizes) {
          Value dynamic = entry->getArgument(slot + list.size());
          list.push_back(ShapedType::isDynamic(size) ? dynamic : constant(size, 64));
        }
      slot += list.size();
      define(argument, std::move(list));
      continue;
    }
    ++slot;
    Type element = elementType(argument.getType());
    unsigned bits = element.getIntOrFloatBitWidth();
    Value value = first;
    if (bits < 64) value = LLVM::TruncOp::create(b, loc, b.getIntegerType(bits), value);
    define(argument, {bitcast(value, element)});
  }
  return success();
}

LogicalResult ThreadLowering::run() {
  if (failed(createFunction())) return failure();
  // Entry code is inserted before this marker, the kernel's body after it.
  Operation* marker = LLVM::PoisonOp::create(b, loc, b.getI32Type());
  Operation* end = entryEnd;
  entryEnd = functionEntryEnd = marker;
  b.setInsertionPoint(end);
  if (failed(lowerBlock(kernel.getBody().front()))) return failure();
  marker->erase();
  kernel.erase();
  return success();
}

}  // namespace ligerdsl::compiler::nvptx

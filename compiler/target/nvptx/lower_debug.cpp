// Lowers assumptions and prints.
#include "compiler/target/nvptx/memory_access.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

LogicalResult lowerAssume(ThreadLowering& t, tile::AssumeOp op) {
  LLVM::AssumeOp::create(t.b, t.loc, t.scalar(op.getCondition()));
  return success();
}

LogicalResult lowerAssumeDivisible(ThreadLowering& t, tile::AssumeDivisibleOp op) {
  t.define(op, {t.scalar(op.getSource())});
  return success();
}

// Returns the declaration of vprintf(format, arguments), which the driver provides.
LLVM::LLVMFuncOp printFunction(ThreadLowering& t) {
  if (auto known = t.module().lookupSymbol<LLVM::LLVMFuncOp>("vprintf")) return known;
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(t.module().getBody());
  Type pointer = LLVM::LLVMPointerType::get(t.b.getContext());
  auto type = LLVM::LLVMFunctionType::get(t.b.getI32Type(), {pointer, pointer});
  return LLVM::LLVMFuncOp::create(t.b, t.loc, "vprintf", type);
}

// Adds a constant C string to the module and returns a generic pointer to it.
Value formatString(ThreadLowering& t, const std::string& text) {
  std::string name =
      "ligerdsl_format_" + std::to_string(llvm::range_size(t.module().getOps<LLVM::GlobalOp>()));
  std::string terminated = text + '\0';
  {
    OpBuilder::InsertionGuard guard(t.b);
    t.b.setInsertionPointToStart(t.module().getBody());
    LLVM::GlobalOp::create(t.b, t.loc, LLVM::LLVMArrayType::get(t.b.getI8Type(), terminated.size()),
                           /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           t.b.getStringAttr(terminated),
                           /*alignment=*/1, kGlobalSpace);
  }
  MLIRContext* context = t.b.getContext();
  Value global = LLVM::AddressOfOp::create(t.b, t.loc,
                                           LLVM::LLVMPointerType::get(context, kGlobalSpace), name);
  return LLVM::AddrSpaceCastOp::create(t.b, t.loc, LLVM::LLVMPointerType::get(context), global);
}

// Converts a value to a type that vprintf takes: f64 or i64.
Value promote(ThreadLowering& t, Value value) {
  Type type = value.getType();
  if (isa<FloatType>(type)) return arith::ExtFOp::create(t.b, t.loc, t.b.getF64Type(), value);
  if (type.isInteger(64)) return value;
  if (type.isInteger(1)) return arith::ExtUIOp::create(t.b, t.loc, t.b.getI64Type(), value);
  return arith::ExtSIOp::create(t.b, t.loc, t.b.getI64Type(), value);
}

// Emits a call of vprintf. `format` has one conversion for each argument.
void printLine(ThreadLowering& t, const std::string& format, ArrayRef<Value> arguments) {
  SmallVector<Value> promoted =
      llvm::map_to_vector(arguments, [&](Value value) { return promote(t, value); });
  Value buffer = t.stackSlot(8 * promoted.size());
  for (auto [i, value] : llvm::enumerate(promoted)) {
    Value slot = LLVM::GEPOp::create(t.b, t.loc, buffer.getType(), t.b.getI64Type(), buffer,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    LLVM::StoreOp::create(t.b, t.loc, value, slot, 8);
  }
  LLVM::CallOp::create(t.b, t.loc, printFunction(t), ValueRange{formatString(t, format), buffer});
}

std::string conversion(Type element) {
  return isa<FloatType>(element) ? "%g" : "%lld";
}

// Escapes the percent signs of the author's text.
std::string escaped(StringRef text) {
  std::string result;
  for (char c : text) result += c == '%' ? std::string("%%") : std::string(1, c);
  return result;
}

void printValue(ThreadLowering& t, const std::string& text, Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  SmallVector<Value> elements = t.elements(value);
  if (!tensor) return printLine(t, text + conversion(elements[0].getType()) + "\n", elements);
  const ThreadLayout& layout = t.layout(tensor);
  for (auto [reg, element] : llvm::enumerate(elements)) {
    std::string index;
    SmallVector<Value> arguments;
    for (int dim = 0; dim < tensor.getRank(); ++dim) {
      auto [base, offset] = t.coordinate(layout, reg, dim);
      arguments.push_back(arith::AddIOp::create(t.b, t.loc, base, t.constant(offset)));
      index += dim ? ", %lld" : "%lld";
    }
    arguments.push_back(element);
    printLine(t, text + "[" + index + "] " + conversion(element.getType()) + "\n", arguments);
  }
}

// One thread prints a scalar. Each element of a tile is printed by the thread that owns it.
LogicalResult lowerPrint(ThreadLowering& t, tile::PrintOp op) {
  std::string text = escaped(op.getText()) + ": ";
  auto under = [&](Value predicate, auto emit) {
    if (!predicate) return emit();
    auto branch = scf::IfOp::create(t.b, t.loc, predicate, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(t.b);
    t.b.setInsertionPointToStart(branch.thenBlock());
    emit();
  };
  Value first = t.threadMaskIsZero(t.numThreads() - 1);
  if (op.getValues().empty()) under(first, [&] { printLine(t, escaped(op.getText()) + "\n", {}); });
  for (Value value : op.getValues()) {
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    under(tensor ? t.ownerPredicate(t.layout(tensor)) : first, [&] { printValue(t, text, value); });
  }
  return success();
}

}  // namespace

void addDebugLowerings(LoweringTable& table) {
  table.add<tile::AssumeOp, lowerAssume>();
  table.add<tile::AssumeDivisibleOp, lowerAssumeDivisible>();
  table.add<tile::PrintOp, lowerPrint>();
}

}  // namespace ligerdsl::compiler::nvptx

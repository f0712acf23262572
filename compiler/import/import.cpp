#include "compiler/import/import.h"

#include "compiler/import/importer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {

Importer::Importer(const program::Program& program, const program::CompileOptions& options,
                   MLIRContext& context)
    : program(program), options(options), builder(&context) {
  values.resize(program.values.size());
}

Type Importer::elementType(DType dtype) {
  switch (dtype) {
    case DType::i1:
      return builder.getI1Type();
    case DType::i8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return builder.getI8Type();  // an fp8 tile holds codes
    case DType::i16:
      return builder.getIntegerType(16);
    case DType::i32:
      return builder.getI32Type();
    case DType::i64:
      return builder.getI64Type();
    case DType::f16:
      return builder.getF16Type();
    case DType::bf16:
      return builder.getBF16Type();
    case DType::f32:
      return builder.getF32Type();
  }
  llvm_unreachable("serialize.h rejects other dtypes");
}

static int64_t mlirSize(int64_t size) {
  return size == program::kDynamic ? ShapedType::kDynamic : size;
}

// Adds a dimension's size or stride: the declared one if it is static, else an exact fact, else
// dynamic.
static void addSize(int64_t declared, const program::SizeFact* fact,
                    SmallVectorImpl<int64_t>& sizes, SmallVectorImpl<int64_t>& divisors) {
  int64_t size = mlirSize(declared);
  if (ShapedType::isDynamic(size) && fact && fact->exact >= 0) size = fact->exact;
  sizes.push_back(size);
  divisors.push_back(fact ? std::max<int64_t>(fact->divisor, 1) : 1);
}

Type Importer::type(const program::Type& type, const program::ArgFacts* facts) {
  Type element = elementType(type.dtype);
  switch (type.kind) {
    case program::TypeKind::scalar:
      return element;
    case program::TypeKind::tile:
      return RankedTensorType::get(type.shape, element);
    case program::TypeKind::ptr:
      return tile::PtrType::get(builder.getContext(), element);
    case program::TypeKind::ptr_tile:
      return RankedTensorType::get(type.shape, tile::PtrType::get(builder.getContext(), element));
    case program::TypeKind::view:
      break;
  }
  SmallVector<int64_t> dims, strides, dimDivisors, strideDivisors;
  for (size_t i = 0; i < type.shape.size(); ++i) {
    addSize(type.shape[i], facts && i < facts->dims.size() ? &facts->dims[i] : nullptr, dims,
            dimDivisors);
    addSize(type.strides[i], facts && i < facts->strides.size() ? &facts->strides[i] : nullptr,
            strides, strideDivisors);
  }
  int64_t align = std::max<int64_t>(size_of(type.dtype), facts ? facts->pointer_align : 1);
  return tile::ViewType::get(builder.getContext(), dims, element, strides, align, dimDivisors,
                             strideDivisors);
}

Type Importer::typeOf(program::ValueId id) {
  return type(program.values[id], nullptr);
}

Location Importer::location(const program::Location& at) {
  if (at.line == 0 || at.file >= program.files.size()) return builder.getUnknownLoc();
  return FileLineColLoc::get(builder.getContext(), program.files[at.file], at.line, at.column);
}

SmallVector<Value> Importer::lookup(ArrayRef<program::ValueId> ids) {
  SmallVector<Value> result;
  for (program::ValueId id : ids) result.push_back(values[id]);
  return result;
}

void Importer::importOps(const program::Region& region) {
  for (const program::Op& op : region.ops) importOp(op);
}

OwningOpRef<ModuleOp> Importer::run() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToStart(module->getBody());
  SmallVector<Type> inputs;
  auto factsOf = [&](size_t i) { return i < options.facts.size() ? &options.facts[i] : nullptr; };
  for (auto [i, argument] : llvm::enumerate(program.arguments))
    inputs.push_back(type(program.values[argument.value], factsOf(i)));
  auto function = func::FuncOp::create(builder, builder.getUnknownLoc(), program.name,
                                       builder.getFunctionType(inputs, {}));
  function->setAttr(tile::kKernelAttr, builder.getUnitAttr());
  Block* entry = function.addEntryBlock();
  for (auto [i, argument] : llvm::enumerate(program.arguments)) {
    values[argument.value] = entry->getArgument(i);
    function.setArgAttr(i, "tile.name", builder.getStringAttr(argument.name));
    const program::ArgFacts* facts = factsOf(i);
    if (facts && facts->alias_class)
      function.setArgAttr(i, tile::kAliasClassAttr, builder.getI64IntegerAttr(facts->alias_class));
    if (facts && facts->read_only)
      function.setArgAttr(i, tile::kReadOnlyAttr, builder.getUnitAttr());
    if (i == 0 && program::isDynamicPersistent(program))
      function.setArgAttr(i, tile::kNextProgramAttr, builder.getUnitAttr());
  }
  builder.setInsertionPointToStart(entry);
  importOps(program.body);
  func::ReturnOp::create(builder, builder.getUnknownLoc());
  return module;
}

OwningOpRef<ModuleOp> importProgram(const program::Program& program,
                                    const program::CompileOptions& options, MLIRContext& context) {
  return Importer(program, options, context).run();
}

}  // namespace ligerdsl::compiler

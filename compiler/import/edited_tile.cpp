#include "compiler/import/edited_tile.h"

#include "compiler/dialect/tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace ligerdsl::compiler {

OwningOpRef<ModuleOp> parseEditedTile(const program::CompileOptions& options, ModuleOp imported) {
  MLIRContext* context = imported.getContext();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(options.tile, ParserConfig(context), options.tile_file);
  if (!module) return {};
  func::FuncOp wanted = *imported.getOps<func::FuncOp>().begin();
  const auto functions = module->getOps<func::FuncOp>();
  const Location at = functions.empty() ? FileLineColLoc::get(context, options.tile_file, 1, 1)
                                        : (*functions.begin()).getLoc();
  if (llvm::range_size(module->getOps()) != 1 || functions.empty()) {
    emitError(at) << "expected one function, the kernel @" << wanted.getName() << ", got "
                  << llvm::range_size(module->getOps()) << " ops";
    return {};
  }
  func::FuncOp kernel = *functions.begin();
  if (kernel.getName() != wanted.getName() ||
      kernel.getFunctionType() != wanted.getFunctionType() || !kernel->hasAttr(tile::kKernelAttr)) {
    emitError(at) << "expected the kernel @" << wanted.getName() << " of type "
                  << wanted.getFunctionType() << " with the attribute " << tile::kKernelAttr
                  << ", got @" << kernel.getName() << " of type " << kernel.getFunctionType()
                  << "; edit only the kernel's body";
    return {};
  }
  return module;
}

}  // namespace ligerdsl::compiler

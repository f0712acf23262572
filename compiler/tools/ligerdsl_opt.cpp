// mlir-opt with the dialects and passes of ligerdsl.
#include "compiler/compile.h"
#include "compiler/passes/passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  ligerdsl::compiler::registerDialects(registry);
  ligerdsl::compiler::registerLigerdslPasses();
  mlir::registerTransformsPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "ligerdsl-opt: runs libligerdsl's passes\n", registry));
}

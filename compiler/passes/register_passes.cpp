#include "compiler/passes/passes.h"

namespace ligerdsl::compiler {

void registerPasses() {
  mlir::registerPass([] { return createTileExpandAddsPass(); });
  mlir::registerPass(createTileUnrollLoopsPass);
  mlir::registerPass(createTileSetEvictionPolicyPass);
  mlir::registerPass([] { return createTileAssignLayoutsPass(); });
  mlir::registerPass([] { return createTileKeepResidentsPass(); });
  mlir::registerPass([] { return createTilePrefetchLoadsPass(); });
  mlir::registerPass([] { return createTgpuCutStoresPass(); });
  mlir::registerPass(createTgpuSplitDotsPass);
  mlir::registerPass(createTgpuDeferReductionsPass);
  mlir::registerPass(createTgpuDecomposeReducePass);
  mlir::registerPass(createTgpuLowerGathersPass);
  mlir::registerPass(createTgpuLowerConversionsPass);
  mlir::registerPass([] { return createTgpuAllocateSharedPass(); });
  mlir::registerPass(createTgpuInsertBarriersPass);
  mlir::registerPass(createTgpuHoistBeforeBarriersPass);
  mlir::registerPass([] { return createTgpuRecomputeAfterBarriersPass(); });
  mlir::registerPass([] { return createTgpuOverlapLaunchesPass(); });
  mlir::registerPass(createTgpuPrintLayoutsPass);
}

}  // namespace ligerdsl::compiler

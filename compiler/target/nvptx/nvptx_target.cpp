#include "compiler/target/nvptx/nvptx_target.h"

#include "compiler/analysis/effects.h"
#include "compiler/analysis/layout_preference.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout_list.h"
#include "compiler/math/expand_math.h"
#include "compiler/passes/passes.h"
#include "compiler/refusal.h"
#include "compiler/remarks.h"
#include "compiler/target/nvptx/legality.h"
#include "compiler/target/nvptx/ptx_emitter.h"
#include "compiler/target/nvptx/tensor_maps.h"
#include "compiler/target/nvptx/thread_lowering.h"
#include "compiler/target/nvptx/to_llvm.h"
#include "llvm/IR/Module.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "program/gpu_arch.h"

using namespace mlir;

namespace ligerdsl::compiler {

using namespace nvptx;
using program::GpuArch;

namespace {

int64_t sharedBytesOf(func::FuncOp kernel) {
  auto bytes = kernel->getAttrOfType<IntegerAttr>(kSharedBytesAttr);
  return bytes ? bytes.getInt() : 0;
}

// Assigns layouts and shared memory, and adds explicit ops for reductions, layout conversions,
// barriers and the wait for earlier grids. If the kernel has resident rows, they get the shared
// memory; otherwise the rings of pipelined loops do.
LogicalResult runLayoutPasses(ModuleOp module, const GpuArch& arch,
                              const program::CompileOptions& options, bool keepsRows,
                              bool overlapLaunches) {
  PassManager passes(module.getContext());
  timePasses(passes);
  const int ctasPerSm = std::max(1, options.min_ctas_per_sm);
  const int64_t sharedBytes = arch.shared_budget(options.min_ctas_per_sm);
  passes.addNestedPass<func::FuncOp>(createTileSetEvictionPolicyPass());
  passes.addNestedPass<func::FuncOp>(createTileAssignLayoutsPass(
      {.numWarps = options.num_warps, .numCtas = options.num_ctas, .archName = options.arch}));
  passes.addNestedPass<func::FuncOp>(createTgpuCutStoresPass({.tensorStores = arch.bulk_copies}));
  if (keepsRows)
    passes.addNestedPass<func::FuncOp>(
        createTileKeepResidentsPass({.sharedBytes = sharedBytes,
                                     .leastForExchanges = arch.exchange_bytes,
                                     .numWarps = options.num_warps,
                                     .numCtas = options.num_ctas}));
  passes.addNestedPass<func::FuncOp>(
      createTilePrefetchLoadsPass({.numStages = options.num_stages,
                                   .numWarps = options.num_warps,
                                   .numCtas = options.num_ctas,
                                   .ctasPerSm = ctasPerSm,
                                   .sharedBytes = keepsRows ? 0 : sharedBytes,
                                   .leastForExchanges = arch.tuning.unstaged_bytes,
                                   .archName = options.arch}));
  passes.addNestedPass<func::FuncOp>(createTgpuSplitDotsPass());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createTgpuDeferReductionsPass());
  passes.addNestedPass<func::FuncOp>(createTgpuDecomposeReducePass());
  passes.addNestedPass<func::FuncOp>(createTgpuLowerGathersPass());
  passes.addNestedPass<func::FuncOp>(createTgpuLowerConversionsPass());
  passes.addNestedPass<func::FuncOp>(createTgpuAllocateSharedPass({.sharedBytes = sharedBytes}));
  passes.addNestedPass<func::FuncOp>(createTgpuInsertBarriersPass());
  passes.addNestedPass<func::FuncOp>(createTgpuHoistBeforeBarriersPass());
  passes.addNestedPass<func::FuncOp>(createTgpuRecomputeAfterBarriersPass(
      {.numWarps = options.num_warps, .ctasPerSm = ctasPerSm, .archName = options.arch}));
  // This pass runs last, because no pass after it may move loads or stores.
  if (overlapLaunches)
    passes.addNestedPass<func::FuncOp>(createTgpuOverlapLaunchesPass(
        {.numWarps = options.num_warps, .numCtas = options.num_ctas, .archName = options.arch}));
  return passes.run(module);
}

// Returns the ops that allocate shared memory, with their bytes, in program order.
SmallVector<std::pair<Operation*, int64_t>> sharedBuffers(func::FuncOp kernel) {
  SmallVector<std::pair<Operation*, int64_t>> buffers;
  kernel.walk([&](Operation* op) {
    if (auto alloc = dyn_cast<tgpu::LocalAllocOp>(op))
      buffers.push_back({op, bufferBytes(alloc.getType())});
    if (auto ring = dyn_cast<tgpu::RingOp>(op)) buffers.push_back({op, ringBytes(ring.getType())});
  });
  return buffers;
}

// Returns true if the kernel has resident rows and the GPU has bulk copies, which load them.
bool keepsResidentRows(ModuleOp module, const GpuArch& arch) {
  tile::LoadTileOp resident;
  module.walk([&](tile::LoadTileOp load) {
    if (!load.getResident()) return WalkResult::advance();
    resident = load;
    return WalkResult::interrupt();
  });
  if (resident && !arch.bulk_copies)
    missed(resident, RemarkId::no_bulk_copies)
        << "resident rows: not cached: " << arch.name
        << " has no bulk copies (sm_90 and later have them); the kernel reads the rows again";
  return resident && arch.bulk_copies;
}

// Emits a remark if the kernel uses too much shared memory for min_ctas_per_sm.
void remarkOccupancy(func::FuncOp kernel, const GpuArch& arch,
                     const program::CompileOptions& options) {
  const int64_t bytes = sharedBytesOf(kernel), budget = arch.shared_budget(options.min_ctas_per_sm);
  if (bytes > budget)
    missed(sharedBuffers(kernel).front().first, RemarkId::min_ctas_exceed_shared_memory)
        << "min_ctas_per_sm = " << options.min_ctas_per_sm << " is not reached: a CTA takes "
        << bytes << " bytes of shared memory, and the SM has " << budget
        << " for each CTA; use smaller tiles";
}

// Reports the error at the op that uses the most shared memory.
LogicalResult refuseSharedBytes(func::FuncOp kernel, const GpuArch& arch) {
  markRefused(kernel);
  const auto [op, most] = *llvm::max_element(sharedBuffers(kernel), llvm::less_second());
  return emitError(op->getLoc()) << "kernel " << kernel.getName() << " needs "
                                 << sharedBytesOf(kernel) << " bytes of shared memory per CTA, "
                                 << most << " of them for this operation; " << arch.name << " has "
                                 << arch.shared_per_cta << "; use smaller tiles";
}

// Makes line numbers refer to the author's DSL code. The function gets a debug scope with the file
// of its first op. Ops of another file (a helper in a header) get a lexical block with that file.
// PTX then has .loc lines but no debug sections: ".target debug" would cost optimisation.
LogicalResult attachLineInfo(ModuleOp module) {
  auto function = *llvm::find_if(module.getOps<LLVM::LLVMFuncOp>(),
                                 [](LLVM::LLVMFuncOp f) { return !f.isExternal(); });
  FileLineColLoc first;
  function.walk([&](Operation* op) {
    if ((first = dyn_cast<FileLineColLoc>(op->getLoc()))) return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (!first) return success();
  function->setLoc(first);
  PassManager passes(module.getContext());
  timePasses(passes);
  LLVM::DIScopeForLLVMFuncOpPassOptions options;
  options.emissionKind = LLVM::DIEmissionKind::DebugDirectivesOnly;
  passes.addPass(LLVM::createDIScopeForLLVMFuncOpPass(options));
  if (failed(passes.run(module))) return failure();

  auto scoped = dyn_cast<FusedLoc>(function.getLoc());
  auto scope = scoped ? dyn_cast_or_null<LLVM::DISubprogramAttr>(scoped.getMetadata()) : nullptr;
  if (!scope) return success();
  llvm::DenseMap<StringAttr, LLVM::DILexicalBlockFileAttr> blocks;
  function.walk([&](Operation* op) {
    auto at = dyn_cast<FileLineColLoc>(op->getLoc());
    if (!at || at.getFilename() == first.getFilename()) return;
    auto& block = blocks[at.getFilename()];
    if (!block) {
      auto file = LLVM::DIFileAttr::get(module.getContext(), at.getFilename().getValue(), "");
      block = LLVM::DILexicalBlockFileAttr::get(scope, file, /*discriminator=*/0);
    }
    op->setLoc(FusedLoc::get({at}, block, module.getContext()));
  });
  return success();
}

bool castsFp8(func::FuncOp kernel) {
  return kernel
      .walk([](Operation* op) {
        return isa<tile::Fp8DecodeOp, tile::Fp8EncodeOp>(op) ? WalkResult::interrupt()
                                                             : WalkResult::advance();
      })
      .wasInterrupted();
}

bool addsToMemory(func::FuncOp kernel) {
  return kernel
      .walk([](tile::StoreTileOp store) {
        return store.getAdds() ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

}  // namespace

LogicalResult compileForNvptx(ModuleOp module, const program::CompileOptions& asked,
                              program::Artifact& artifact, CompileTrace& trace) {
  func::FuncOp kernel = *module.getOps<func::FuncOp>().begin();
  if (const std::string reason = program::refused(asked); !reason.empty()) {
    markRefused(kernel);
    return emitError(kernel.getLoc(), reason);
  }
  if (failed(verifyEffects(kernel))) return failure();
  const GpuArch& arch = *program::find_gpu_arch(asked.arch);
  program::CompileOptions options = asked;
  options.min_ctas_per_sm = std::min(asked.min_ctas_per_sm, arch.ctas_per_sm(asked.num_warps));
  if (options.min_ctas_per_sm < asked.min_ctas_per_sm)
    missed(kernel, RemarkId::min_ctas_exceed_threads)
        << "min_ctas_per_sm = " << asked.min_ctas_per_sm << " is not reached: an SM holds "
        << options.min_ctas_per_sm << " CTAs of " << asked.num_warps << " warps; use fewer warps";
  artifact.arch = arch.name;
  artifact.ptx_version = program::lowest_ptx(arch, options);
  if (arch.converts_fp8(options) && castsFp8(kernel))
    artifact.ptx_version = std::max(artifact.ptx_version, arch.fp8_ptx);
  if (addsToMemory(kernel)) artifact.ptx_version = std::max(artifact.ptx_version, arch.adds_ptx);
  artifact.threads = program::kWarpThreads * options.num_warps;
  artifact.cluster = options.num_ctas;
  artifact.entry = "ligerdsl_" + kernel.getName().str();

  artifact.launch_overlap = options.launch_overlap && arch.overlaps_launches;
  artifact.dynamic_persistent = kernel
                                    .walk([](scf::WhileOp loop) {
                                      return loop->hasAttr(tile::kIndependentAttr)
                                                 ? WalkResult::interrupt()
                                                 : WalkResult::advance();
                                    })
                                    .wasInterrupted();
  artifact.persistent =
      kernel.walk([](tile::NumProgramsOp) { return WalkResult::interrupt(); }).wasInterrupted();

  const bool keepsRows = keepsResidentRows(module, arch);
  if (failed(runLayoutPasses(module, arch, options, keepsRows, artifact.launch_overlap)))
    return failure();
  trace.mark("layouts");
  if (trace.emits("tgpu")) return trace.keep(printModule(module)), success();
  if (trace.emits("layouts")) return trace.keep(listLayouts(module)), success();
  kernel = *module.getOps<func::FuncOp>().begin();
  artifact.shared_bytes = sharedBytesOf(kernel);
  if (artifact.shared_bytes > arch.shared_per_cta) return refuseSharedBytes(kernel, arch);
  remarkOccupancy(kernel, arch, options);
  artifact.maps = tensorMapsOf(kernel);

  if (failed(ThreadLowering(kernel, options).run())) return failure();
  trace.mark("threads");
  if (failed(expandMath(module, MathFlavor::nvptx)) || failed(verifyLegality(module)))
    return failure();
  trace.mark("math");
  if (failed(convertToLlvm(module)) || failed(attachLineInfo(module))) return failure();
  trace.mark("llvm-dialect");
  if (trace.emits("llvm")) return trace.keep(printModule(module)), success();

  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(module, context);
  if (!llvmModule) return failure();
  trace.mark("llvm-ir");
  std::string errors;
  artifact.code = emitPtx(*llvmModule, artifact.arch, artifact.ptx_version, errors);
  if (!errors.empty()) return emitError(module.getLoc()) << "LLVM's NVPTX back end: " << errors;
  trace.mark("ptx");
  if (trace.emits("ptx")) trace.keep(artifact.code);
  return success();
}

void registerNvptxDialects(DialectRegistry& registry) {
  registry.insert<NVVM::NVVMDialect, cf::ControlFlowDialect>();
}

}  // namespace ligerdsl::compiler

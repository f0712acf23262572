// Passes on one func.func each: tile-expand-adds and tile-unroll-loops, of every target, then those of the GPU pipeline in the order in
// which it runs them.
#pragma once

#include <limits>
#include <memory>

#include "mlir/Pass/Pass.h"

namespace ligerdsl::compiler {

/// The architecture of passes that are told none.
inline constexpr llvm::StringLiteral kUsualArch = "sm_90a";

/// tile-expand-adds: stores that add to memory load what is there, unless the target adds tiles of f32 itself.
std::unique_ptr<mlir::Pass> createTileExpandAddsPass(bool memoryAdds = false);

/// tile-unroll-loops: loops that ask for it have n copies of their bodies.
std::unique_ptr<mlir::Pass> createTileUnrollLoopsPass();

/// tile-set-eviction-policy: what a kernel reads that writes as much leaves the second-level cache last.
std::unique_ptr<mlir::Pass> createTileSetEvictionPolicyPass();

/// tile-assign-layouts: gives every tile a #tgpu.layout; inserts tgpu.convert_layout where two layouts meet.
std::unique_ptr<mlir::Pass> createTileAssignLayoutsPass(int numWarps = 4, int numCtas = 1,
                                                        llvm::StringRef arch = kUsualArch);

/// tgpu-cut-stores: in loops, sums of products change their layout for a store in stretches.
std::unique_ptr<mlir::Pass> createTgpuCutStoresPass(bool tensorStores = true);

/// tile-keep-residents: rows that two loops read stay in shared memory, filled by asynchronous copies. A CTA has
/// `sharedBytes`, of which exchanges between threads get what they need and `exchangeBytes` at least.
std::unique_ptr<mlir::Pass> createTileKeepResidentsPass(int64_t sharedBytes = 0, int64_t exchangeBytes = 0,
                                                        int numWarps = 4, int numCtas = 1);

/// tile-prefetch-loads: loops of num_stages >= 2 load tiles some iterations ahead, into registers or into shared memory,
/// of which exchanges get their part as above.
std::unique_ptr<mlir::Pass> createTilePrefetchLoadsPass(int numStages = 1, int numWarps = 4, int numCtas = 1,
                                                        int ctasPerSm = 1, int64_t sharedBytes = 0,
                                                        int64_t exchangeBytes = 0, llvm::StringRef arch = kUsualArch);

/// tgpu-split-dots: products whose factors wait in shared memory read them step by step.
std::unique_ptr<mlir::Pass> createTgpuSplitDotsPass();

/// tgpu-defer-reductions: what a loop only adds up is added up thread by thread, and meets behind the loop.
std::unique_ptr<mlir::Pass> createTgpuDeferReductionsPass();

/// tgpu-decompose-reduce: tile.reduce and tile.scan become in-warp pieces and layout conversions.
std::unique_ptr<mlir::Pass> createTgpuDecomposeReducePass();

/// tgpu-lower-gathers: tile.gather, and tile.shuffle_xor between warps, go through shared memory.
std::unique_ptr<mlir::Pass> createTgpuLowerGathersPass();

/// tgpu-lower-conversions: conversions that leave a thread go through shared memory.
std::unique_ptr<mlir::Pass> createTgpuLowerConversionsPass();

/// tgpu-allocate-shared: gives every shared buffer its offset; the function gets `tgpu.shared_bytes`. Rings share memory with others that
/// do not live at once where a CTA would take more than `sharedBytes`, which without it is never.
std::unique_ptr<mlir::Pass> createTgpuAllocateSharedPass(int64_t sharedBytes = std::numeric_limits<int64_t>::max());

/// tgpu-insert-barriers: a tgpu.barrier between accesses of different threads to the same memory.
std::unique_ptr<mlir::Pass> createTgpuInsertBarriersPass();

/// tgpu-hoist-before-barriers: what is complete before a barrier and frees registers there does not wait behind it.
std::unique_ptr<mlir::Pass> createTgpuHoistBeforeBarriersPass();

/// tgpu-recompute-after-barriers: where registers are short, narrow tiles wait at barriers instead of what was
/// computed.
std::unique_ptr<mlir::Pass> createTgpuRecomputeAfterBarriersPass(int numWarps = 4, int ctasPerSm = 1,
                                                                 llvm::StringRef arch = kUsualArch);

/// tgpu-overlap-launches: the kernel waits for the grids before it at its first access to global memory, and lets the
/// next one start. What a program loads first is on its way to the second-level cache while it waits.
std::unique_ptr<mlir::Pass> createTgpuOverlapLaunchesPass(int numWarps = 4, int numCtas = 1,
                                                          llvm::StringRef arch = kUsualArch);

/// tgpu-print-layouts: every layout of the function as text on the error stream, for people.
std::unique_ptr<mlir::Pass> createTgpuPrintLayoutsPass();

/// Makes every pass of the compiler known by name, for ligerdsl-opt.
void registerPasses();

}  // namespace ligerdsl::compiler

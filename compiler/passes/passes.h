// Passes on one func.func each: tile-expand-adds and tile-unroll-loops for every target, then those
// of the GPU pipeline in their order.
#pragma once

#include <limits>
#include <memory>

#include "mlir/Pass/Pass.h"

namespace ligerdsl::compiler {

/// Architecture of passes that get none.
inline constexpr llvm::StringLiteral kUsualArch = "sm_90a";

/// tile-expand-adds: stores that add to memory become a load, an addition and a store. If
/// `memoryAdds`, the target adds tiles of f32 to memory itself.
std::unique_ptr<mlir::Pass> createTileExpandAddsPass(bool memoryAdds = false);

/// tile-unroll-loops: copies the bodies of loops that ask for it n times.
std::unique_ptr<mlir::Pass> createTileUnrollLoopsPass();

/// tile-set-eviction-policy: in kernels that write as much as they read, loads leave L2 last.
std::unique_ptr<mlir::Pass> createTileSetEvictionPolicyPass();

/// tile-assign-layouts: gives every tile a #tgpu.layout and inserts tgpu.convert_layout between
/// different layouts.
std::unique_ptr<mlir::Pass> createTileAssignLayoutsPass(int numWarps = 4, int numCtas = 1,
                                                        llvm::StringRef arch = kUsualArch);

/// tgpu-cut-stores: in loops, stores an accumulator that needs another layout in segments.
std::unique_ptr<mlir::Pass> createTgpuCutStoresPass(bool tensorStores = true);

/// tile-keep-residents: caches rows that two loops read in shared memory, filled by asynchronous
/// copies. A CTA has `sharedBytes`; exchanges between threads keep what they need, and at least
/// `exchangeBytes`.
std::unique_ptr<mlir::Pass> createTileKeepResidentsPass(int64_t sharedBytes = 0, int64_t exchangeBytes = 0,
                                                        int numWarps = 4, int numCtas = 1);

/// tile-prefetch-loads: loops of num_stages >= 2 load tiles some iterations ahead, into registers
/// or into shared memory, of which exchanges keep their part as above.
std::unique_ptr<mlir::Pass> createTilePrefetchLoadsPass(int numStages = 1, int numWarps = 4, int numCtas = 1,
                                                        int ctasPerSm = 1, int64_t sharedBytes = 0,
                                                        int64_t exchangeBytes = 0, llvm::StringRef arch = kUsualArch);

/// tgpu-split-dots: dots with operands in shared memory read them in steps along k.
std::unique_ptr<mlir::Pass> createTgpuSplitDotsPass();

/// tgpu-defer-reductions: a reduction that a loop only accumulates is computed per thread, and
/// across threads after the loop.
std::unique_ptr<mlir::Pass> createTgpuDeferReductionsPass();

/// tgpu-decompose-reduce: splits tile.reduce and tile.scan into in-warp pieces and layout
/// conversions.
std::unique_ptr<mlir::Pass> createTgpuDecomposeReducePass();

/// tgpu-lower-gathers: tile.gather, and tile.shuffle_xor between warps, go through shared memory.
std::unique_ptr<mlir::Pass> createTgpuLowerGathersPass();

/// tgpu-lower-conversions: conversions that leave a thread go through shared memory.
std::unique_ptr<mlir::Pass> createTgpuLowerConversionsPass();

/// tgpu-allocate-shared: gives every shared buffer its offset; the function gets
/// `tgpu.shared_bytes`. If a CTA would need more than `sharedBytes`, rings share memory with
/// buffers that are not alive at the same time. By default they never do.
std::unique_ptr<mlir::Pass> createTgpuAllocateSharedPass(int64_t sharedBytes = std::numeric_limits<int64_t>::max());

/// tgpu-insert-barriers: a tgpu.barrier between accesses of different threads to the same memory.
std::unique_ptr<mlir::Pass> createTgpuInsertBarriersPass();

/// tgpu-hoist-before-barriers: moves ops before a barrier if their operands are complete there and
/// that frees registers.
std::unique_ptr<mlir::Pass> createTgpuHoistBeforeBarriersPass();

/// tgpu-recompute-after-barriers: if registers are short, narrow tiles stay in registers across
/// barriers, and what was computed from them is computed again.
std::unique_ptr<mlir::Pass> createTgpuRecomputeAfterBarriersPass(int numWarps = 4, int ctasPerSm = 1,
                                                                 llvm::StringRef arch = kUsualArch);

/// tgpu-overlap-launches: the kernel waits for the grids before it at its first access to global
/// memory, and lets the next one start. While it waits, it prefetches the first tiles of each
/// program to L2.
std::unique_ptr<mlir::Pass> createTgpuOverlapLaunchesPass(int numWarps = 4, int numCtas = 1,
                                                          llvm::StringRef arch = kUsualArch);

/// tgpu-print-layouts: prints every layout of the function as text to the error stream.
std::unique_ptr<mlir::Pass> createTgpuPrintLayoutsPass();

/// Registers every pass of the compiler by name, for ligerdsl-opt.
void registerPasses();

}  // namespace ligerdsl::compiler

// Passes on func.func. tile-expand-adds and tile-unroll-loops run for every target. The passes of
// the GPU pipeline follow, in the order in which they run.
#ifndef LIGERDSL_PASSES
#define LIGERDSL_PASSES

include "mlir/Pass/PassBase.td"

def TileExpandAddsPass : Pass<"tile-expand-adds", "::mlir::func::FuncOp"> {
  let summary = "Replace additions to memory by a load, an addition and a store";
  let description = [{
    Stores that add to memory become a load, an addition and a store. If `memoryAdds` is set,
    stores of f32 tiles without an alignment offset stay, because the target adds them to memory
    itself.
  }];
  let options = [
    Option<"memoryAdds", "memory-adds", "bool", /*default=*/"false", "The target adds tiles of f32 to memory">
  ];
}

def TileUnrollLoopsPass : Pass<"tile-unroll-loops", "::mlir::func::FuncOp"> {
  let summary = "Repeat the bodies of loops with the attribute tile.unroll";
  let description = [{
    Copies the body of each loop with the attribute `tile.unroll = n` n times.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TileSetEvictionPolicyPass : Pass<"tile-set-eviction-policy", "::mlir::func::FuncOp"> {
  let summary = "Mark loads whose lines L2 should evict last";
  let description = [{
    In kernels that write about as much as they read, marks loads whose lines L2 should evict last.
  }];
}

def TileAssignLayoutsPass : Pass<"tile-assign-layouts", "::mlir::func::FuncOp"> {
  let summary = "Give every tile a linear layout";
  let description = [{
    Gives every tile a #tgpu.layout and inserts tgpu.convert_layout between different layouts.
  }];
  let dependentDialects = ["::ligerdsl::compiler::tgpu::TgpuDialect"];
  let options = [
    Option<"numWarps", "num-warps", "int", /*default=*/"4", "Warps per CTA">,
    Option<"numCtas", "num-ctas", "int", /*default=*/"1", "CTAs per cluster">,
    Option<"archName", "arch", "std::string", /*default=*/"\"sm_90a\"", "GPU architecture">
  ];
}

def TgpuCutStoresPass : Pass<"tgpu-cut-stores", "::mlir::func::FuncOp"> {
  let summary = "Store accumulators in segments";
  let description = [{
    Stores an accumulator in segments if it needs another layout for a store in a loop or for an
    add to memory. Stores with `tensor_copies` become TMA copies if possible.
  }];
  let dependentDialects = ["::ligerdsl::compiler::tgpu::TgpuDialect"];
  let options = [
    Option<"tensorStores", "tensor-stores", "bool", /*default=*/"true", "The target has TMA copies to global memory">
  ];
}

def TileKeepResidentsPass : Pass<"tile-keep-residents", "::mlir::func::FuncOp"> {
  let summary = "Keep resident rows in shared memory between two reads";
  let description = [{
    Caches rows that two loops read in shared memory, which asynchronous copies fill. A CTA has
    `sharedBytes` of shared memory. Exchanges between threads keep the bytes that they need, and
    at least `leastForExchanges`.
  }];
  let dependentDialects = ["::ligerdsl::compiler::tgpu::TgpuDialect"];
  let options = [
    Option<"sharedBytes", "shared-bytes", "int64_t", /*default=*/"0", "Bytes of shared memory per CTA">,
    Option<"leastForExchanges", "exchange-bytes", "int64_t", /*default=*/"0", "Bytes of this shared memory that stay free for exchanges">,
    Option<"numWarps", "num-warps", "int", /*default=*/"4", "Warps per CTA">,
    Option<"numCtas", "num-ctas", "int", /*default=*/"1", "CTAs per cluster">
  ];
}

def TilePrefetchLoadsPass : Pass<"tile-prefetch-loads", "::mlir::func::FuncOp"> {
  let summary = "Issue the loads of pipelined loops iterations ahead";
  let description = [{
    Loops with num_stages >= 2 load tiles some iterations ahead, into registers or shared memory.
    Exchanges keep the shared memory that they need, and at least `leastForExchanges` bytes. Each
    loop gets the attributes of its plan before it is rewritten; with `planOnly` none is rewritten.
  }];
  let dependentDialects = ["::ligerdsl::compiler::tgpu::TgpuDialect"];
  let options = [
    Option<"numStages", "num-stages", "int", /*default=*/"1", "Stages of loops without the attribute tile.num_stages">,
    Option<"numWarps", "num-warps", "int", /*default=*/"4", "Warps per CTA">,
    Option<"numCtas", "num-ctas", "int", /*default=*/"1", "CTAs per cluster">,
    Option<"ctasPerSm", "ctas-per-sm", "int", /*default=*/"1", "CTAs that share an SM">,
    Option<"sharedBytes", "shared-bytes", "int64_t", /*default=*/"0", "Bytes of shared memory per CTA">,
    Option<"leastForExchanges", "exchange-bytes", "int64_t", /*default=*/"0", "Bytes of this shared memory that stay free for exchanges">,
    Option<"planOnly", "plan-only", "bool", /*default=*/"false", "Write the plans only">,
    Option<"archName", "arch", "std::string", /*default=*/"\"sm_90a\"", "GPU architecture">
  ];
}

def TgpuSplitDotsPass : Pass<"tgpu-split-dots", "::mlir::func::FuncOp"> {
  let summary = "Split dots with operands in a ring along k";
  let description = [{
    Dots with operands in shared memory read them in steps along k.
  }];
  let dependentDialects = ["::ligerdsl::compiler::tgpu::TgpuDialect"];
}

def TgpuDeferReductionsPass : Pass<"tgpu-defer-reductions", "::mlir::func::FuncOp"> {
  let summary = "Carry reductions thread by thread through loops";
  let description = [{
    A reduction that a loop only accumulates is computed per thread in the loop, and across
    threads after the loop.
  }];
  let dependentDialects = ["::ligerdsl::compiler::tgpu::TgpuDialect"];
}

def TgpuDecomposeReducePass : Pass<"tgpu-decompose-reduce", "::mlir::func::FuncOp"> {
  let summary = "Split reductions and scans into in-warp pieces";
  let description = [{
    Splits tile.reduce and tile.scan into in-warp pieces and layout conversions.
  }];
  let dependentDialects = ["::ligerdsl::compiler::tgpu::TgpuDialect"];
}

def TgpuLowerGathersPass : Pass<"tgpu-lower-gathers", "::mlir::func::FuncOp"> {
  let summary = "Move gathers, and shuffles between warps, through shared memory";
  let description = [{
    Lowers tile.gather, and tile.shuffle_xor between warps, to accesses of shared memory.
  }];
}

def TgpuLowerConversionsPass : Pass<"tgpu-lower-conversions", "::mlir::func::FuncOp"> {
  let summary = "Move tiles between layouts through shared memory";
  let description = [{
    Lowers each tgpu.convert_layout to a store to shared memory and a load, unless its values stay
    in their threads or pairs of lanes exchange them.
  }];
}

def TgpuAllocateSharedPass : Pass<"tgpu-allocate-shared", "::mlir::func::FuncOp"> {
  let summary = "Place shared-memory buffers";
  let description = [{
    Sets the offset of every shared buffer, and `tgpu.shared_bytes` of the function. If a CTA
    would need more than `sharedBytes`, rings share memory with buffers that are not alive at
    the same time. By default they never do.
  }];
  let options = [
    Option<"sharedBytes", "shared-bytes", "int64_t", /*default=*/"std::numeric_limits<int64_t>::max()", "Bytes of shared memory per CTA above which rings share memory">
  ];
}

def TgpuInsertBarriersPass : Pass<"tgpu-insert-barriers", "::mlir::func::FuncOp"> {
  let summary = "Separate conflicting accesses of different threads";
  let description = [{
    Inserts a tgpu.barrier between conflicting accesses of different threads to the same memory, or
    a tgpu.cluster_barrier if the threads may be in different CTAs.
  }];
}

def TgpuHoistBeforeBarriersPass : Pass<"tgpu-hoist-before-barriers", "::mlir::func::FuncOp"> {
  let summary = "Move ops before barriers if that frees registers";
  let description = [{
    Moves ops before a barrier if their operands are complete there and the move frees registers.
  }];
}

def TgpuRecomputeAfterBarriersPass : Pass<"tgpu-recompute-after-barriers", "::mlir::func::FuncOp"> {
  let summary = "Keep narrow tiles across barriers and widen them again";
  let description = [{
    If registers are short, only narrow tiles stay in registers across barriers. Tiles that were
    computed from them are computed again after the barrier.
  }];
  let options = [
    Option<"numWarps", "num-warps", "int", /*default=*/"4", "Warps per CTA">,
    Option<"ctasPerSm", "ctas-per-sm", "int", /*default=*/"1", "CTAs that share an SM">,
    Option<"archName", "arch", "std::string", /*default=*/"\"sm_90a\"", "GPU architecture">
  ];
}

def TgpuOverlapLaunchesPass : Pass<"tgpu-overlap-launches", "::mlir::func::FuncOp"> {
  let summary = "Wait for earlier grids before the first access to global memory";
  let description = [{
    The kernel waits for the preceding grids at its first access to global memory, and then lets
    the next grid start. While it waits, it prefetches the first tiles of each program to L2.
  }];
  let options = [
    Option<"numWarps", "num-warps", "int", /*default=*/"4", "Warps per CTA">,
    Option<"numCtas", "num-ctas", "int", /*default=*/"1", "CTAs per cluster">,
    Option<"archName", "arch", "std::string", /*default=*/"\"sm_90a\"", "GPU architecture">
  ];
}

def TgpuPrintLayoutsPass : Pass<"tgpu-print-layouts", "::mlir::func::FuncOp"> {
  let summary = "Print every layout as text";
  let description = [{
    Prints every layout of the function as text to the error stream.
  }];
}

#endif

// Memory barriers in shared memory (PTX ISA: mbarrier; sm_90 and later). Each expects one arrival per phase, and the
// bytes that this arrival announces. A wait names the parity of the phase that it waits for.
#pragma once

#include "compiler/target/nvptx/memory_access.h"

namespace ligerdsl::compiler::nvptx {

/// The 32-bit address of one of the parts of a buffer in shared memory, or of one of its memory barriers.
mlir::Value stageAddress(ThreadLowering& t, mlir::Value base, mlir::Value stage, int64_t bytes);
mlir::Value mbarrierAddress(ThreadLowering& t, mlir::Value barriers, mlir::Value stage);

/// Prepares memory barriers for phases of one arrival each, or of several.
void initMbarriers(ThreadLowering& t, mlir::Value barriers, int64_t count, int64_t first = 0, int64_t arrivals = 1);

/// By one thread: tells the memory barrier at this address of every other CTA of the cluster that what wgmma read has been read.
/// Nothing that was written is told: a release to the cluster waits for all of a thread's memory, which took 1.2 times as long (8192^3 of bf16, an H200).
void arriveInOthers(ThreadLowering& t, mlir::Value mbarrier);
/// All threads of the cluster meet.
void meetInCluster(ThreadLowering& t);

/// By one thread.
void arriveExpecting(ThreadLowering& t, mlir::Value mbarrier, mlir::Value bytes, mlir::Value predicate = {});

/// By all threads. `order` is what the wait says of memory, as in ".acquire.cta".
void waitForPhase(ThreadLowering& t, mlir::Value mbarrier, mlir::Value parity, llvm::StringRef order);

/// What this thread has written and read: to tensor and bulk copies and wgmma, which access shared memory by another proxy.
void showToAsyncProxy(ThreadLowering& t);

/// Calls `emit` in the first `count` threads of the CTA.
void inThreadsBelow(ThreadLowering& t, mlir::Value count, llvm::function_ref<void()> emit);

}  // namespace ligerdsl::compiler::nvptx

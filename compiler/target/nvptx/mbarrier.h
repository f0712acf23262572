// mbarriers in shared memory (PTX ISA: mbarrier; sm_90 and later). Each phase expects one arrival,
// unless initMbarriers sets another count, and the bytes that the arrival announces. A wait names
// the parity of its phase.
#pragma once

#include "compiler/target/nvptx/memory_access.h"

namespace ligerdsl::compiler::nvptx {

/// Return the 32-bit shared-memory address of a stage of `bytes` bytes, or of a stage's mbarrier.
mlir::Value stageAddress(ThreadLowering& t, mlir::Value base, mlir::Value stage, int64_t bytes);
mlir::Value mbarrierAddress(ThreadLowering& t, mlir::Value barriers, mlir::Value stage);

/// Initialises `count` mbarriers from number `first` on. A phase expects `arrivals` arrivals.
void initMbarriers(ThreadLowering& t, mlir::Value barriers, int64_t count, int64_t first = 0,
                   int64_t arrivals = 1);

/// Arrives at this mbarrier in every other CTA of the cluster; called in one thread. The arrival
/// means that wgmma has read a slot. It publishes no writes to other CTAs, because a release at
/// cluster scope would wait for all memory operations of the thread.
void arriveInOthers(ThreadLowering& t, mlir::Value mbarrier);
/// Synchronises all threads of the cluster.
void syncCluster(ThreadLowering& t);

/// Arrives at an mbarrier and announces `bytes` bytes of copies, where `predicate` holds (null
/// means true). Exactly one thread must arrive.
void arriveExpecting(ThreadLowering& t, mlir::Value mbarrier, mlir::Value bytes,
                     mlir::Value predicate = {});

/// Waits for the phase of this parity, in every thread that executes the code. `order` is the PTX
/// memory-order suffix, for example ".relaxed.cluster"; "" means ".acquire.cta".
void waitForPhase(ThreadLowering& t, mlir::Value mbarrier, mlir::Value parity,
                  llvm::StringRef order);

/// Orders this thread's accesses to shared memory before later ones by the async proxy. TMA copies,
/// bulk copies and wgmma use this proxy.
void fenceAsyncProxy(ThreadLowering& t);

/// Runs `emit` in the first `count` threads of the CTA.
void inThreadsBelow(ThreadLowering& t, mlir::Value count, llvm::function_ref<void()> emit);

}  // namespace ligerdsl::compiler::nvptx

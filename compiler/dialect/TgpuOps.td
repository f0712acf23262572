#ifndef LIGERDSL_TGPU_OPS
#define LIGERDSL_TGPU_OPS

include "TgpuDialect.td"
include "TileDialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tgpu_Op<string mnemonic, list<Trait> traits = []> : Op<Tgpu_Dialect, mnemonic, traits>;

def Tgpu_ConvertLayoutOp : Tgpu_Op<"convert_layout", [Pure]> {
  let summary = "The same tile in another layout";
  let description = "Example: `%u = tgpu.convert_layout %t : tensor<64xf32, #a> -> tensor<64xf32, #b>`.";
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Tgpu_OpaqueOp : Tgpu_Op<"opaque", [MemoryEffects<[MemRead]>]> {
  let summary = "The same tile, as a value that no optimiser recognises";
  let description = [{
    What is computed from the result is computed anew, instead of kept in registers since it was computed from the source.
    Example: `%u = tgpu.opaque %t : tensor<64xbf16, #a> -> tensor<64xbf16, #a>`.
  }];
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Tgpu_ReduceInThreadOp : Tgpu_Op<"reduce_in_thread", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Reduces along an axis within registers; lanes, warps and CTAs still vary along it";
  let description = [{
    Operands and combiner as `tile.reduce`. The axis of each result has one element per thread that shares the axis, and its layout has
    zero register bases along it.
  }];
  let arguments = (ins Tile_Reduction:$kind, Variadic<AnyRankedTensor>:$sources, I32Attr:$axis);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$combiner);
  let assemblyFormat = "$kind $sources attr-dict `:` type($sources) `->` type($results) $combiner";
}

def Tgpu_ReduceInWarpOp : Tgpu_Op<"reduce_in_warp", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Reduces along an axis within registers and lanes; only warps still vary along it";
  let description = [{
    Operands and combiner as `tile.reduce`. The axis of each result has one element per warp that shares the axis (1 when none
    does), and its layout has zero register and lane bases along it: every lane holds its warp's value.
    With an axis of size 1 left, the result may drop it (results as `tile.reduce`'s).
  }];
  let arguments = (ins Tile_Reduction:$kind, Variadic<AnyRankedTensor>:$sources, I32Attr:$axis);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$combiner);
  let assemblyFormat = "$kind $sources attr-dict `:` type($sources) `->` type($results) $combiner";
}

def Tgpu_ScanInWarpOp : Tgpu_Op<"scan_in_warp", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Inclusive scan along an axis that lies within one warp";
  let description = [{
    Operands and combiner as `tile.scan`; results have the sources' layout. Along the axis that layout has register bits lowest (each
    lane holds neighbouring elements), then the lowest lane bits in order, no warp bits; odd copies are outermost.
  }];
  let arguments = (ins Tile_Reduction:$kind, Variadic<AnyRankedTensor>:$sources, I32Attr:$axis, UnitAttr:$reverse);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$combiner);
  let assemblyFormat = "$kind $sources attr-dict `:` type($sources) `->` type($results) $combiner";
}

def Tgpu_YieldOp : Tgpu_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Ends a combiner region";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Tgpu_LocalAllocOp : Tgpu_Op<"local_alloc", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A buffer in shared memory; `offset` in bytes once tgpu-allocate-shared has run";
  let description = "Example: `%m = tgpu.local_alloc {offset = 0 : i64} : !tgpu.memdesc<64xf32>`.";
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Tgpu_MemDescType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tgpu_LocalStageOp : Tgpu_Op<"local_stage", [Pure]> {
  let summary = "One of the equal parts of a buffer: element `index` of its first dimension";
  let description = [{
    Example: `%s = tgpu.local_stage %m[%i] : !tgpu.memdesc<2x64xf32> -> !tgpu.memdesc<64xf32>`. With an index that a loop
    carries and flips (0, 1, 0, ...), neighbouring iterations use different memory.
  }];
  let arguments = (ins Tgpu_MemDescType:$buffer, I32:$index);
  let results = (outs Tgpu_MemDescType:$result);
  let assemblyFormat = "$buffer `[` $index `]` attr-dict `:` type($buffer) `->` type($result)";
}

def Tgpu_LocalStoreOp : Tgpu_Op<"local_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "Writes a tile to shared memory, each element by one of the threads that hold it";
  let description = "Example: `tgpu.local_store %t, %m : tensor<64xf32, #a>, !tgpu.memdesc<64xf32>`.";
  let arguments = (ins AnyRankedTensor:$value, Tgpu_MemDescType:$buffer);
  let assemblyFormat = "$value `,` $buffer attr-dict `:` type($value) `,` type($buffer)";
}

def Tgpu_LocalGatherOp : Tgpu_Op<"local_gather", [MemoryEffects<[MemRead]>]> {
  let summary = "Reads elements of a buffer whose place along an axis is computed";
  let description = [{
    The place is that of tile.gather where there is an index, else the result's own with the bits of `mask` flipped; along the other
    dimensions it is the result's.
    Example: `%t = tgpu.local_gather %m[%i : tensor<8xi32, #b>] {axis = 0 : i32} : !tgpu.memdesc<64xf32> -> tensor<8xf32, #b>`.
  }];
  let arguments = (ins Tgpu_MemDescType:$buffer, Optional<AnyRankedTensor>:$index, I32Attr:$axis,
                   DefaultValuedAttr<I32Attr, "0">:$mask);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$buffer (`[` $index^ `:` type($index) `]`)? attr-dict `:` type($buffer) `->` type($result)";
}

def Tgpu_LocalLoadOp : Tgpu_Op<"local_load", [MemoryEffects<[MemRead]>]> {
  let summary = "Reads a tile from shared memory in the result's layout";
  let description = [{
    With a `limit`, elements of the last dimension from there on read as `pad` (0 without it); it is a multiple of 16
    bytes.
    Example: `%t = tgpu.local_load %m : !tgpu.memdesc<64xf32> -> tensor<64xf32, #b>`.
  }];
  let arguments = (ins Tgpu_MemDescType:$buffer, Optional<I32>:$limit, OptionalAttr<TypedAttrInterface>:$pad);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$buffer (`limit` $limit^)? attr-dict `:` type($buffer) `->` type($result)";
}

//===-- Asynchronous copies -----------------------------------------------------------------------------------------===//

def Tgpu_InitMbarriersOp : Tgpu_Op<"init_mbarriers", [MemoryEffects<[MemWrite]>]> {
  let summary = "Prepares memory barriers for phases of one arrival each; once, before their use";
  let description = "Example: `tgpu.init_mbarriers %b : !tgpu.memdesc<4xi64>`.";
  let arguments = (ins Tgpu_MemDescType:$barriers);
  let assemblyFormat = "$barriers attr-dict `:` type($barriers)";
}

def Tgpu_BulkCopyOp : Tgpu_Op<"bulk_copy", [SingleBlock, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Starts copies of tiles of a view into stages of shared memory";
  let description = [{
    For positions first .. first + count - 1: position p goes to stage (base + p) modulo the number of stages, and the stage's
    barrier learns when it has arrived. The region computes for a position the tile's indices, its alignment offset where there is one, and,
    last, how many of its elements come before the view's end. Of vectors of 16 bytes that a row only begins or ends in the
    other elements become `pad`. Each position is served by one thread, so there are at most as many as a CTA has threads. All
    threads must have read what was in the stages.

    Example:
    ```
    tgpu.bulk_copy %x shape [0, 64] into %s, %b base %0 from %0 count %4 : !tile.view<...>, !tgpu.memdesc<4x64xbf16>, !tgpu.memdesc<4xi64> {
    ^bb0(%position: i32):
      %column = arith.extsi %position : i32 to i64
      tgpu.yield %row, %column, %inside : i64, i64, i32
    }
    ```
  }];
  let arguments = (ins Tile_ViewType:$view, DenseI64ArrayAttr:$tileShape, Tgpu_MemDescType:$stages,
                   Tgpu_MemDescType:$barriers, I32:$base, I32:$first, I32:$count,
                   OptionalAttr<TypedAttrInterface>:$pad, DefaultValuedAttr<Tile_Evict, "tile::EvictHint::normal">:$evict);
  let regions = (region SizedRegion<1>:$position);
  let assemblyFormat = [{
    $view `shape` $tileShape `into` $stages `,` $barriers `base` $base `from` $first `count` $count
    attr-dict `:` type($view) `,` type($stages)
    `,` type($barriers) $position
  }];
}

def Tgpu_BulkWaitOp : Tgpu_Op<"bulk_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until the copy into a stage has arrived";
  let description = [{
    `parity` is that of the number of copies into this stage before the awaited one.
    Example: `tgpu.bulk_wait %b[%stage] parity %p : !tgpu.memdesc<4xi64>`.
  }];
  let arguments = (ins Tgpu_MemDescType:$barriers, I32:$stage, I32:$parity);
  let assemblyFormat = "$barriers `[` $stage `]` `parity` $parity attr-dict `:` type($barriers)";
}

def Tgpu_FenceBulkCopiesOp : Tgpu_Op<"fence_bulk_copies", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "What this thread has read of shared memory comes before the bulk copies that follow the next barrier";
  let description = "Copies write by another proxy: a barrier alone does not order them. Example: `tgpu.fence_bulk_copies`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_GridWaitOp : Tgpu_Op<"grid_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Every grid that this one depends on has ended, and what it wrote is visible after";
  let description = "Nothing before it touches global memory. Example: `tgpu.grid_wait`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_LaunchDependentsOp : Tgpu_Op<"launch_dependents", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "The grid that depends on this one may start once every CTA came here or ended";
  let description = "Example: `tgpu.launch_dependents`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_MayWaitOp : Tgpu_Op<"may_wait", [Pure]> {
  let summary = "Whether this program may be one of those that wait at tgpu.grid_wait: the first that a machine has places for";
  let description = "Example: `%w = tgpu.may_wait : i1`.";
  let results = (outs I1:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tgpu_BarrierOp : Tgpu_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "All threads of the CTA meet; shared memory written before is visible after";
  let description = "Example: `tgpu.barrier`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_RemoteStoreOp : Tgpu_Op<"remote_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "Writes a tile to the same buffer of every CTA of the cluster, each element by one of the threads that hold it";
  let description = [{
    The buffer is of the whole tile. With `owners_only`, as behind an atomic, only the canonical owners hold the values.
    Example: `tgpu.remote_store %t, %m : tensor<64xf32, #a>, !tgpu.memdesc<64xf32>`.
  }];
  let arguments = (ins AnyRankedTensor:$value, Tgpu_MemDescType:$buffer, UnitAttr:$owners_only);
  let assemblyFormat = "$value `,` $buffer attr-dict `:` type($value) `,` type($buffer)";
}

def Tgpu_ClusterBarrierOp : Tgpu_Op<"cluster_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "All threads of the cluster meet; memory written before, of any CTA, is visible after";
  let description = "Example: `tgpu.cluster_barrier`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_ClusterSendOp : Tgpu_Op<"cluster_send", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Sends tiles to every CTA of the cluster, each element by one of the threads that hold it";
  let description = [{
    `stages` hold two turns of each tile, `barriers` one memory barrier per turn. Gives the turn, 0 or 1 alternately, and the
    parity with which it is received. Every CTA sends every time, so whoever received a turn knows that all have read the one
    before; elements have 32 or 64 bits.

    With `from_first`, as behind an atomic, what counts is the copy of the cluster's first CTA: the stages of a turn are one
    for each sender, and its stage comes first.

    Example:
    ```
    %turn, %parity = tgpu.cluster_send %m, %s to %a, %b signal %barriers
        : tensor<16xf32, #w>, tensor<16xf32, #w>, !tgpu.memdesc<2x16xf32>, !tgpu.memdesc<2x16xf32>, !tgpu.memdesc<2xi64>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values, Variadic<Tgpu_MemDescType>:$stages,
                   Tgpu_MemDescType:$barriers, UnitAttr:$from_first);
  let results = (outs I32:$turn, I32:$parity);
  let assemblyFormat = [{
    $values `to` $stages `signal` $barriers attr-dict `:` type($values) `,` type($stages) `,` type($barriers)
  }];
}

def Tgpu_ClusterReceiveOp : Tgpu_Op<"cluster_receive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until what all CTAs of the cluster sent in a turn is here";
  let description = "Example: `tgpu.cluster_receive %barriers[%turn] parity %parity : !tgpu.memdesc<2xi64>`.";
  let arguments = (ins Tgpu_MemDescType:$barriers, I32:$turn, I32:$parity);
  let assemblyFormat = "$barriers `[` $turn `]` `parity` $parity attr-dict `:` type($barriers)";
}

def Tgpu_ClusterArriveOp : Tgpu_Op<"cluster_arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Tells the cluster that this CTA runs; orders no memory";
  let description = "Stands once in a kernel, before a `tgpu.cluster_wait`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_ClusterWaitOp : Tgpu_Op<"cluster_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until all CTAs of the cluster have arrived at tgpu.cluster_arrive";
  let description = "From here on the shared memory of all CTAs may be touched.";
  let assemblyFormat = "attr-dict";
}

//===-- Staged tiles ------------------------------------------------------------------------------------------------===//

def Tgpu_AsyncCopyOp : Tgpu_Op<"async_copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Starts the copy of a view's tile to shared memory";
  let description = [{
    Every thread copies the elements that it will read itself (tgpu.staged_tile on the same memory, whose layout decides), so
    only the thread waits, and no barrier is needed. Elements outside of the view become 0.

    Example: `tgpu.async_copy %v[%i, %j] shape [1, 4096] into %stage : !tile.view<...>, !tgpu.memdesc<1x4096xbf16>`.
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<I64>:$indices, DenseI64ArrayAttr:$tileShape, Tgpu_MemDescType:$buffer);
  let assemblyFormat = [{
    $view `[` $indices `]` `shape` $tileShape `into` $buffer attr-dict `:` type($view) `,` type($buffer)
  }];
}

def Tgpu_StagedTileOp : Tgpu_Op<"staged_tile", [MemoryEffects<[MemRead]>]> {
  let summary = "The tile that a tgpu.async_copy has brought to shared memory";
  let description = [{
    Operands as `tile.load_tile`'s, and where the tile waits. The memory keeps the tile for this iteration of the loop, so it
    may be read again instead of waiting in registers.

    Example: `%t = tgpu.staged_tile %v[%i, %j] shape [1, 4096] from %stage : !tile.view<...>, !tgpu.memdesc<...> -> tensor<...>`.
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<I64>:$indices, DenseI64ArrayAttr:$tileShape, Tgpu_MemDescType:$buffer);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $view `[` $indices `]` `shape` $tileShape `from` $buffer attr-dict `:` type($view) `,` type($buffer) `->` type($result)
  }];
}

def Tgpu_AsyncCommitOp : Tgpu_Op<"async_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "The copies started since the last one form a group";
  let description = "Example: `tgpu.async_commit`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_AsyncWaitOp : Tgpu_Op<"async_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until at most `pending` groups of this thread's copies are under way";
  let description = "Example: `tgpu.async_wait 1`.";
  let arguments = (ins I32Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

#endif

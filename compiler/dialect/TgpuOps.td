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

def Tgpu_SegmentOp : Tgpu_Op<"segment", [Pure]> {
  let summary = "The segment of a tile that begins at an element, as a separate tile";
  let description = [{
    Every thread already holds its elements of the result.
    Example:
    `%u = tgpu.segment %t begin [0, 16] : tensor<64x64xbf16, #a> -> tensor<64x16xbf16, #b>`.
  }];
  let arguments = (ins AnyRankedTensor:$source, DenseI64ArrayAttr:$begin);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source `begin` $begin attr-dict `:` type($source) `->` type($result)";
}

def Tgpu_OpaqueOp : Tgpu_Op<"opaque", [MemoryEffects<[MemRead]>]> {
  let summary = "The same tile, as a value that no optimiser recognises";
  let description = [{
    Values computed from the result are computed again, instead of being reused from the source and
    kept in registers. With `copied` they are also computed again in every iteration of a loop, at
    the cost of a copy that ptxas sees.
    Example: `%u = tgpu.opaque %t : tensor<64xbf16, #a> -> tensor<64xbf16, #a>`.
  }];
  let arguments = (ins AnyRankedTensor:$source, UnitAttr:$copied);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Tgpu_ReduceInThreadOp : Tgpu_Op<"reduce_in_thread", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Reduces along an axis within registers; lanes, warps and CTAs still vary along it";
  let description = [{
    Operands and combiner are those of `tile.reduce`. The axis of each result has one element per
    thread that shares the axis. The layout has zero register bases along it.
  }];
  let arguments = (ins Tile_Reduction:$kind, Variadic<AnyRankedTensor>:$sources, I32Attr:$axis);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$combiner);
  let assemblyFormat = "$kind $sources attr-dict `:` type($sources) `->` type($results) $combiner";
}

def Tgpu_ReduceInWarpOp : Tgpu_Op<"reduce_in_warp", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Reduces along an axis within registers and lanes; only warps still vary along it";
  let description = [{
    Operands and combiner are those of `tile.reduce`. The axis of each result has one element per
    warp that shares the axis (1 if none does). The layout has zero register and lane bases along
    it: every lane holds the value of its warp. If the axis has size 1, the result may drop it, as
    in `tile.reduce`.
  }];
  let arguments = (ins Tile_Reduction:$kind, Variadic<AnyRankedTensor>:$sources, I32Attr:$axis);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$combiner);
  let assemblyFormat = "$kind $sources attr-dict `:` type($sources) `->` type($results) $combiner";
}

def Tgpu_ScanInWarpOp : Tgpu_Op<"scan_in_warp", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Inclusive scan along an axis that is within one warp";
  let description = [{
    Operands and combiner are those of `tile.scan`. The results have the layout of the sources.
    Along the axis, this layout has register bits lowest (each lane holds contiguous elements), then
    the lowest lane bits in order, and no warp bits. Copies of an odd factor are outermost.
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
  let summary = "A buffer in shared memory; tgpu-allocate-shared sets its `offset` in bytes";
  let description = "Example: `%m = tgpu.local_alloc {offset = 0 : i64} : !tgpu.memdesc<64xf32>`.";
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Tgpu_MemDescType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tgpu_LocalStageOp : Tgpu_Op<"local_stage", [Pure]> {
  let summary = "One of the equal parts of a buffer: element `index` of its first dimension";
  let description = [{
    Example: `%s = tgpu.local_stage %m[%i] : !tgpu.memdesc<2x64xf32> -> !tgpu.memdesc<64xf32>`. With
    an index that a loop carries and flips (0, 1, 0, ...), consecutive iterations use different
    memory.
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
  let summary = "Reads elements of a buffer at computed positions along an axis";
  let description = [{
    Element i along the axis of the result is element index[i] of the buffer, as in tile.gather.
    Without an index, it is element i ^ mask. Along the other dimensions, positions in buffer and
    result are the same.
    Example:
    `%t = tgpu.local_gather %m[%i : tensor<8xi32, #b>] {axis = 0 : i32} : !tgpu.memdesc<64xf32> -> tensor<8xf32, #b>`.
  }];
  let arguments = (ins Tgpu_MemDescType:$buffer, Optional<AnyRankedTensor>:$index, I32Attr:$axis,
                   DefaultValuedAttr<I32Attr, "0">:$mask);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$buffer (`[` $index^ `:` type($index) `]`)? attr-dict `:` type($buffer) `->` type($result)";
}

def Tgpu_LocalLoadOp : Tgpu_Op<"local_load", [MemoryEffects<[MemRead]>]> {
  let summary = "Reads a tile from shared memory in the result's layout";
  let description = "Example: `%t = tgpu.local_load %m : !tgpu.memdesc<64xf32> -> tensor<64xf32, #b>`.";
  let arguments = (ins Tgpu_MemDescType:$buffer);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($result)";
}

def Tgpu_TensorStoreOp : Tgpu_Op<"tensor_store", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Starts TMA copies of a tile from swizzled shared memory to a view, by one thread; they continue after the op";
  let description = [{
    Elements outside the view are dropped. With `adds` (f32 only), the tile is added to memory. The
    buffer must not be written before tgpu.tensor_wait.
    Example:
    `tgpu.tensor_store %m, %y[%row, %c0] shape [128, 64] : !tgpu.memdesc<128x64xbf16, swizzle = 128>, !tile.view<?x?xbf16>`.
  }];
  let arguments = (ins Tgpu_MemDescType:$buffer, Tile_ViewType:$view, Variadic<I64>:$indices, DenseI64ArrayAttr:$tileShape,
                   DefaultValuedAttr<Tile_Evict, "tile::EvictHint::normal">:$evict, UnitAttr:$adds);
  let assemblyFormat = "$buffer `,` $view `[` $indices `]` `shape` $tileShape attr-dict `:` type($buffer) `,` type($view)";
}

def Tgpu_TensorWaitOp : Tgpu_Op<"tensor_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Each thread waits until its TMA stores have read this buffer or, with `written`, have written memory; other threads need a barrier";
  let description = [{
    Example: `tgpu.tensor_wait %m : !tgpu.memdesc<128x64xbf16, swizzle = 128>`. The write effect
    keeps the op in its place.
  }];
  let arguments = (ins Tgpu_MemDescType:$buffer, UnitAttr:$written);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

def Tgpu_InitMbarriersOp : Tgpu_Op<"init_mbarriers", [MemoryEffects<[MemWrite]>]> {
  let summary = "Initialises mbarriers for phases of one arrival each; once, before their use";
  let description = "Example: `tgpu.init_mbarriers %b : !tgpu.memdesc<4xi64>`.";
  let arguments = (ins Tgpu_MemDescType:$barriers);
  let assemblyFormat = "$barriers attr-dict `:` type($barriers)";
}

//===-- Rings -------------------------------------------------------------------------------------------------------===//

def Tgpu_RingOp : Tgpu_Op<"ring", [MemoryEffects<[MemAlloc, MemWrite]>]> {
  let summary = "Allocates and initialises a ring; tgpu-allocate-shared sets the `offsets` in bytes of its parts and, last, of its mbarriers";
  let description = [{
    If copies complete on mbarriers, the op synchronises the threads, so that the mbarriers are
    initialised after it.
    Example: `%r = tgpu.ring : !tgpu.ring<3 bulk of <512xf32>>`.
  }];
  let arguments = (ins OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Tgpu_RingType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tgpu_RingFillOp : Tgpu_Op<"ring_fill", [SingleBlock, AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Starts copies of tiles of views into slots, one view for each part";
  let description = [{
    The region returns the indices of the tiles of a position, part by part. `tileShape`
    concatenates the shapes of all parts.

    bulk: copies positions first .. first + count - 1, with position p in slot (slot + p) modulo the
    number of slots. The region returns the indices, then the alignment offset if there is one, then
    the number of the tile's elements before the view's end. If the row begins or ends inside a
    vector of 16 bytes, the other elements of the vector become `pad`. One thread serves each
    position, so `count` is at most the number of threads of a CTA. All threads must have released
    the previous contents of the slots.

    tensor: copies `count` positions, 0 or 1, to `slot`, by one thread. Parts are swizzled. Elements
    outside the view become 0. All threads must have released the previous contents of the slot. The
    copies read nothing that the kernel stores.

    async: copies one position to `slot`; every thread copies its elements of `layouts`. Elements
    outside the view become 0. With `open`, the copies complete together with those of the next
    fill.

    Example:
    ```
    tgpu.ring_fill %r[%0] at %0 count %4 from %x shape [0, 64] : !tgpu.ring<4 bulk of <64xbf16>>, i32, !tile.view<...> {
    ^bb0(%position: i32):
      %column = arith.extsi %position : i32 to i64
      tgpu.yield %row, %column, %inside : i64, i64, i32
    }
    ```
  }];
  let arguments = (ins Tgpu_RingType:$ring, I32:$slot, AnySignlessIntegerOrIndex:$first, Optional<I32>:$count, Variadic<Tile_ViewType>:$views,
                   DenseI64ArrayAttr:$tileShape, OptionalAttr<ArrayAttr>:$layouts, OptionalAttr<TypedAttrInterface>:$pad,
                   DefaultValuedAttr<Tile_Evict, "tile::EvictHint::normal">:$evict, UnitAttr:$open);
  let regions = (region SizedRegion<1>:$position);
  let assemblyFormat = [{
    $ring `[` $slot `]` `at` $first (`count` $count^)? `from` $views `shape` $tileShape attr-dict
    `:` type($ring) `,` type($first) `,` type($views) $position
  }];
  let extraClassDeclaration = [{
    /// Returns the position of the first dimension of a part's view, in `tileShape` and in the
    /// region's results.
    int64_t firstDim(unsigned part);
    ::llvm::ArrayRef<int64_t> shapeOf(unsigned part);
    /// Returns the type of the tile copied to a part. Its layout assigns the elements to threads.
    ::mlir::RankedTensorType tileOf(unsigned part);
  }];
  let hasVerifier = 1;
}

def Tgpu_RingAwaitOp : Tgpu_Op<"ring_await", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until a slot is filled";
  let description = [{
    bulk, tensor: `parity` is the parity of the number of earlier fills of this slot.

    async: after it, at most `pending` fills of this thread are in flight. If all threads read the
    slots, the op synchronises them, so that reads before it have completed. With `for_wgmma`,
    tgpu.wgmma reads the slot.

    Examples: `tgpu.ring_await %r[%slot] parity %p : !tgpu.ring<4 bulk of <64xbf16>>`,
    `tgpu.ring_await %r pending 1 : !tgpu.ring<3 async of <64xbf16>>`.
  }];
  let arguments = (ins Tgpu_RingType:$ring, Optional<I32>:$slot, Optional<I32>:$parity, OptionalAttr<I32Attr>:$pending,
                   UnitAttr:$for_wgmma);
  let assemblyFormat = [{
    $ring (`[` $slot^ `]`)? (`parity` $parity^)? (`pending` $pending^)? attr-dict `:` type($ring)
  }];
  let hasVerifier = 1;
}

def Tgpu_RingReadOp : Tgpu_Op<"ring_read", [MemoryEffects<[MemRead]>]> {
  let summary = "Reads a tile from a slot in the result's layout";
  let description = [{
    With a `limit`, elements of the last dimension from the limit on read as `pad` (0 by default).
    The limit is a multiple of 16 bytes. With `begin`, the result is the segment of the part's tile
    that begins there, at a multiple of the segment's size.
    Example:
    `%t = tgpu.ring_read %r[%slot] part 0 limit %n : !tgpu.ring<3 bulk of <512xf32>> -> tensor<512xf32, #b>`.
  }];
  let arguments = (ins Tgpu_RingType:$ring, I32:$slot, I32Attr:$part, Optional<I32>:$limit, OptionalAttr<TypedAttrInterface>:$pad,
                   OptionalAttr<DenseI64ArrayAttr>:$begin);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$ring `[` $slot `]` `part` $part (`limit` $limit^)? attr-dict `:` type($ring) `->` type($result)";
}

def Tgpu_RingReleaseOp : Tgpu_Op<"ring_release", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Synchronises all threads: later fills may overwrite what they have read";
  let description = [{
    Only for rings that bulk or TMA copies fill. These copies write through the async proxy, so a
    barrier alone would not order them after reads of threads. A barrier does order them after the
    reads of a tgpu.wgmma that has completed.
    Example: `tgpu.ring_release %r : !tgpu.ring<3 bulk of <512xf32>>`.
  }];
  let arguments = (ins Tgpu_RingType:$ring);
  let assemblyFormat = "$ring attr-dict `:` type($ring)";
}

//===-- Matmuls of four warps ----------------------------------------------------------===//

def Tgpu_WgmmaOp : Tgpu_Op<"wgmma", [AllTypesMatch<["acc", "result"]>, MemoryEffects<[MemRead]>]> {
  let summary = "Starts a matmul that adds to an accumulator; tensor cores read one operand, or both, from a slot";
  let description = [{
    The accumulator `acc` has the layout of layout/dot_layout.h for WarpPart::group.

    Operand A is one of:
    - `a`: a tile in registers, in the layout of operand A of that matmul,
    - part `part_a` of the slot: [m, k], or [k, m] with `permuted_a`.

    Operand B is part `part_b` of the slot: [k, n], or [n, k] with `permuted_b`.

    Parts of 8 and 32 bits have k along their rows, so only `permuted_b` is set. For fp8, both
    formats are set. For i8, none is set, and the accumulator is i32. Operands of f32 must already
    be rounded to tf32.

    Only the tensor cores may access the result and the operands until tgpu.wgmma_wait. A later
    wgmma may add to the result.
    Example:
    `%f = tgpu.wgmma %s ring %r[%slot] {part_a = 0 : i32, part_b = 1 : i32} : tensor<128x256xf32, #acc>, !tgpu.ring<...>`.
  }];
  let arguments = (ins AnyRankedTensor:$acc, Optional<AnyRankedTensor>:$a, Tgpu_RingType:$ring, I32:$slot, OptionalAttr<I32Attr>:$part_a,
                   UnitAttr:$permuted_a, I32Attr:$part_b, UnitAttr:$permuted_b, OptionalAttr<Tile_Fp8Format>:$format_a,
                   OptionalAttr<Tile_Fp8Format>:$format_b);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $acc (`rows` $a^)? `ring` $ring `[` $slot `]` attr-dict `:` type($acc) (`rows` type($a)^)? `,` type($ring)
  }];
  let hasVerifier = 1;
}

def Tgpu_WgmmaWaitOp : Tgpu_Op<"wgmma_wait", [AllTypesMatch<["acc", "result"]>, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until at most `pending` wgmma are in flight; with 0 the accumulator is complete";
  let description = "Example: `%s = tgpu.wgmma_wait %f pending 0 : tensor<128x256xf32, #acc>`.";
  let arguments = (ins AnyRankedTensor:$acc, I32Attr:$pending);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$acc `pending` $pending attr-dict `:` type($acc)";
}

//===-- Grids, clusters ---------------------------------------------------------------------------------------------===//

def Tgpu_GridWaitOp : Tgpu_Op<"grid_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until every grid that this one depends on has ended and its writes are visible";
  let description = "No op before it accesses global memory. Example: `tgpu.grid_wait`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_LaunchDependentsOp : Tgpu_Op<"launch_dependents", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Allows the dependent grid to start once every CTA has reached this op or ended";
  let description = "Example: `tgpu.launch_dependents`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_MayWaitOp : Tgpu_Op<"may_wait", [Pure]> {
  let summary = "True if this program may wait at tgpu.grid_wait: it is one of the first that fit on the GPU at once";
  let description = "Example: `%w = tgpu.may_wait : i1`.";
  let results = (outs I1:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tgpu_BarrierOp : Tgpu_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Synchronises all threads of the CTA; shared memory written before is visible after";
  let description = "Example: `tgpu.barrier`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_RemoteStoreOp : Tgpu_Op<"remote_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "Writes a tile to the same buffer of every CTA of the cluster, each element by one of the threads that hold it";
  let description = [{
    The buffer holds the whole tile. With `owners_only`, as after an atomic, only the canonical
    owners hold the values.
    Example: `tgpu.remote_store %t, %m : tensor<64xf32, #a>, !tgpu.memdesc<64xf32>`.
  }];
  let arguments = (ins AnyRankedTensor:$value, Tgpu_MemDescType:$buffer, UnitAttr:$owners_only);
  let assemblyFormat = "$value `,` $buffer attr-dict `:` type($value) `,` type($buffer)";
}

def Tgpu_ClusterBarrierOp : Tgpu_Op<"cluster_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Synchronises all threads of the cluster; memory of any CTA written before is visible after";
  let description = "Example: `tgpu.cluster_barrier`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_ClusterSendOp : Tgpu_Op<"cluster_send", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Sends tiles to every CTA of the cluster, each element by one of the threads that hold it";
  let description = [{
    `stages` hold two copies of each tile, and `barriers` one mbarrier per copy. Returns the number
    of the copy, alternately 0 and 1, and the parity with which it is received. Every CTA sends
    every time. After a CTA has received a copy, all CTAs have therefore read the previous one.
    Elements have 32 or 64 bits.

    With `from_first`, as after an atomic, the copy of the cluster's first CTA is the valid one.
    Each sender then has its own stage, and the stage of the first CTA comes first.

    Example:
    ```
    %stage, %parity = tgpu.cluster_send %m, %s to %a, %b signal %barriers
        : tensor<16xf32, #w>, tensor<16xf32, #w>, !tgpu.memdesc<2x16xf32>, !tgpu.memdesc<2x16xf32>, !tgpu.memdesc<2xi64>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values, Variadic<Tgpu_MemDescType>:$stages,
                   Tgpu_MemDescType:$barriers, UnitAttr:$from_first);
  let results = (outs I32:$stage, I32:$parity);
  let assemblyFormat = [{
    $values `to` $stages `signal` $barriers attr-dict `:` type($values) `,` type($stages) `,` type($barriers)
  }];
}

def Tgpu_ClusterReceiveOp : Tgpu_Op<"cluster_receive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until the tiles that all CTAs of the cluster sent have arrived";
  let description = "Example: `tgpu.cluster_receive %barriers[%stage] parity %parity : !tgpu.memdesc<2xi64>`.";
  let arguments = (ins Tgpu_MemDescType:$barriers, I32:$stage, I32:$parity);
  let assemblyFormat = "$barriers `[` $stage `]` `parity` $parity attr-dict `:` type($barriers)";
}

def Tgpu_ClusterArriveOp : Tgpu_Op<"cluster_arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Signals to the cluster that this CTA runs; orders no memory";
  let description = "A kernel has at most one, before a `tgpu.cluster_wait`.";
  let assemblyFormat = "attr-dict";
}

def Tgpu_ClusterWaitOp : Tgpu_Op<"cluster_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until all CTAs of the cluster have arrived at tgpu.cluster_arrive";
  let description = "After it, the shared memory of all CTAs may be accessed.";
  let assemblyFormat = "attr-dict";
}

#endif

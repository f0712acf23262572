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

def Tgpu_StretchOp : Tgpu_Op<"stretch", [Pure]> {
  let summary = "The stretch of a tile that begins at an element, as a tile of its own";
  let description = [{
    Every thread holds the result's elements already.
    Example: `%u = tgpu.stretch %t begin [0, 16] : tensor<64x64xbf16, #a> -> tensor<64x16xbf16, #b>`.
  }];
  let arguments = (ins AnyRankedTensor:$source, DenseI64ArrayAttr:$begin);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source `begin` $begin attr-dict `:` type($source) `->` type($result)";
}

def Tgpu_OpaqueOp : Tgpu_Op<"opaque", [MemoryEffects<[MemRead]>]> {
  let summary = "The same tile, as a value that no optimiser recognises";
  let description = [{
    What is computed from the result is computed anew, instead of kept in registers since it was computed from the source.
    `copied`: also anew in every turn of a loop, at the price of a copy that ptxas sees.
    Example: `%u = tgpu.opaque %t : tensor<64xbf16, #a> -> tensor<64xbf16, #a>`.
  }];
  let arguments = (ins AnyRankedTensor:$source, UnitAttr:$copied);
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
  let description = "Example: `%t = tgpu.local_load %m : !tgpu.memdesc<64xf32> -> tensor<64xf32, #b>`.";
  let arguments = (ins Tgpu_MemDescType:$buffer);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($result)";
}

def Tgpu_TensorStoreOp : Tgpu_Op<"tensor_store", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Writes a tile from swizzled shared memory to a view by tensor copies of one thread, which go on behind the op";
  let description = [{
    Elements outside of the view are dropped. With `adds`, of f32, memory becomes what it holds plus the tile. The buffer is not written before tgpu.tensor_wait.
    Example: `tgpu.tensor_store %m, %y[%row, %c0] shape [128, 64] : !tgpu.memdesc<128x64xbf16, swizzle = 128>, !tile.view<?x?xbf16>`.
  }];
  let arguments = (ins Tgpu_MemDescType:$buffer, Tile_ViewType:$view, Variadic<I64>:$indices, DenseI64ArrayAttr:$tileShape,
                   DefaultValuedAttr<Tile_Evict, "tile::EvictHint::normal">:$evict, UnitAttr:$adds);
  let assemblyFormat = "$buffer `,` $view `[` $indices `]` `shape` $tileShape attr-dict `:` type($buffer) `,` type($view)";
}

def Tgpu_TensorWaitOp : Tgpu_Op<"tensor_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Each thread waits until its tensor stores have read this buffer, or `written` what they write; others meet it at a barrier";
  let description = [{
    Example: `tgpu.tensor_wait %m : !tgpu.memdesc<128x64xbf16, swizzle = 128>`. (The write effect keeps the op where it is.)
  }];
  let arguments = (ins Tgpu_MemDescType:$buffer, UnitAttr:$written);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

def Tgpu_InitMbarriersOp : Tgpu_Op<"init_mbarriers", [MemoryEffects<[MemWrite]>]> {
  let summary = "Prepares memory barriers for phases of one arrival each; once, before their use";
  let description = "Example: `tgpu.init_mbarriers %b : !tgpu.memdesc<4xi64>`.";
  let arguments = (ins Tgpu_MemDescType:$barriers);
  let assemblyFormat = "$barriers attr-dict `:` type($barriers)";
}

//===-- Rings -------------------------------------------------------------------------------------------------------===//

def Tgpu_RingOp : Tgpu_Op<"ring", [MemoryEffects<[MemAlloc, MemWrite]>]> {
  let summary = "The memory of a ring, made ready; `offsets` in bytes of its parts and, last, of its barriers, once tgpu-allocate-shared has run";
  let description = [{
    Where memory barriers tell of copies, the threads meet here: the barriers are ready behind it.
    Example: `%r = tgpu.ring : !tgpu.ring<3 bulk of <512xf32>>`.
  }];
  let arguments = (ins OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Tgpu_RingType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tgpu_RingFillOp : Tgpu_Op<"ring_fill", [SingleBlock, AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Starts copies of tiles of views into slots, one view for each part";
  let description = [{
    The region says where the tiles of a position are: their indices, part by part. `tileShape` has the shapes of all parts behind each other.

    bulk: for positions first .. first + count - 1, position p to slot (slot + p) modulo the number of slots. The region gives, behind the
    indices, the alignment offset where there is one, and, last, how many of the tile's elements come before the view's end. Of vectors of 16 bytes that a row only
    begins or ends in the other elements become `pad`. Each position is served by one thread, so there are at most as many as a CTA has
    threads. All threads must have released what was in the slots.

    tensor: `count`, 0 or 1, positions, to `slot`, by one thread; parts are swizzled. Elements outside of the view become 0. All threads must
    have released what was in the slot. Nothing that the kernel stores is read.

    async: one position, to `slot`; every thread copies its elements of `layouts`. Elements outside of the view become 0. With `open`, the
    copies are there when those of the next fill are.

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
    /// Where the dimensions of a part's view begin in `tileShape` and among what the region gives.
    int64_t firstDim(unsigned part);
    ::llvm::ArrayRef<int64_t> shapeOf(unsigned part);
    /// The tile that is copied to a part, in the layout that says which thread copies what.
    ::mlir::RankedTensorType tileOf(unsigned part);
  }];
  let hasVerifier = 1;
}

def Tgpu_RingAwaitOp : Tgpu_Op<"ring_await", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until a slot is filled";
  let description = [{
    bulk, tensor: `parity` is that of the number of fills of this slot before the awaited one.
    async: at most `pending` fills of this thread are under way behind it; where all threads read, they meet, so that whoever comes here has
    read what came before. With `for_wgmma`, tgpu.wgmma reads what was filled.
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
    With a `limit`, elements of the last dimension from there on read as `pad` (0 without it); it is a multiple of 16
    bytes. With `begin`, the result is the stretch of the part's tile that begins there, at a multiple of its own size.
    Example: `%t = tgpu.ring_read %r[%slot] part 0 limit %n : !tgpu.ring<3 bulk of <512xf32>> -> tensor<512xf32, #b>`.
  }];
  let arguments = (ins Tgpu_RingType:$ring, I32:$slot, I32Attr:$part, Optional<I32>:$limit, OptionalAttr<TypedAttrInterface>:$pad,
                   OptionalAttr<DenseI64ArrayAttr>:$begin);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$ring `[` $slot `]` `part` $part (`limit` $limit^)? attr-dict `:` type($ring) `->` type($result)";
}

def Tgpu_RingReleaseOp : Tgpu_Op<"ring_release", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "All threads meet: fills that follow may overwrite what they have read";
  let description = [{
    Of rings that bulk or tensor copies fill. Those write by another proxy, so a barrier alone would not order them behind reads of threads;
    it does behind those of tgpu.wgmma that were waited for.
    Example: `tgpu.ring_release %r : !tgpu.ring<3 bulk of <512xf32>>`.
  }];
  let arguments = (ins Tgpu_RingType:$ring);
  let assemblyFormat = "$ring attr-dict `:` type($ring)";
}

//===-- Products of four warps ---------------------------------------------------------===//

def Tgpu_WgmmaOp : Tgpu_Op<"wgmma", [AllTypesMatch<["sums", "result"]>, MemoryEffects<[MemRead]>]> {
  let summary = "Starts to add the product of two tiles to sums; one of them, or both, is read from a slot by the tensor cores";
  let description = [{
    The sums are those of layout/dot_layout.h for WarpPart::group. `a` is a tile in registers as that product has it, else part `part_a` of
    the slot, [m, k], with `permuted_a` [k, m]; part `part_b` is [k, n], with `permuted_b` [n, k]. Parts of 8 and 32 bits have k along
    their rows: `permuted_b` alone; fp8 its formats, i8 without them sums of i32, and f32 is rounded to tf32 by then. The result,
    and what is read, are the tensor cores' until tgpu.wgmma_wait; a product that follows may add to the result.
    Example: `%f = tgpu.wgmma %s ring %r[%slot] {part_a = 0 : i32, part_b = 1 : i32} : tensor<128x256xf32, #sums>, !tgpu.ring<...>`.
  }];
  let arguments = (ins AnyRankedTensor:$sums, Optional<AnyRankedTensor>:$a, Tgpu_RingType:$ring, I32:$slot, OptionalAttr<I32Attr>:$part_a,
                   UnitAttr:$permuted_a, I32Attr:$part_b, UnitAttr:$permuted_b, OptionalAttr<Tile_Fp8Format>:$format_a,
                   OptionalAttr<Tile_Fp8Format>:$format_b);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $sums (`rows` $a^)? `ring` $ring `[` $slot `]` attr-dict `:` type($sums) (`rows` type($a)^)? `,` type($ring)
  }];
  let hasVerifier = 1;
}

def Tgpu_WgmmaWaitOp : Tgpu_Op<"wgmma_wait", [AllTypesMatch<["sums", "result"]>, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until at most `pending` products are under way; with 0 the sums are there";
  let description = "Example: `%s = tgpu.wgmma_wait %f pending 0 : tensor<128x256xf32, #sums>`.";
  let arguments = (ins AnyRankedTensor:$sums, I32Attr:$pending);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$sums `pending` $pending attr-dict `:` type($sums)";
}

//===-- Grids, clusters ---------------------------------------------------------------------------------------------===//

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

#endif

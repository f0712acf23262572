#ifndef LIGERDSL_TILE_OPS
#define LIGERDSL_TILE_OPS

include "TileDialect.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

//===-- Programs and creation ---------------------------------------------------------------------------------------===//

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "Index of this program along one grid axis";
  let description = "Example: `%pid = tile.program_id 0 : i32`. The result is in [0, num_programs).";
  let arguments = (ins ConfinedAttr<I32Attr, [IntMinValue<0>, IntMaxValue<2>]>:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

def Tile_NumProgramsOp : Tile_Op<"num_programs", [Pure]> {
  let summary = "Number of programs along one grid axis";
  let description = "Example: `%n = tile.num_programs 0 : i32`.";
  let arguments = (ins ConfinedAttr<I32Attr, [IntMinValue<0>, IntMaxValue<2>]>:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

def Tile_MakeRangeOp : Tile_Op<"make_range", [Pure]> {
  let summary = "The numbers 0, 1, ..., n-1";
  let description = "Example: `%r = tile.make_range : tensor<128xi32>`.";
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_DimOp : Tile_Op<"dim", [Pure]> {
  let summary = "Size of one dimension of a view";
  let description = "Example: `%n = tile.dim %x, 1 : !tile.view<?x?xf32, strides = [?, 1]>`.";
  let arguments = (ins Tile_ViewType:$view, I32Attr:$axis);
  let results = (outs I64:$result);
  let assemblyFormat = "$view `,` $axis attr-dict `:` type($view)";
  let hasFolder = 1;
}

def Tile_StrideOp : Tile_Op<"stride", [Pure]> {
  let summary = "Stride of one dimension of a view, in elements";
  let description = "Example: `%s = tile.stride %x, 0 : !tile.view<?x?xf32, strides = [?, 1]>`.";
  let arguments = (ins Tile_ViewType:$view, I32Attr:$axis);
  let results = (outs I64:$result);
  let assemblyFormat = "$view `,` $axis attr-dict `:` type($view)";
  let hasFolder = 1;
}

def Tile_SliceOp : Tile_Op<"slice", [Pure]> {
  let summary = "The elements [begin, end) of one dimension of a view, clamped to the view";
  let description = [{
    `begin` and `end` are clamped to the dimension, and an `end` before `begin` counts as `begin`.
    The type of the result keeps the facts of the view that hold for any `begin` (tile::sliceType).

    Example:
    `%g = tile.slice %x, 0 from %begin to %end : !tile.view<?x64xf32, strides = [?, 1]> -> !tile.view<?x64xf32, strides = [?, 1]>`.
  }];
  let arguments = (ins Tile_ViewType:$view, I32Attr:$axis, I64:$begin, I64:$end);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = "$view `,` $axis `from` $begin `to` $end attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_AlignmentOffsetOp : Tile_Op<"alignment_offset", [Pure]> {
  let summary = "Number of elements between the 16-byte boundary at or before a row and the row itself";
  let description = [{
    The row is along the last axis, and `indices` are the indices of all other axes. If the view's
    type proves that rows are aligned, importing folds the alignment offset to 0.

    Example: `%l = tile.alignment_offset %x[%row] : !tile.view<?x50257xbf16, strides = [?, 1]>`.
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<I64>:$indices);
  let results = (outs I32:$result);
  let assemblyFormat = "$view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

//===-- Shape -------------------------------------------------------------------------------------------------------===//

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "A tile whose every element is one scalar or pointer";
  let description = "Example: `%t = tile.splat %s : f32 -> tensor<128xf32>`.";
  let arguments = (ins AnyType:$source);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_ExpandDimsOp : Tile_Op<"expand_dims", [Pure]> {
  let summary = "Inserts a dimension of size 1";
  let description = "Example: `%u = tile.expand_dims %t {axis = 1 : i32} : tensor<8xf32> -> tensor<8x1xf32>`.";
  let arguments = (ins Tile_Tensor:$source, I32Attr:$axis);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "Repeats dimensions of size 1";
  let description = "Example: `%u = tile.broadcast %t : tensor<8x1xf32> -> tensor<8x64xf32>`.";
  let arguments = (ins Tile_Tensor:$source);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ReshapeOp : Tile_Op<"reshape", [Pure]> {
  let summary = "The same elements, in row-major order, under another shape";
  let description = "Example: `%u = tile.reshape %t : tensor<128xf32> -> tensor<2x64xf32>`.";
  let arguments = (ins Tile_Tensor:$source);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_PermuteOp : Tile_Op<"permute", [Pure]> {
  let summary = "Reorders dimensions: result dimension i is source dimension permutation[i]";
  let description = "Example: `%u = tile.permute %t [1, 0] : tensor<8x64xf32> -> tensor<64x8xf32>`.";
  let arguments = (ins Tile_Tensor:$source, DenseI64ArrayAttr:$permutation);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source $permutation attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ShuffleXorOp : Tile_Op<"shuffle_xor", [Pure, SameOperandsAndResultType]> {
  let summary = "Element i along an axis is the source's element i ^ mask";
  let description = [{
    The mask is less than the largest power of two that divides the size of the axis, so the copies
    of an odd factor keep their places.
    Example: `%u = tile.shuffle_xor %t {axis = 0 : i32, mask = 4 : i32} : tensor<64xf32>`.
  }];
  let arguments = (ins Tile_Tensor:$source, I32Attr:$axis, I32Attr:$mask);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Tile_GatherOp : Tile_Op<"gather", [Pure]> {
  let summary = "Element i along an axis is the source's element index[i]";
  let description = [{
    Index and result have the source's shape except along the axis. An index outside the axis, as an
    unsigned number, selects the last element.
    Example:
    `%u = tile.gather %t[%i] {axis = 0 : i32} : tensor<64xf32>, tensor<8xi32> -> tensor<8xf32>`.
  }];
  let arguments = (ins Tile_Tensor:$source, Tile_Tensor:$index, I32Attr:$axis);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source `[` $index `]` attr-dict `:` type($source) `,` type($index) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_DotOp : Tile_Op<"dot", [Pure, TypesMatchWith<"accumulator and result have the same type", "result", "acc", "$_self">]> {
  let summary = "A matmul that adds to an accumulator";
  let description = [{
    A is [m, k], B is [k, n], and accumulator and result are [m, n]:
    - f16, bf16 or f32 operands: f32 accumulator.
    - fp8 operands, with a format for each: f32 accumulator.
    - i8 operands without formats, or i32 operands: i32 accumulator.

    The target chooses the order of additions. With `tf32`, f32 operands are first rounded to 11
    bits of significand, ties away from zero, if the target has tensor cores.
    Example:
    `%d = tile.dot %a, %b, %s : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32>`.
  }];
  let arguments = (ins Tile_Tensor:$a, Tile_Tensor:$b, Tile_Tensor:$acc, OptionalAttr<Tile_Fp8Format>:$format_a,
                   OptionalAttr<Tile_Fp8Format>:$format_b, UnitAttr:$tf32);
  let results = (outs Tile_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$a, "::mlir::Value":$b, "::mlir::Value":$acc), [{
    build($_builder, $_state, result, a, b, acc, ::mlir::TypeAttr(), ::mlir::TypeAttr(), ::mlir::UnitAttr());
  }]>];
  let assemblyFormat = "$a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `->` type($result)";
  let extraClassDeclaration = [{
    bool isFp8() { return getFormatA().has_value(); }
    /// Returns the element type of the operands in memory.
    ::mlir::Type getOperandType() { return ::llvm::cast<::mlir::RankedTensorType>(getA().getType()).getElementType(); }
    bool isInt8() { return !isFp8() && getOperandType().isInteger(8); }
    /// Returns true for f32 operands with all their bits, which tensor cores do not multiply.
    bool isIeeeF32() { return getOperandType().isF32() && !getTf32(); }
    /// Returns the bytes of an operand's element in mma.sync, which multiplies fp8 as f16.
    int64_t getOperandBytes() { return isFp8() ? 2 : getOperandType().getIntOrFloatBitWidth() / 8; }
    /// Returns true if wgmma requires k along the rows: all types except 16-bit ones.
    bool takesRowsOnly() { return getOperandType().getIntOrFloatBitWidth() != 16; }
  }];
  let hasVerifier = 1;
}

//===-- fp8 ---------------------------------------------------------------------------------------------------------===//

def Tile_Fp8Codes : TypeOrValueSemanticsContainer<I8, "codes of fp8">;
def Tile_Fp8Numbers : TypeOrValueSemanticsContainer<AnyTypeOf<[F16, F32]>, "f16 or f32">;
class Tile_Fp8Op<string mnemonic> : Tile_Op<mnemonic, [Pure] # ElementwiseMappable.traits>;

def Tile_Fp8DecodeOp : Tile_Fp8Op<"fp8_decode"> {
  let summary = "Decodes fp8 to f16 or f32";
  let description = "Exact; a NaN becomes a NaN. Example: `%n = tile.fp8_decode %c as f8E5M2 : tensor<8xi8> -> tensor<8xf32>`.";
  let arguments = (ins Tile_Fp8Codes:$source, Tile_Fp8Format:$format);
  let results = (outs Tile_Fp8Numbers:$result);
  let assemblyFormat = "$source `as` $format attr-dict `:` type($source) `->` type($result)";
}

def Tile_Fp8EncodeOp : Tile_Fp8Op<"fp8_encode"> {
  let summary = "Encodes as fp8: rounds to nearest, ties to even";
  let description = [{
    Infinities, and numbers beyond the largest finite fp8 number, become that number. A NaN stays a
    NaN.
    Example: `%c = tile.fp8_encode %n as f8E4M3FN : tensor<8xf32> -> tensor<8xi8>`.
  }];
  let arguments = (ins Tile_Fp8Numbers:$source, Tile_Fp8Format:$format);
  let results = (outs Tile_Fp8Codes:$result);
  let assemblyFormat = "$source `as` $format attr-dict `:` type($source) `->` type($result)";
}

//===-- Memory ------------------------------------------------------------------------------------------------------===//

def Tile_LoadTileOp : Tile_Op<"load_tile", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "Reads one tile of a partitioned view";
  let description = [{
    The view is divided into tiles of `tile_shape`; `indices` count tiles, one per view dimension. A
    dimension of 0 is squeezed: it has one element, and is absent from the result. If all dimensions
    are squeezed, the result is a scalar. Elements outside the view read as `pad`. With an
    `alignment_offset` (of tile.alignment_offset), tiles begin that number of elements earlier on
    the last axis. Loads with the same `resident` number read blocks of one row, which may be kept
    on chip between them (tile-keep-residents).

    Example:
    `%t = tile.load_tile %x[%row, %c0] shape [0, 4096] : !tile.view<?x?xbf16, strides = [?, 1]> -> tensor<4096xbf16>`
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<I64>:$indices, Optional<I32>:$alignment_offset, DenseI64ArrayAttr:$tileShape,
                   OptionalAttr<TypedAttrInterface>:$pad, DefaultValuedAttr<Tile_Cache, "CacheHint::normal">:$cache,
                   DefaultValuedAttr<Tile_Evict, "EvictHint::normal">:$evict, OptionalAttr<I64Attr>:$resident);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $view `[` $indices `]` (`alignment_offset` $alignment_offset^)? `shape` $tileShape
    attr-dict `:` type($view) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreTileOp : Tile_Op<"store_tile", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "Writes one tile of a partitioned view; elements outside the view are dropped";
  let description = [{
    With `adds`, the tile is added to memory. If the target has no instruction for it,
    tile-expand-adds makes it a load, an addition and a store. With `tensor_copies`, the store may
    continue after the op: no other op of the kernel may access this memory.

    Example:
    `tile.store_tile %t, %y[%row, %c0] shape [0, 4096] : tensor<4096xbf16>, !tile.view<?x?xbf16, strides = [?, 1]>`
  }];
  let arguments = (ins AnyType:$value, Tile_ViewType:$view, Variadic<I64>:$indices, Optional<I32>:$alignment_offset,
                   DenseI64ArrayAttr:$tileShape, DefaultValuedAttr<Tile_Cache, "CacheHint::normal">:$cache,
                   DefaultValuedAttr<Tile_Evict, "EvictHint::normal">:$evict, UnitAttr:$adds, UnitAttr:$tensor_copies);
  let assemblyFormat = [{
    $value `,` $view `[` $indices `]` (`alignment_offset` $alignment_offset^)? `shape` $tileShape
    attr-dict `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Tile_PrefetchTileOp : Tile_Op<"prefetch_tile", [MemoryEffects<[MemWrite]>]> {
  let summary = "Prefetches one tile of a partitioned view; changes no value";
  let description = [{
    Takes no registers: a later load_tile of the same tile finds it in L2. Nothing outside the view
    is accessed. The write effect keeps the op in its place.

    Example:
    `tile.prefetch_tile %x[%row, %c0] shape [1, 4096] : !tile.view<?x?xbf16, strides = [?, 1]>`
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<I64>:$indices, DenseI64ArrayAttr:$tileShape);
  let assemblyFormat = "$view `[` $indices `]` `shape` $tileShape attr-dict `:` type($view)";
}

def Tile_ViewPtrOp : Tile_Op<"view_ptr", [Pure]> {
  let summary = "Base pointer of a view";
  let description = "Example: `%p = tile.view_ptr %x : !tile.view<?xf32, strides = [1]> -> !tile.ptr<f32>`.";
  let arguments = (ins Tile_ViewType:$view);
  let results = (outs Tile_PtrType:$result);
  let assemblyFormat = "$view attr-dict `:` type($view) `->` type($result)";
}

def Tile_AddPtrOp : Tile_Op<"addptr", [Pure]> {
  let summary = "Pointer or tile of pointers plus offsets in elements";
  let description = "Example: `%q = tile.addptr %p, %o : tensor<8x!tile.ptr<f32>>, tensor<8xi32>`. The result has the pointer's type.";
  let arguments = (ins AnyType:$ptr, AnyType:$offset);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$ptr `,` $offset attr-dict `:` type($ptr) `,` type($offset) `->` type($result)";
}

def Tile_LoadOp : Tile_Op<"load", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "Gathers through a pointer or tile of pointers";
  let description = [{
    If `mask` is false, nothing is read and the result is `other` (0 without it).
    Example: `%v = tile.load %p mask %m other %o : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>`
  }];
  let arguments = (ins AnyType:$ptr, Optional<AnyType>:$mask, Optional<AnyType>:$other);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $ptr (`mask` $mask^ `:` type($mask))? (`other` $other^ `:` type($other))? attr-dict `:` type($ptr) `->` type($result)
  }];
}

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "Scatters through a pointer or tile of pointers where the mask is true";
  let description = "Example: `tile.store %v, %p mask %m : tensor<8xi1> : tensor<8xf32>, tensor<8x!tile.ptr<f32>>`.";
  let arguments = (ins AnyType:$value, AnyType:$ptr, Optional<AnyType>:$mask);
  let assemblyFormat = "$value `,` $ptr (`mask` $mask^ `:` type($mask))? attr-dict `:` type($value) `,` type($ptr)";
}

def Tile_AtomicRMWOp : Tile_Op<"atomic_rmw", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Atomic read-modify-write, relaxed, at device scope; returns the old value";
  let description = [{
    Masked-off elements are not accessed and return 0. Two elements of one tile may have the same
    address.
    Example:
    `%old = tile.atomic_rmw add %v, %p : tensor<8xf32>, tensor<8x!tile.ptr<f32>> -> tensor<8xf32>`
  }];
  let arguments = (ins Tile_Atomic:$kind, AnyType:$value, AnyType:$ptr, Optional<AnyType>:$mask);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $kind $value `,` $ptr (`mask` $mask^ `:` type($mask))?
    attr-dict `:` type($value) `,` type($ptr) `->` type($result)
  }];
}

//===-- Reductions and scans ----------------------------------------------------------------------------------------===//

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["ReduceOp", "ScanOp"]>]> {
  let summary = "Ends a combiner region";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Tile_ReduceOp : Tile_Op<"reduce", [RecursiveMemoryEffects, SameVariadicOperandSize, SingleBlock]> {
  let summary = "Reduces N tiles of one shape along an axis with one combiner";
  let description = [{
    The region takes N accumulators and N elements (scalars) and yields N scalars. It is associative
    and commutative up to rounding. `kind` names the common combiners of one operand; the region
    then computes the same. The results do not have the axis, and rank-1 operands reduce to scalars.

    Example:
    `%s = tile.reduce sum %t {axis = 0 : i32} : tensor<64xf32> -> f32 { ^bb0(%a: f32, %b: f32): ... tile.yield %c : f32 }`
  }];
  let arguments = (ins Tile_Reduction:$kind, Variadic<Tile_Tensor>:$sources, I32Attr:$axis);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$combiner);
  let assemblyFormat = "$kind $sources attr-dict `:` type($sources) `->` type($results) $combiner";
  let hasVerifier = 1;
}

def Tile_ScanOp : Tile_Op<"scan", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Inclusive scan of N tiles of one shape along an axis with one associative combiner";
  let description = [{
    Example: `%c = tile.scan sum %t {axis = 0 : i32} : tensor<64xf32> -> tensor<64xf32> { ... }`.
    With `reverse` the scan runs from the last element to the first.
  }];
  let arguments = (ins Tile_Reduction:$kind, Variadic<Tile_Tensor>:$sources, I32Attr:$axis, UnitAttr:$reverse);
  let results = (outs Variadic<Tile_Tensor>:$results);
  let regions = (region SizedRegion<1>:$combiner);
  let assemblyFormat = "$kind $sources attr-dict `:` type($sources) `->` type($results) $combiner";
  let hasVerifier = 1;
}

//===-- Hints and debugging -----------------------------------------------------------------------------------------===//

def Tile_AssumeOp : Tile_Op<"assume", [MemoryEffects<[MemWrite]>]> {
  let summary = "Promises that a condition holds";
  let description = "Example: `tile.assume %c : i1`.";
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict `:` type($condition)";
}

def Tile_AssumeDivisibleOp : Tile_Op<"assume_divisible", [Pure, SameOperandsAndResultType]> {
  let summary = "The same integer, promised to be a multiple of `divisor`";
  let description = "Example: `%m = tile.assume_divisible %n {divisor = 8 : i64} : i64`.";
  let arguments = (ins AnySignlessInteger:$source, I64Attr:$divisor);
  let results = (outs AnySignlessInteger:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
}

def Tile_PrintOp : Tile_Op<"print", [MemoryEffects<[MemWrite]>]> {
  let summary = "Prints a text and values from every program";
  let description = "Example: `tile.print \"sum\" %s : f32`. Tiles print every element with its index.";
  let arguments = (ins StrAttr:$text, Variadic<AnyType>:$values);
  let assemblyFormat = "$text ($values^ `:` type($values))? attr-dict";
}

#endif

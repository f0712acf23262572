// Atomics of the tile dialect other than atomic_rmw (TileOps.td). Passes and targets use the
// interface in compiler/dialect/atomic.h. A new op of this file needs cases in atomic.cpp, but no
// change to passes or targets.
#ifndef LIGERDSL_ATOMIC_OPS
#define LIGERDSL_ATOMIC_OPS

include "TileDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Operands: the pointer or tile of pointers, values of its shape, and the mask.
class Tile_AtomicOp<string mnemonic> : Op<Tile_Dialect, mnemonic, [MemoryEffects<[MemRead, MemWrite]>]>;

def Tile_AtomicCASOp : Tile_AtomicOp<"atomic_cas"> {
  let summary = "Atomic compare-and-swap, relaxed, at device scope; returns the old value";
  let description = [{
    An element that equals `expected` becomes `desired`. Masked-off elements are not accessed and
    return 0.
    Example:
    `%old = tile.atomic_cas %p, %e, %d : tensor<8x!tile.ptr<i32>>, tensor<8xi32>, tensor<8xi32> -> tensor<8xi32>`
  }];
  let arguments = (ins AnyType:$ptr, AnyType:$expected, AnyType:$desired, Optional<AnyType>:$mask);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $ptr `,` $expected `,` $desired (`mask` $mask^ `:` type($mask))? attr-dict `:` type($ptr) `,` type($expected) `,`
    type($desired) `->` type($result)
  }];
}

#endif

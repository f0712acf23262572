// Atomics of the tile dialect beside atomic_rmw (TileOps.td). compiler/dialect/atomic.h is what passes and targets ask:
// an op of this file with one case there needs nothing else of them.
#ifndef LIGERDSL_ATOMIC_OPS
#define LIGERDSL_ATOMIC_OPS

include "TileDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Operands: the pointer or tile of pointers, values of its shape, and the mask.
class Tile_AtomicOp<string mnemonic> : Op<Tile_Dialect, mnemonic, [MemoryEffects<[MemRead, MemWrite]>]>;

def Tile_AtomicCASOp : Tile_AtomicOp<"atomic_cas"> {
  let summary = "Atomic compare-and-swap, relaxed, at device scope; gives the old value";
  let description = [{
    An element that equals `expected` becomes `desired`. Masked-off elements are untouched and give 0.
    Example: `%old = tile.atomic_cas %p, %e, %d : tensor<8x!tile.ptr<i32>>, tensor<8xi32>, tensor<8xi32> -> tensor<8xi32>`
  }];
  let arguments = (ins AnyType:$ptr, AnyType:$expected, AnyType:$desired, Optional<AnyType>:$mask);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $ptr `,` $expected `,` $desired (`mask` $mask^ `:` type($mask))? attr-dict `:` type($ptr) `,` type($expected) `,`
    type($desired) `->` type($result)
  }];
}

#endif

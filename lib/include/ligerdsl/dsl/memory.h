// Memory through pointers (gather, scatter), atomics, hints and device-side printing. Dense access goes through
// View::partition, which vectorises better.
//
// A mask is an i1 tile (or scalar) that broadcasts to the pointers' shape. Masked-off elements are neither read nor
// written; they load as `other` (0 when absent).
#ifndef LIGERDSL_DSL_MEMORY_H_
#define LIGERDSL_DSL_MEMORY_H_

#include <string>
#include <vector>

#include "ligerdsl/dsl/operands.h"

namespace ligerdsl {

Tile load(const PtrTile& p, Loc loc = Here::current());
Tile load(const PtrTile& p, TileArg mask, Loc loc = Here::current());
Tile load(const PtrTile& p, TileArg mask, TileArg other, Loc loc = Here::current());
Scalar load(const Ptr& p, Loc loc = Here::current());
Scalar load(const Ptr& p, ScalarArg mask, Loc loc = Here::current());
Scalar load(const Ptr& p, ScalarArg mask, ScalarArg other, Loc loc = Here::current());

void store(const PtrTile& p, TileArg value, Loc loc = Here::current());
void store(const PtrTile& p, TileArg value, TileArg mask, Loc loc = Here::current());
void store(const Ptr& p, ScalarArg value, Loc loc = Here::current());
void store(const Ptr& p, ScalarArg value, ScalarArg mask, Loc loc = Here::current());

// Atomic updates, relaxed, visible to the whole device; they return the old values. add: i32, i64, f16, bf16, f32;
// max, min (NaN if either is NaN), xchg: i32, i64, f32. The order of float additions, and so the last bits of the sum,
// differs between runs.
#define LIGERDSL_DECLARE_ATOMIC(fn)                                                  \
  Tile fn(const PtrTile& p, TileArg value, Loc loc = Here::current());               \
  Tile fn(const PtrTile& p, TileArg value, TileArg mask, Loc loc = Here::current()); \
  Scalar fn(const Ptr& p, ScalarArg value, Loc loc = Here::current());               \
  Scalar fn(const Ptr& p, ScalarArg value, ScalarArg mask, Loc loc = Here::current());

LIGERDSL_DECLARE_ATOMIC(atomic_add)
LIGERDSL_DECLARE_ATOMIC(atomic_max)
LIGERDSL_DECLARE_ATOMIC(atomic_min)
LIGERDSL_DECLARE_ATOMIC(atomic_xchg)
#undef LIGERDSL_DECLARE_ATOMIC
// What equals `expected` becomes `desired`; i32 and i64. The swap happened where the result equals `expected`.
Tile atomic_cas(const PtrTile& p, TileArg expected, TileArg desired, Loc loc = Here::current());
Tile atomic_cas(const PtrTile& p, TileArg expected, TileArg desired, TileArg mask, Loc loc = Here::current());
Scalar atomic_cas(const Ptr& p, ScalarArg expected, ScalarArg desired, Loc loc = Here::current());
Scalar atomic_cas(const Ptr& p, ScalarArg expected, ScalarArg desired, ScalarArg mask, Loc loc = Here::current());

// Promises to the compiler; a broken promise is undefined behaviour on the device. LIGERDSL_VALIDATE=1 and the
// interpreter check them.
void assume(const Scalar& condition, Loc loc = Here::current());
// The result is x, of which more is known; nothing is known of x itself.
[[nodiscard]] Scalar assume_divisible(const Scalar& x, int64_t divisor, Loc loc = Here::current());

// Prints text and the values (at least one), once per program. For debugging.
void device_print(const std::string& text, const std::vector<Value>& values, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_MEMORY_H_

// Memory access through pointers (gather, scatter), atomics, promises and device-side printing. Use
// View::partition for dense access, which vectorises better.
//
// A mask is an i1 tile or scalar that broadcasts to the pointers' shape. Elements whose mask is
// false are neither read nor written. Their load returns `other`, or 0 if `other` is not given.
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

// Relaxed atomic updates, visible to the whole device. They return the old values, or 0 where the
// mask is false. atomic_add supports i32, i64, f16, bf16 and f32. The others support i32, i64 and
// f32; the maximum or minimum with a NaN is NaN. The order of float additions differs between runs,
// and so do the last bits of the sum.
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
// Stores `desired` where memory equals `expected`, and returns the old values; i32 and i64. The
// store happened where the result equals `expected`.
Tile atomic_cas(const PtrTile& p, TileArg expected, TileArg desired, Loc loc = Here::current());
Tile atomic_cas(const PtrTile& p, TileArg expected, TileArg desired, TileArg mask,
                Loc loc = Here::current());
Scalar atomic_cas(const Ptr& p, ScalarArg expected, ScalarArg desired, Loc loc = Here::current());
Scalar atomic_cas(const Ptr& p, ScalarArg expected, ScalarArg desired, ScalarArg mask,
                  Loc loc = Here::current());

// Promises to the compiler; a broken promise is undefined behaviour on the device.
// LIGERDSL_VALIDATE=1 and the interpreter check them.
void assume(const Scalar& condition, Loc loc = Here::current());
// Returns x with the promise that it is a multiple of `divisor`. Only the result carries the
// promise, not the argument x.
[[nodiscard]] Scalar assume_divisible(const Scalar& x, int64_t divisor, Loc loc = Here::current());

// Prints text and the values (at least one), once per program. For debugging.
void device_print(const std::string& text, const std::vector<Value>& values,
                  Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_MEMORY_H_

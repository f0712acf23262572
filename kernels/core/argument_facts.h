// Facts about the arguments of a GPU kernel, and a test that a call's arguments satisfy them.
//
// A GPU program is compiled in two or more variants:
//
//   `contiguous`  rows have a known length and follow each other without a gap. Row r then has the
//                 same alignment offset (View::alignment_offset) in all arguments, so one offset
//                 aligns them all. Only programs that load from one argument with the offset of
//                 another argument's row have this variant.
//   `aligned`     all arguments that gain from 16-byte accesses must be aligned
//   `operands`    only the operands of matmuls must be aligned; stored rows may have any length,
//                 for example the logits of 50,257 classes
//   `generic`     accepts any arguments
//
// In the contiguous variant, an argument whose ragged rows are accessed with an alignment offset
// must have no gaps between rows. All other arguments must satisfy the facts of the aligned
// variant, but their rows may be ragged if the length is known.
//
// The aligned variant requires alignment only where it saves time, because a single unaligned
// argument makes the call use another variant:
//
//   1. The address and the rows of an argument are aligned to 16 bytes: every stride except the
//      last is a multiple of a vector. This applies to arguments that the program accesses in tiles
//      of several elements, and to arguments whose address it takes. There are two exceptions:
//        - an argument that the program accesses one column at a time, with a stride;
//        - rows of unknown length (attention's lse) or a vector of integers (labels), if the
//          argument's tiles have less than an eighth of the bytes of the program's largest tile.
//          Vector accesses to such small tiles save little time.
//      Rows of known length and a single row (a weight, a bias) are no exceptions. They are aligned
//      in nearly every call, and the threads of many rows read them.
//   2. If the size of the last dimension is unknown, it is a multiple of a vector in the argument
//      with the program's largest tiles. In other arguments it may be any number, for example the
//      number of rows in a norm's mean and rstd. Accesses to these arguments are few, or a short
//      branch handles the last elements.
//   3. A vector of integers whose stride the program leaves open (labels, indices) has stride 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::kernels {

enum class Variant { any, operands, aligned, contiguous };

// Returns the facts of each argument of the program. Exact sizes, alias classes and read_only stay
// open: only a caller knows them.
std::vector<program::ArgFacts> argument_facts(const program::Program& program, Variant variant);

// Returns the variants of a GPU kernel, from the fastest to `generic`.
std::vector<Variant> variants_of(const program::Program& program);
// Returns the name of a variant: `contiguous`, `aligned`, `operands` or `generic`.
const char* name_of(Variant variant);

// Returns true if a tensor's address, and its sizes and strides in elements, satisfy the facts. The
// divisors of facts are powers of two.
bool is_aligned(const program::ArgFacts& facts, const void* data, const int64_t* dims,
                const int64_t* strides);

// Returns the first fact that the tensor violates, with the required value; empty if there is none.
std::string why_not_aligned(const program::ArgFacts& facts, const void* data, const int64_t* dims,
                            const int64_t* strides);

}  // namespace ligerdsl::kernels

// Facts about the arguments of a GPU kernel, and a test that a call's arguments satisfy them.
//
// A GPU program is compiled in two or more variants:
//
//   `contiguous`  rows have a known length and follow each other without a gap. Then a row begins
//                 at the same place inside a vector in all arguments, and one alignment offset
//                 (View::alignment_offset) aligns them all. Only programs that load one argument
//                 with the offset of another's row have this variant.
//   `aligned`   moves 16 bytes at a time; every argument that profits from vectors must be aligned
//   `factors`   only the operands of matmuls must be aligned; the rows that it stores may have any
//               length, like the logits of 50,257 classes
//   `generic`   accepts any arguments
//
// In the contiguous variant, ragged rows that are accessed with an alignment offset must follow
// each other without a gap. All other arguments must satisfy the facts of the aligned variant, but
// their contiguous rows of known length need not be whole vectors.
//
// The aligned variant requires only alignment from which larger tiles profit, because a single
// unaligned argument makes the call use another variant:
//
//   1. The address and the rows of an argument are aligned to 16 bytes: every stride except the
//      last is a multiple of a vector. This holds for arguments that the program moves in tiles of
//      several elements, and for those whose address it takes. There are two exceptions:
//        - an argument that the program moves in single columns, whose elements are not contiguous;
//        - an argument whose tiles have less than an eighth of the bytes of the program's largest
//          tile. This holds for rows of unknown length (attention's lse) and for vectors of
//          integers (labels).
//      A single row (a weight, a bias) and rows of known length are no exceptions: they are aligned
//      in nearly every call, and the threads of many rows read them.
//   2. A last dimension of unknown size is a multiple of a vector if the argument's tiles are the
//      largest of the program. Elsewhere it may be any number, for example the number of rows of a
//      norm's statistics or of an embedding's indices. There the accesses are few, or a short
//      branch handles the last elements.
//   3. A vector of integers whose stride the program leaves open (labels, indices) has stride 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::kernels {

enum class Variant { any, factors, aligned, contiguous };

// Returns the facts of each argument of the program. Exact sizes, alias classes and read_only stay
// open: only a caller knows them.
std::vector<program::ArgFacts> argument_facts(const program::Program& program, Variant variant);

// Returns the variants of a GPU kernel, from the fastest to the one for any arguments.
std::vector<Variant> variants_of(const program::Program& program);
// Returns the name of a variant: `contiguous`, `aligned`, `factors` or `generic`.
const char* name_of(Variant variant);

// Returns true if a tensor's address, and its sizes and strides in elements, satisfy the facts. The
// divisors of facts are powers of two.
bool is_aligned(const program::ArgFacts& facts, const void* data, const int64_t* dims,
                const int64_t* strides);

// Returns the first fact that the tensor violates, with the required value; empty if there is none.
std::string why_not_aligned(const program::ArgFacts& facts, const void* data, const int64_t* dims,
                            const int64_t* strides);

}  // namespace ligerdsl::kernels

// What a GPU's kernel may be told of its arguments, and when that is true of memory at hand.
//
// A program is compiled for aligned arguments, which it moves 16 bytes at a time, and for any. The first kernel asks of
// its arguments what its larger tiles profit from and no more, because one argument that does not fit costs all others
// their vectors:
//
//   1. An argument that the program moves in tiles of several elements, or of which it takes the address, begins at a
//      multiple of 16 bytes, and so do its rows: every stride but the last is made of whole vectors. Nothing is asked of
//      an argument of which it moves single columns: their elements are not contiguous.
//      Nothing is asked either of an argument with rows of open length, which begin anywhere, if its tiles hold less than
//      an eighth of the bytes of the program's largest tile. Attention's lse is one. A single row (a weight, a bias) and
//      rows of known length are asked: they are aligned in nearly every call, and threads of many rows read them.
//   2. An open last dimension is made of whole vectors if the argument's tiles are the largest of the program.
//      Elsewhere, as along the statistics of a norm's rows or the indices of an embedding, it is any number: there are
//      few accesses, or a short branch around the last elements.
//   3. A vector of integers whose stride the program leaves open (labels, indices) has a stride of 1.
//
// Of a program that multiplies tiles there is one between the two, which asks this of the products' factors alone: what it
// stores may have rows of any length then, as the logits of 50,257 classes do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::kernels {

enum class Variant { any, factors, aligned };

// One per argument of the program; what only a caller knows (exact sizes, aliases, read-only) is left open.
std::vector<program::ArgFacts> argument_facts(const program::Program& program, Variant variant);

// Those of a GPU's kernel, from the fastest to the one for any arguments.
std::vector<Variant> variants_of(const program::Program& program);
// "aligned", "factors", "generic".
const char* name_of(Variant variant);

// Whether a tensor's address, and sizes and strides in elements, are multiples of what the facts say. Their divisors
// are powers of two.
bool is_aligned(const program::ArgFacts& facts, const void* data, const int64_t* dims, const int64_t* strides);

// Which of them is not, and what it would have to be.
std::string why_not_aligned(const program::ArgFacts& facts, const void* data, const int64_t* dims,
                            const int64_t* strides);

}  // namespace ligerdsl::kernels

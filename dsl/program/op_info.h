// Facts about ops and types that the builder, the verifier, the printer and the interpreter share.
#pragma once

#include <string_view>

#include "program/program.h"

namespace ligerdsl::program {

inline constexpr int64_t kMaxTileElements = int64_t{1} << 20;

const char* opName(OpCode code);    // "load_tile"; nullptr for a number that is no op
const char* attrName(AttrKey key);  // "tile_shape"; nullptr for a number that is no attribute

bool isElementwise(OpCode code);  // cast, select, add ... sigmoid
// Memory behind the first operand: whether the op may write it, and whether the op's result points into it too.
bool writesOperand(OpCode code);
bool pointsIntoOperand(OpCode code);

// Whether the program is a loop over programs (KernelBuilder::by_tickets): then its first two arguments are the tickets
// and the number of programs.
bool runsByTickets(const Program& program);
bool isIdentifier(std::string_view text);

// A dimension c * 2^n with odd c <= 31.
bool isTileExtent(int64_t extent);

// Product of the dimensions, or -1 when it exceeds kMaxTileElements or a dimension is not positive.
int64_t tileElements(const Shape& shape);

// The tile of a partition: tile_shape without its squeezed (0) entries.
Shape partitionShape(const Shape& tile_shape);

}  // namespace ligerdsl::program

// Loads objects of this target into the process. Contains no MLIR type (see backend.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

struct ligerdsl_cpu_module;

namespace ligerdsl::compiler::cpu {

/// Throws std::runtime_error with a reason.
ligerdsl_cpu_module* loadObject(std::string_view object, const std::string& entryName,
                                void** entry);
void unloadObject(ligerdsl_cpu_module* module);

/// Prints one line to stdout; the code of tile.print calls it.
/// - `text`: the text, a zero, the tile's dimensions ("4 8 "), a zero.
/// - `index`: row-major, or -1 for a scalar.
/// - `kind`: 0 nothing, 1 integer, 2 f16, 3 bf16, 4 f32, 5 pointer.
void printFromKernel(const char* text, int32_t x, int32_t y, int32_t z, int64_t index, int32_t kind,
                     uint64_t bits);

}  // namespace ligerdsl::compiler::cpu

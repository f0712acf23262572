// Loads objects of this target into the process. Contains no MLIR type (see backend.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

struct ligerdsl_cpu_module;

namespace ligerdsl::compiler::cpu {

/// Links the object and sets `*entry` to the address of the function `entryName`. Throws
/// std::bad_alloc, or std::runtime_error with a reason.
ligerdsl_cpu_module* loadObject(std::string_view object, const std::string& entryName,
                                void** entry);
void unloadObject(ligerdsl_cpu_module* module);

/// Prints one value to stdout, as one line. Kernels with tile.print call it for each element.
/// - `text`: the author's text, a zero byte, the tile's dimensions ("4 8 "), a zero byte.
/// - `index`: row-major index of the element in the tile, or -1 for a scalar.
/// - `kind`: type of `bits`: 0 no value, 1 integer, 2 f16, 3 bf16, 4 f32, 5 pointer.
void printFromKernel(const char* text, int32_t x, int32_t y, int32_t z, int64_t index, int32_t kind,
                     uint64_t bits);

}  // namespace ligerdsl::compiler::cpu

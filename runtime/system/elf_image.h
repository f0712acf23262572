// Checks that an edited ELF image is complete. The driver gets an image without its size, and reads
// wherever its headers point.
#pragma once

#include <string_view>

namespace ligerdsl::runtime {

// Returns true for a 64-bit ELF file whose headers or sections end after the end of the image.
// Returns false for other files.
bool is_cut_short_elf(std::string_view image);

}  // namespace ligerdsl::runtime

// Whether machine code that somebody edited is all there: the driver takes an image without its size, and reads what its
// headers say.
#pragma once

#include <string_view>

namespace ligerdsl::runtime {

// An ELF file of 64 bits whose headers or sections end behind it. What is no ELF file is not.
bool is_cut_short_elf(std::string_view image);

}  // namespace ligerdsl::runtime

// Checks that an edited ELF image is complete. The driver does not know the size of an image, and
// reads at every offset that the headers contain.
#pragma once

#include <string_view>

namespace ligerdsl::runtime {

// Returns true for a 64-bit ELF file that is cut short: headers or sections exceed its end. Returns
// false for other files.
bool is_cut_short_elf(std::string_view image);

}  // namespace ligerdsl::runtime

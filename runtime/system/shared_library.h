// A shared library that may or may not be on this machine.
#pragma once

#include <string>
#include <vector>

namespace ligerdsl::runtime {

// Opens the first of `names` that loads, for the life of the process. Null when none does; `tried` then says why, a
// clause per name.
void* open_library(const std::vector<std::string>& names, std::string* tried);

// The function of that name, or null.
void* find_symbol(void* library, const char* name);

// The file of the library (or program) that holds this address, as it was loaded; empty when there is none.
std::string file_of(const void* address);

}  // namespace ligerdsl::runtime

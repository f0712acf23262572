// Functions for shared libraries that may be missing on this machine.
#pragma once

#include <string>
#include <vector>

namespace ligerdsl::runtime {

// Opens the first of `names` that loads, for the life of the process. Returns null if none does;
// `tried` then has one reason per name.
void* open_library(const std::vector<std::string>& names, std::string* tried);

// Returns the function with this name, or null.
void* find_symbol(void* library, const char* name);

// Returns the file of the library or program that contains this address, or "" if there is none.
std::string file_of(const void* address);

}  // namespace ligerdsl::runtime

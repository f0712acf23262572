// Functions for shared libraries that may be missing on this machine.
#pragma once

#include <string>
#include <vector>

namespace ligerdsl::runtime {

// Opens the first library of `names` that loads, and never closes it. Returns null if none loads;
// `tried` then has one reason per name.
void* open_library(const std::vector<std::string>& names, std::string* tried);

// Returns the function with this name in a library, or null.
void* find_symbol(void* library, const char* name);

// Returns the file of the library or program that contains this address, or "" if there is none.
std::string file_of(const void* address);

}  // namespace ligerdsl::runtime

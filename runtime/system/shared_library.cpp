#include "runtime/system/shared_library.h"

#include <dlfcn.h>

namespace ligerdsl::runtime {

void* open_library(const std::vector<std::string>& names, std::string* tried) {
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* why = dlerror();
    *tried += (tried->empty() ? "" : "; ") + (why ? std::string(why) : name + ": cannot be loaded");
  }
  return nullptr;
}

void* find_symbol(void* library, const char* name) {
  return dlsym(library, name);
}

std::string file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace ligerdsl::runtime

// How much address space this process may still take: where `ulimit -v` or a strict kernel sets a limit, asking before
// a large piece of work turns a failure somewhere inside it into an error of its own. No other code of the library, so
// that the compile worker may include it.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstddef>

namespace ligerdsl::runtime {

// The memory is asked for and given back, never touched.
inline bool address_space_left(size_t bytes) {
  void* probe = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, bytes);
  return true;
}

// Room below the limit alone: nothing is committed, so this may ask for more than there is memory.
inline bool address_space_left_to_reserve(size_t bytes) {
  void* probe = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, bytes);
  return true;
}

// In bytes; 0: no limit.
inline size_t address_space_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? 0 : limit.rlim_cur;
}

// Loading a shared object takes its size and what its constructors allocate.
inline size_t bytes_to_load(const char* path) {
  constexpr size_t kForConstructors = size_t{16} << 20;
  struct stat info {};
  return (stat(path, &info) == 0 ? static_cast<size_t>(info.st_size) : 0) + kForConstructors;
}

// What compiling or linking one kernel may take: of the library's own, the largest takes about 20 MB.
inline constexpr size_t kBytesToCompile = size_t{32} << 20;

}  // namespace ligerdsl::runtime

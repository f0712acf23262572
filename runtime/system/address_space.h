// Checks how much address space this process may still use. Under `ulimit -v` or a strict kernel, a
// check before a large piece of work reports lack of memory as a separate error, not as a failure
// inside the work. The file includes no other code of the library, so that the compile worker can
// include it.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstddef>

namespace ligerdsl::runtime {

// Returns true if the process can map this many bytes. Maps the memory and unmaps it; never touches
// it.
inline bool address_space_left(size_t bytes) {
  void* probe = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, bytes);
  return true;
}

// Returns true if the limit has room for this many bytes. Commits nothing, so `bytes` may exceed
// physical memory.
inline bool address_space_left_to_reserve(size_t bytes) {
  void* probe = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, bytes);
  return true;
}

// Returns the limit in bytes, or 0 without a limit.
inline size_t address_space_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? 0 : limit.rlim_cur;
}

// Returns the address space needed to load a shared object: its size and its constructors'
// allocations.
inline size_t bytes_to_load(const char* path) {
  constexpr size_t kForConstructors = size_t{16} << 20;
  struct stat info {};
  return (stat(path, &info) == 0 ? static_cast<size_t>(info.st_size) : 0) + kForConstructors;
}

// Bytes for compiling or linking one kernel. The library's largest kernel needs about 20 MB.
inline constexpr size_t kBytesToCompile = size_t{32} << 20;

}  // namespace ligerdsl::runtime

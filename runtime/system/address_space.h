// Checks how much address space this process may still use. `ulimit -v`, or a system that does not
// overcommit memory, may limit it. A check before a compile reports lack of memory as an error of
// its own, instead of a failure inside the compile. This header includes no other code of the
// library, so that the compile worker can include it.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstddef>

namespace ligerdsl::runtime {

// Returns true if the process can map this number of bytes. Maps the memory and unmaps it without
// touching it.
inline bool address_space_left(size_t bytes) {
  void* probe = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, bytes);
  return true;
}

// Returns true if the limit of address space allows this number of additional bytes. Commits no
// memory, so `bytes` may exceed the physical memory.
inline bool address_space_left_to_reserve(size_t bytes) {
  void* probe = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, bytes);
  return true;
}

// Returns the limit of address space in bytes, or 0 without a limit.
inline size_t address_space_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? 0 : limit.rlim_cur;
}

// Returns the bytes of address space for loading a shared object: its size, and the allocations of
// its constructors.
inline size_t bytes_to_load(const char* path) {
  constexpr size_t kForConstructors = size_t{16} << 20;
  struct stat info {};
  return (stat(path, &info) == 0 ? static_cast<size_t>(info.st_size) : 0) + kForConstructors;
}

// Bytes for compiling or linking one kernel. The largest kernel of the library takes about 20 MB.
inline constexpr size_t kBytesToCompile = size_t{32} << 20;

}  // namespace ligerdsl::runtime

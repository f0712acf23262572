// The memory that a kernel may touch, with its checks. Failures are std::runtime_error.
#pragma once

#include <cstdint>
#include <vector>

namespace ligerdsl::test::ptx {

// Buffers of the host, used where they are.
class GlobalMemory {
 public:
  void add(const void* begin, int64_t bytes);
  uint64_t load(uint64_t address, int bytes) const;
  void store(uint64_t address, int bytes, uint64_t value) const;

 private:
  struct Range {
    uint64_t begin, end;
  };
  uint8_t* check(uint64_t address, int bytes) const;
  std::vector<Range> ranges_;
};

// One CTA's shared memory: nothing may be read before it was written, and what one warp wrote no other may touch before
// the next barrier (equal bytes written by several warps are fine, and so is reading by all).
class SharedMemory {
 public:
  explicit SharedMemory(int64_t bytes) : cells_(bytes) {}
  uint64_t load(uint64_t address, int bytes, int warp);
  void store(uint64_t address, int bytes, uint64_t value, int warp);
  void barrier() { ++epoch_; }

 private:
  struct Cell {
    uint8_t value = 0xff;
    bool written = false;
    bool many_readers = false;
    int16_t writer = -1, reader = -1;  // warps of these epochs
    uint32_t write_epoch = 0, read_epoch = 0;
  };
  Cell* check(uint64_t address, int bytes);
  std::vector<Cell> cells_;
  uint32_t epoch_ = 1;
};

}  // namespace ligerdsl::test::ptx

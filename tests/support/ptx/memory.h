// The memory that a kernel may touch, with its checks. Failures are std::runtime_error.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/ptx/order.h"

namespace ligerdsl::test::ptx {

// Buffers of the host, used where they are.
class GlobalMemory {
 public:
  // Early: a kernel may read it before griddepcontrol.wait.
  void add(const void* begin, int64_t bytes, bool early = false);
  uint64_t load(uint64_t address, int bytes, bool early = false) const;
  void store(uint64_t address, int bytes, uint64_t value) const;
  // Where the bytes are, all of one buffer; `early` when the access comes before griddepcontrol.wait.
  uint8_t* check(uint64_t address, int64_t bytes, bool early = false) const;

 private:
  struct Range {
    uint64_t begin, end;
    bool early;
  };
  std::vector<Range> ranges_;
  mutable size_t last_ = 0;  // that an access was in: the next one mostly is too
};

// One CTA's shared memory: nothing may be read before it was written, and what one agent wrote no other may touch
// before a barrier orders them, nor overwrite what another read (equal bytes written by several warps are fine).
class SharedMemory {
 public:
  SharedMemory(int64_t bytes, const Agents& agents) : agents_(agents), cells_(bytes), values_(bytes, 0xff) {}
  uint64_t load(uint64_t address, int bytes, const Order& order, Epoch now);
  void store(uint64_t address, int bytes, uint64_t value, const Order& order, Epoch now);
  // A copy is issued that writes the bytes until the epoch `done`. Bulk copies need a proxy fence after plain writes
  // and reads.
  void claim(uint64_t address, int64_t bytes, const Order& order, Epoch done, bool bulk);
  // The same for a bulk copy, or a wgmma, that reads them.
  void borrow(uint64_t address, int64_t bytes, const Order& order, Epoch done);
  uint8_t* bytes(uint64_t address) { return &values_[address - kBase]; }
  void become_barrier(uint64_t address, bool barrier);

  static constexpr uint64_t kBase = 1 << 10;  // of a CTA's window, as on sm_90; no buffer of the host is there

 private:
  struct Cell {
    Epoch write = 0, read = 0;  // 0: never; a read by kManyReaders at i: sets_[i]
  };
  size_t check(uint64_t address, int64_t bytes) const;
  Epoch unordered_reader(Epoch read, const Order& order) const;  // or 0
  Epoch unfenced_reader(Epoch read, const Order& order) const;   // or 0
  Epoch with_reader(Epoch read, const Order& order, Epoch now);
  [[noreturn]] void fail_read(Epoch write) const;
  [[noreturn]] void fail_write(const char* what, Epoch other, const char* did) const;

  const Agents& agents_;
  std::vector<Cell> cells_;
  std::vector<uint8_t> values_;
  std::vector<std::vector<Epoch>> sets_;
  struct {
    Epoch from = 0, reader = 0, to = 0;
  } last_;  // step of with_reader: neighbouring bytes and lanes take the same
};

}  // namespace ligerdsl::test::ptx

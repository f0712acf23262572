// Global and shared memory with their checks. A failed check throws std::runtime_error.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/ptx/order.h"

namespace ligerdsl::test::ptx {

// Host buffers that the kernel may access. They are used in place.
class GlobalMemory {
 public:
  // Adds a buffer. `early`: the kernel may read it before griddepcontrol.wait.
  void add(const void* begin, int64_t bytes, bool early = false);
  uint64_t load(uint64_t address, int bytes, bool early = false) const;
  void store(uint64_t address, int bytes, uint64_t value) const;
  // Checks that the bytes belong to one buffer, and returns their host address. `early`: this
  // access comes before griddepcontrol.wait.
  uint8_t* check(uint64_t address, int64_t bytes, bool early = false) const;

 private:
  struct Range {
    uint64_t begin, end;
    bool early;
  };
  std::vector<Range> ranges_;
  mutable size_t last_ = 0;  // index of the last access's range, tried first
};

// Shared memory of one CTA. Bytes must be written before they are read. A barrier must order each
// write before accesses by other agents, and each read before writes by other agents. Only warps
// that write the same value to a byte need no barrier.
class SharedMemory {
 public:
  SharedMemory(int64_t bytes, const Agents& agents)
      : agents_(agents), cells_(bytes), values_(bytes, 0xff) {}
  uint64_t load(uint64_t address, int bytes, const Order& order, Epoch now);
  void store(uint64_t address, int bytes, uint64_t value, const Order& order, Epoch now);
  // Registers a copy that writes the bytes until the epoch `done`. If `bulk`, a proxy fence must
  // have ordered plain writes and reads of the bytes before it.
  void claim(uint64_t address, int64_t bytes, const Order& order, Epoch done, bool bulk);
  // Registers a bulk copy or wgmma that reads the bytes until the epoch `done`. Plain writes of the
  // bytes need a proxy fence before it.
  void borrow(uint64_t address, int64_t bytes, const Order& order, Epoch done);
  uint8_t* bytes(uint64_t address) { return &values_[address - kBase]; }
  void become_barrier(uint64_t address, bool barrier);

  static constexpr uint64_t kBase =
      1 << 10;  // offset of shared memory in a CTA's window, as on sm_90; never a host address

 private:
  struct Cell {
    bool operator==(const Cell&) const = default;
    Epoch write = 0, read = 0;  // 0: never; agent kManyReaders: index in sets_
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
  } last_;  // last step of with_reader, because consecutive bytes and lanes repeat it
  struct {
    Epoch write = 0, now = 0;
  } loaded_;  // last write that a load has found ordered; it stays ordered for this agent
};

}  // namespace ligerdsl::test::ptx

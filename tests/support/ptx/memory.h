// Memory that a kernel may access, with its checks. A failed check throws std::runtime_error.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/ptx/order.h"

namespace ligerdsl::test::ptx {

// Buffers of the host, used in place.
class GlobalMemory {
 public:
  // `early`: a kernel may read it before griddepcontrol.wait.
  void add(const void* begin, int64_t bytes, bool early = false);
  uint64_t load(uint64_t address, int bytes, bool early = false) const;
  void store(uint64_t address, int bytes, uint64_t value) const;
  // Checks that the bytes belong to one buffer; returns their host address. `early`: the access is
  // before griddepcontrol.wait.
  uint8_t* check(uint64_t address, int64_t bytes, bool early = false) const;

 private:
  struct Range {
    uint64_t begin, end;
    bool early;
  };
  std::vector<Range> ranges_;
  mutable size_t last_ = 0;  // range of the last access, usually that of the next one too
};

// Shared memory of one CTA. Bytes must be written before they are read. A barrier must order a
// write before other agents' accesses, and a read before other agents' writes. Several warps may
// write equal bytes.
class SharedMemory {
 public:
  SharedMemory(int64_t bytes, const Agents& agents)
      : agents_(agents), cells_(bytes), values_(bytes, 0xff) {}
  uint64_t load(uint64_t address, int bytes, const Order& order, Epoch now);
  void store(uint64_t address, int bytes, uint64_t value, const Order& order, Epoch now);
  // Registers a copy that writes the bytes until the epoch `done`. Bulk copies need a proxy fence
  // after plain writes and reads.
  void claim(uint64_t address, int64_t bytes, const Order& order, Epoch done, bool bulk);
  // Registers a bulk copy or wgmma that reads the bytes until the epoch `done`.
  void borrow(uint64_t address, int64_t bytes, const Order& order, Epoch done);
  uint8_t* bytes(uint64_t address) { return &values_[address - kBase]; }
  void become_barrier(uint64_t address, bool barrier);

  static constexpr uint64_t kBase =
      1 << 10;  // base of a CTA's window, as on sm_90; no host buffer is there

 private:
  struct Cell {
    bool operator==(const Cell&) const = default;
    Epoch write = 0, read = 0;  // 0 for never; `read` of kManyReaders at time i means sets_[i]
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
  } last_;  // last step of with_reader: consecutive bytes and lanes repeat it
  struct {
    Epoch write = 0, now = 0;
  } loaded_;  // a write that the reader's present follows; what a reader has seen only grows
};

}  // namespace ligerdsl::test::ptx

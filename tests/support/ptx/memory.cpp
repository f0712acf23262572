#include "tests/support/ptx/memory.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "tests/support/ptx/program.h"

namespace ligerdsl::test::ptx {

void GlobalMemory::add(const void* begin, int64_t bytes) {
  const uint64_t at = reinterpret_cast<uintptr_t>(begin);
  ranges_.push_back({at, at + static_cast<uint64_t>(bytes)});
}

uint8_t* GlobalMemory::check(uint64_t address, int bytes) const {
  for (const Range& range : ranges_) {
    if (address >= range.begin && address + static_cast<uint64_t>(bytes) <= range.end) {
      return reinterpret_cast<uint8_t*>(address);
    }
  }
  std::string known = "access of " + std::to_string(bytes) + " bytes at " + std::to_string(address) +
                      ", outside the arguments' buffers";
  for (const Range& r : ranges_) known += " [" + std::to_string(r.begin) + ", " + std::to_string(r.end) + ")";
  throw std::runtime_error(known);
}

uint64_t GlobalMemory::load(uint64_t address, int bytes) const {
  uint64_t value = 0;
  std::memcpy(&value, check(address, bytes), static_cast<size_t>(bytes));
  return value;
}

void GlobalMemory::store(uint64_t address, int bytes, uint64_t value) const {
  std::memcpy(check(address, bytes), &value, static_cast<size_t>(bytes));
}

SharedMemory::Cell* SharedMemory::check(uint64_t address, int bytes) {
  const uint64_t at = address - kSharedBase;
  if (address < kSharedBase || at + static_cast<uint64_t>(bytes) > cells_.size()) {
    throw std::runtime_error("access of " + std::to_string(bytes) + " bytes at offset " +
                             std::to_string(static_cast<int64_t>(at)) + " of " + std::to_string(cells_.size()) +
                             " bytes of shared memory");
  }
  return &cells_[at];
}

uint64_t SharedMemory::load(uint64_t address, int bytes, int warp) {
  uint64_t value = 0;
  Cell* cell = check(address, bytes);
  for (int i = 0; i < bytes; ++i, ++cell) {
    if (!cell->written) throw std::runtime_error("read of shared memory that was not written");
    if (cell->write_epoch == epoch_ && cell->writer != warp) {
      throw std::runtime_error("read of shared memory that warp " + std::to_string(cell->writer) +
                               " wrote, without a barrier between");
    }
    cell->many_readers = cell->read_epoch == epoch_ && (cell->many_readers || cell->reader != warp);
    cell->reader = static_cast<int16_t>(warp);
    cell->read_epoch = epoch_;
    value |= uint64_t{cell->value} << (8 * i);
  }
  return value;
}

void SharedMemory::store(uint64_t address, int bytes, uint64_t value, int warp) {
  Cell* cell = check(address, bytes);
  for (int i = 0; i < bytes; ++i, ++cell) {
    const uint8_t byte = static_cast<uint8_t>(value >> (8 * i));
    const bool read = cell->read_epoch == epoch_ && (cell->many_readers || cell->reader != warp);
    const bool other = cell->write_epoch == epoch_ && cell->writer != warp && cell->value != byte;
    if (read || other) {
      throw std::runtime_error("write to shared memory that warp " +
                               std::to_string(read ? cell->reader : cell->writer) + (read ? " read" : " wrote") +
                               ", without a barrier between");
    }
    cell->value = byte;
    cell->written = true;
    cell->writer = static_cast<int16_t>(warp);
    cell->write_epoch = epoch_;
  }
}

}  // namespace ligerdsl::test::ptx

#include "tests/support/ptx/memory.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace ligerdsl::test::ptx {
namespace {

template <class Word>
uint64_t word_at(const uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// Reads words of a constant size, which is fast: the processor forwards a store to a later load of
// the same size.
uint64_t value_at(const uint8_t* from, int bytes) {
  switch (bytes) {
    case 1:
      return word_at<uint8_t>(from);
    case 2:
      return word_at<uint16_t>(from);
    case 4:
      return word_at<uint32_t>(from);
    default:
      return word_at<uint64_t>(from);
  }
}

}  // namespace

void GlobalMemory::add(const void* begin, int64_t bytes, bool early) {
  const uint64_t at = reinterpret_cast<uintptr_t>(begin);
  ranges_.push_back({at, at + static_cast<uint64_t>(bytes), early});
}

uint8_t* GlobalMemory::check(uint64_t address, int64_t bytes, bool early) const {
  const auto holds = [&](const Range& range) {
    return address >= range.begin && address + static_cast<uint64_t>(bytes) <= range.end;
  };
  if (last_ >= ranges_.size() || !holds(ranges_[last_])) {
    last_ = 0;
    while (last_ < ranges_.size() && !holds(ranges_[last_])) ++last_;
  }
  if (last_ < ranges_.size()) {
    if (early && !ranges_[last_].early)
      throw std::runtime_error("access of global memory before griddepcontrol.wait");
    return reinterpret_cast<uint8_t*>(address);
  }
  std::string known = "access of " + std::to_string(bytes) + " bytes at " +
                      std::to_string(address) + ", outside the arguments' buffers";
  for (const Range& r : ranges_)
    known += " [" + std::to_string(r.begin) + ", " + std::to_string(r.end) + ")";
  throw std::runtime_error(known);
}

uint64_t GlobalMemory::load(uint64_t address, int bytes, bool early) const {
  return value_at(check(address, bytes, early), bytes);
}

void GlobalMemory::store(uint64_t address, int bytes, uint64_t value) const {
  std::memcpy(check(address, bytes), &value, static_cast<size_t>(bytes));
}

size_t SharedMemory::check(uint64_t address, int64_t bytes) const {
  const uint64_t at = address - kBase;
  if (address < kBase || at + static_cast<uint64_t>(bytes) > cells_.size()) {
    throw std::runtime_error("access of " + std::to_string(bytes) + " bytes at offset " +
                             std::to_string(static_cast<int64_t>(at)) + " of " +
                             std::to_string(cells_.size()) + " bytes of shared memory");
  }
  return at;
}

Epoch SharedMemory::unordered_reader(Epoch read, const Order& order) const {
  if (agent_of(read) != kManyReaders) return read == 0 || order.seen.covers(read) ? 0 : read;
  for (Epoch reader : sets_[time_of(read)]) {
    if (!order.seen.covers(reader)) return reader;
  }
  return 0;
}

// Returns a read by a warp that no proxy fence has ordered before bulk copies, or 0.
Epoch SharedMemory::unfenced_reader(Epoch read, const Order& order) const {
  const auto unfenced = [&](Epoch reader) {
    return reader != 0 && agents_.is_warp(agent_of(reader)) && !order.fenced.covers(reader);
  };
  if (agent_of(read) != kManyReaders) return unfenced(read) ? read : 0;
  for (Epoch reader : sets_[time_of(read)]) {
    if (unfenced(reader)) return reader;
  }
  return 0;
}

// Returns the readers that a later write must follow: the reader `now`, and those readers in `read`
// that are not ordered before it.
Epoch SharedMemory::with_reader(Epoch read, const Order& order, Epoch now) {
  if (read == now) return now;
  if (last_.from == read && last_.reader == now) return last_.to;
  last_ = {read, now, now};
  if (!unordered_reader(read, order)) return now;
  std::vector<Epoch> readers{now};
  const std::vector<Epoch> before =
      agent_of(read) == kManyReaders ? sets_[time_of(read)] : std::vector<Epoch>{read};
  for (Epoch reader : before) {
    if (!order.seen.covers(reader)) readers.push_back(reader);
  }
  sets_.push_back(std::move(readers));
  return last_.to = make_epoch(kManyReaders, sets_.size() - 1);
}

void SharedMemory::fail_read(Epoch write) const {
  if (write == 0) throw std::runtime_error("read of shared memory that was not written");
  if (agent_of(write) == kBarrierBytes) throw std::runtime_error("read of an mbarrier's bytes");
  throw std::runtime_error("read of shared memory that " + agents_.name(agent_of(write)) +
                           " wrote, without a barrier between");
}

void SharedMemory::fail_write(const char* what, Epoch other, const char* did) const {
  if (agent_of(other) == kBarrierBytes)
    throw std::runtime_error(std::string(what) + " an mbarrier's bytes");
  throw std::runtime_error(std::string(what) + " shared memory that " +
                           agents_.name(agent_of(other)) + did + ", without a barrier between");
}

uint64_t SharedMemory::load(uint64_t address, int bytes, const Order& order, Epoch now) {
  const size_t at = check(address, bytes);
  Cell* const cells = &cells_[at];
  bool equal = true;
  for (int i = 1; i < bytes; ++i) equal = equal && cells[i] == cells[0];
  const int step = equal ? bytes : 1;  // often all bytes of a number have the same cell
  for (int i = 0; i < bytes; i += step) {
    Cell cell = cells[i];
    if (cell.write != loaded_.write || now != loaded_.now) {
      if (cell.write == 0 || !order.seen.covers(cell.write)) fail_read(cell.write);
      loaded_ = {cell.write, now};
    }
    if (cell.read == last_.from && now == last_.reader) {
      cell.read = last_.to;
    } else if (cell.read != now) {
      cell.read = with_reader(cell.read, order, now);
    }
    std::fill_n(cells + i, step, cell);
  }
  return value_at(&values_[at], bytes);
}

void SharedMemory::store(uint64_t address, int bytes, uint64_t value, const Order& order,
                         Epoch now) {
  const size_t at = check(address, bytes);
  Cell known;  // state of the last byte that was checked
  for (int i = 0; i < bytes; ++i) {
    Cell& cell = cells_[at + i];
    const uint8_t byte = static_cast<uint8_t>(value >> (8 * i));
    if (cell.write == known.write && cell.read == known.read && order.seen.covers(cell.write)) {
      cell = {now, 0};
      values_[at + i] = byte;
      continue;
    }
    known = cell;
    if (cell.write && !order.seen.covers(cell.write) &&
        (values_[at + i] != byte || !agents_.is_warp(agent_of(cell.write)))) {
      fail_write("write to", cell.write, " wrote");
    }
    if (const Epoch reader = unordered_reader(cell.read, order))
      fail_write("write to", reader, " read");
    cell = {now, 0};
    values_[at + i] = byte;
  }
}

void SharedMemory::claim(uint64_t address, int64_t bytes, const Order& order, Epoch done,
                         bool bulk) {
  const size_t at = check(address, bytes);
  for (size_t i = at; i < at + static_cast<size_t>(bytes); ++i) {
    Cell& cell = cells_[i];
    if (cell.write && !order.seen.covers(cell.write)) fail_write("copy into", cell.write, " wrote");
    if (cell.write && bulk && agents_.is_warp(agent_of(cell.write)) &&
        !order.fenced.covers(cell.write)) {
      throw std::runtime_error("copy into shared memory that " +
                               agents_.name(agent_of(cell.write)) +
                               " wrote, without fence.proxy.async between");
    }
    if (const Epoch reader = unordered_reader(cell.read, order))
      fail_write("copy into", reader, " read");
    if (const Epoch reader = bulk ? unfenced_reader(cell.read, order) : 0) {
      throw std::runtime_error("copy into shared memory that " + agents_.name(agent_of(reader)) +
                               " read, without fence.proxy.async between");
    }
    cell = {done, 0};
  }
}

void SharedMemory::borrow(uint64_t address, int64_t bytes, const Order& order, Epoch done) {
  const size_t at = check(address, bytes);
  for (size_t i = at; i < at + static_cast<size_t>(bytes); ++i) {
    Cell& cell = cells_[i];
    if (cell.write == 0 || !order.seen.covers(cell.write)) fail_read(cell.write);
    if (agents_.writes_generic(agent_of(cell.write)) && !order.fenced.covers(cell.write)) {
      throw std::runtime_error("asynchronous read of shared memory that " +
                               agents_.name(agent_of(cell.write)) +
                               " wrote, without fence.proxy.async between");
    }
    cell.read = with_reader(cell.read, order, done);
  }
}

void SharedMemory::become_barrier(uint64_t address, bool barrier) {
  const size_t at = check(address, 8);
  for (size_t i = at; i < at + 8; ++i) cells_[i] = {barrier ? make_epoch(kBarrierBytes, 1) : 0, 0};
}

}  // namespace ligerdsl::test::ptx

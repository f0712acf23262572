#include "tests/support/ptx/copies.h"

#include <cstring>
#include <stdexcept>

#include "tests/support/ptx/program.h"
#include "tests/support/tf32.h"

namespace ligerdsl::test::ptx {
namespace {

void round_to_tf32(const Piece& piece) {
  for (uint8_t* at = piece.to; at < piece.to + piece.bytes; at += sizeof(float)) {
    float number;
    std::memcpy(&number, at, sizeof number);
    number = to_tf32(number);
    std::memcpy(at, &number, sizeof number);
  }
}

void add_f32(const Piece& piece) {
  for (int64_t at = 0; at < piece.bytes; at += static_cast<int64_t>(sizeof(uint32_t))) {
    uint32_t held, given;
    std::memcpy(&held, piece.to + at, sizeof held);
    std::memcpy(&given, piece.from + at, sizeof given);
    held = static_cast<uint32_t>(add_in_memory(held, given, 0));
    std::memcpy(piece.to + at, &held, sizeof held);
  }
}

}  // namespace

Mbarrier* Copies::land(size_t at) {
  const Copy copy = std::move(pending_[at]);
  if (at + 1 < pending_.size())
    pending_[at] = std::move(pending_.back());  // the order of `pending_` has no meaning
  pending_.pop_back();
  for (const Piece& piece : copy.pieces) {
    if (copy.adds) {
      add_f32(piece);
      continue;
    }
    std::memcpy(piece.to, piece.from ? piece.from : reinterpret_cast<const uint8_t*>(&piece.value),
                static_cast<size_t>(piece.bytes));
    if (copy.rounds_to_tf32) round_to_tf32(piece);
    std::memset(piece.to + piece.bytes, 0, static_cast<size_t>(piece.zeros));
  }
  if (!copy.barrier) return nullptr;
  int64_t bytes = 0;
  for (const Piece& piece : copy.pieces) bytes += piece.bytes + piece.zeros;
  try {
    return copy.barrier->complete(bytes, copy.done, copy.passed) ? copy.barrier : nullptr;
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(copy.issued + ": " + error.what());
  }
}

void Copies::land_groups(const Agents& agents, Epoch last) {
  for (size_t at = 0; at < pending_.size();) {
    const Epoch done = pending_[at].done;
    if (pending_[at].group == &agents && agent_of(done) == agent_of(last) &&
        time_of(done) <= time_of(last)) {
      land(at);
    } else {
      ++at;
    }
  }
}

}  // namespace ligerdsl::test::ptx

// What a process and its compile worker say to each other: one request, one answer, each a string of bytes in a file of
// its own, so that neither side ever waits for the other to read.
//
// A message is a magic number, a number, and fields; a field is its length in 8 bytes and its bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace ligerdsl::runtime {

// How a compile ended. The first three are the compiler's own results (compiler_api.h).
enum class CompileOutcome : uint64_t {
  done = 0,
  program_wrong = 1,
  compiler_bug = 2,
  gave_up = 3,        // LLVM's fatal-error handler was called
  out_of_memory = 4,  // the limit was reached
  no_compiler = 5,    // the worker could not load the compiler library
  other_build = 6,    // the compiler library is of another build
  // Never sent: what the parent sees of a worker that did not answer.
  crashed = 100,
  too_slow = 101,
  not_started = 102,
  stopped = 103,  // by CompileIsolation::stop
};

inline constexpr uint64_t kRequestMagic = 0x3151455252444c47;  // "GLDRREQ1"
inline constexpr uint64_t kAnswerMagic = 0x31534e4152444c47;   // "GLDRANS1"

// Worker's descriptors: the request on standard input, the answer here, what LLVM prints on standard error.
inline constexpr int kAnswerDescriptor = 3;
inline constexpr int kAnswerNotWritten = 2;  // the worker's exit status then

inline std::string pack_message(uint64_t magic, uint64_t number, const std::vector<std::string_view>& fields) {
  std::string message;
  const auto append = [&](uint64_t value) { message.append(reinterpret_cast<const char*>(&value), sizeof value); };
  append(magic);
  append(number);
  for (const std::string_view field : fields) {
    append(field.size());
    message += field;
  }
  return message;
}

// False unless `message` is whole, has this magic and as many fields.
inline bool unpack_message(std::string_view message, uint64_t magic, uint64_t* number,
                           const std::vector<std::string_view*>& fields) {
  const auto take = [&](uint64_t* value) {
    if (message.size() < sizeof *value) return false;
    std::memcpy(value, message.data(), sizeof *value);
    message.remove_prefix(sizeof *value);
    return true;
  };
  uint64_t got = 0;
  if (!take(&got) || got != magic || !take(number)) return false;
  for (std::string_view* field : fields) {
    uint64_t size = 0;
    if (!take(&size) || size > message.size()) return false;
    *field = message.substr(0, size);
    message.remove_prefix(size);
  }
  return message.empty();
}

}  // namespace ligerdsl::runtime

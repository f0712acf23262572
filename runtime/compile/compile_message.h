// Messages between a process and its compile worker: one request and one answer. Each is a string
// of bytes in its own file, so that no writer waits for a reader.
//
// A message consists of a magic number, a number and fields. The number of a request is the
// parent's process id; the number of an answer is the CompileOutcome. A field is its length in 8
// bytes, then its bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace ligerdsl::runtime {

// Result of a compile. The first three values are the compiler's own results (compiler_api.h).
enum class CompileOutcome : uint64_t {
  done = 0,
  program_wrong = 1,
  compiler_bug = 2,
  gave_up = 3,        // LLVM's fatal-error handler was called
  out_of_memory = 4,  // the compiler ran out of memory
  no_compiler = 5,    // the worker could not load the compiler library
  other_build = 6,    // the compiler library has another build id
  // Never sent: the parent's own results for a worker that gave no answer.
  crashed = 100,
  too_slow = 101,
  not_started = 102,
  stopped = 103,  // by CompileIsolation::stop
};

inline constexpr uint64_t kRequestMagic = 0x3151455252444c47;  // "GLDRREQ1"
inline constexpr uint64_t kAnswerMagic = 0x31534e4152444c47;   // "GLDRANS1"

// The worker reads the request from standard input and writes the answer to this descriptor. LLVM
// prints to standard error.
inline constexpr int kAnswerDescriptor = 3;
inline constexpr int kAnswerNotWritten =
    2;  // exit status of a worker that could not write its answer

inline std::string pack_message(uint64_t magic, uint64_t number,
                                const std::vector<std::string_view>& fields) {
  std::string message;
  const auto append = [&](uint64_t value) {
    message.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  append(magic);
  append(number);
  for (const std::string_view field : fields) {
    append(field.size());
    message += field;
  }
  return message;
}

// Returns true if `message` is complete and has this magic and this number of fields.
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

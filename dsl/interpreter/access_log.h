// Log of a launch's accesses to elements. It finds elements that no program wrote, and results that
// depend on the order of programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interpreter/interpreter.h"

namespace ligerdsl::interpreter {

enum class Access : uint8_t { read, write, update };  // update: an atomic

class AccessLog {
 public:
  AccessLog(const program::Program& program, const Arguments& arguments);

  // Sets the number of the program that makes the following accesses.
  void begin(int64_t program) { current_ = static_cast<uint32_t>(program + 1); }
  // Logs an access to an element of `bytes` bytes. `changes` is true if the access changes the
  // bits. A write without a change conflicts only with atomics. Returns why the result depends on
  // the order of programs, or "".
  std::string note(const void* element, int64_t bytes, Access access, bool changes);

  // Returns true if a program read or updated one of the elements.
  bool read(const void* data, int64_t elements, int64_t element_bytes) const;

  struct Extent {
    int64_t elements = 0, first = -1;
  };
  // Returns the number of elements that no program wrote, and the first one. Returns 0 elements if
  // a program read or updated one of them, because the kernel may then keep the others
  // intentionally.
  Extent unwritten(const void* data, int64_t elements, int64_t element_bytes) const;

 private:
  static constexpr uint32_t kNobody = 0, kSeveral = UINT32_MAX;
  // Programs that accessed an element: kNobody, kSeveral, or the number of one program plus 1.
  struct Element {
    uint32_t reader = kNobody, writer = kNobody, updater = kNobody;
    uint32_t changer = kNobody;  // a writer that changed the bits
  };
  struct Memory {
    uintptr_t begin, end;
    std::vector<Element> elements;  // empty: untouched
  };

  const Element* find(uintptr_t address) const;
  Element& at(uintptr_t address);
  std::string conflict(const Element& who, Access access, bool changes) const;
  bool by_another(uint32_t program) const { return program != kNobody && program != current_; }
  void join(uint32_t* who) const { *who = by_another(*who) ? kSeveral : current_; }

  std::vector<Memory> memory_;
  int64_t granule_ = 8;  // bytes of the smallest element type
  uint32_t current_ = kNobody;
};

}  // namespace ligerdsl::interpreter

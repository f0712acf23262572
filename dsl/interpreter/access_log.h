// Which programs of a launch touched which elements: what nobody wrote, and where the order of programs matters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interpreter/interpreter.h"

namespace ligerdsl::interpreter {

enum class Access : uint8_t { read, write, update };  // update: by an atomic

class AccessLog {
 public:
  AccessLog(const program::Program& program, const Arguments& arguments);

  // Accesses from here on are those of this program.
  void begin(int64_t program) { current_ = static_cast<uint32_t>(program + 1); }
  // Of an element of so many bytes. `changes`: other bits than before; a write of the same ones conflicts with atomics
  // only. What the access depends on, "" if it means the same in every order of the programs.
  std::string note(const void* element, int64_t bytes, Access access, bool changes);

  // Whether a program read or updated one of so many elements.
  bool read(const void* data, int64_t elements, int64_t element_bytes) const;

  struct Extent {
    int64_t elements = 0, first = -1;
  };
  // Elements of so many bytes that no program wrote or updated, of memory that none read either: what is read may well
  // be kept as it is.
  Extent unwritten(const void* data, int64_t elements, int64_t element_bytes) const;

 private:
  static constexpr uint32_t kNobody = 0, kSeveral = UINT32_MAX;
  // Programs, counted from 1.
  struct Element {
    uint32_t reader = kNobody, writer = kNobody, updater = kNobody;
    uint32_t changer = kNobody;  // of the writers, who wrote other bits than were there
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
  int64_t granule_ = 8;  // bytes of the smallest element
  uint32_t current_ = kNobody;
};

}  // namespace ligerdsl::interpreter

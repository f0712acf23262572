#include "interpreter/access_log.h"

#include <algorithm>

#include "program/op_info.h"

namespace ligerdsl::interpreter {

AccessLog::AccessLog(const program::Program& program, const Arguments& arguments) {
  for (const Arguments::Range& range : arguments.ranges())
    memory_.push_back({range.begin, range.end, {}});
  for (const program::Argument& argument : program.arguments) {
    const program::Type& type = program.values[argument.value];
    if (type.kind == program::TypeKind::scalar || arguments.memory() == Arguments::Memory::wide)
      continue;
    granule_ = std::min<int64_t>(granule_, size_of(type.dtype));
  }
}

// Returns the entry of an address in the first range that contains it; ranges may overlap.
AccessLog::Element& AccessLog::at(uintptr_t address) {
  const auto memory = std::find_if(memory_.begin(), memory_.end(), [&](const Memory& one) {
    return address >= one.begin && address < one.end;
  });
  if (memory->elements.empty())
    memory->elements.resize((memory->end - memory->begin + granule_ - 1) / granule_);
  return memory->elements[(address - memory->begin) / granule_];
}

const AccessLog::Element* AccessLog::find(uintptr_t address) const {
  for (const Memory& memory : memory_) {
    if (address < memory.begin || address >= memory.end) continue;
    return memory.elements.empty() ? nullptr
                                   : &memory.elements[(address - memory.begin) / granule_];
  }
  return nullptr;
}

std::string AccessLog::conflict(const Element& who, Access access, bool changes) const {
  const auto other = [&](uint32_t program, const char* does, const char* mine) {
    const std::string name =
        program == kSeveral ? "another program" : "program " + std::to_string(program - 1);
    return name + " " + does + " this element and program " + std::to_string(current_ - 1) + " " +
           mine + " it: the result depends on the order of these programs";
  };
  switch (access) {
    case Access::read:
      if (by_another(who.changer)) return other(who.changer, "writes", "reads");
      if (by_another(who.updater)) return other(who.updater, "updates", "reads");
      break;
    case Access::write:
      if (by_another(who.updater)) return other(who.updater, "updates", "writes");
      if (changes && by_another(who.reader)) return other(who.reader, "reads", "writes");
      if (changes && by_another(who.writer))
        return other(who.writer, "writes", "writes another value to");
      break;
    case Access::update:
      if (by_another(who.writer)) return other(who.writer, "writes", "updates");
      if (by_another(who.reader)) return other(who.reader, "reads", "updates");
      break;
  }
  return "";
}

std::string AccessLog::note(const void* element, int64_t bytes, Access access, bool changes) {
  std::string found;
  const auto begin = reinterpret_cast<uintptr_t>(element);
  for (uintptr_t address = begin; address < begin + static_cast<uintptr_t>(bytes);
       address += granule_) {
    Element& who = at(address);
    if (found.empty()) found = conflict(who, access, changes);
    if (access == Access::read) join(&who.reader);
    if (access == Access::update) join(&who.updater);
    if (access == Access::write) join(&who.writer);
    if (access == Access::write && changes) join(&who.changer);
  }
  return found;
}

bool AccessLog::read(const void* data, int64_t elements, int64_t element_bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (int64_t i = 0; i < elements; ++i) {
    const Element* who = find(begin + static_cast<uintptr_t>(i * element_bytes));
    if (who && (who->reader != kNobody || who->updater != kNobody)) return true;
  }
  return false;
}

AccessLog::Extent AccessLog::unwritten(const void* data, int64_t elements,
                                       int64_t element_bytes) const {
  Extent found;
  if (read(data, elements, element_bytes)) return found;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (int64_t i = 0; i < elements; ++i) {
    const Element* who = find(begin + static_cast<uintptr_t>(i * element_bytes));
    if (who && who->writer != kNobody) continue;
    if (found.elements++ == 0) found.first = i;
  }
  return found;
}

}  // namespace ligerdsl::interpreter

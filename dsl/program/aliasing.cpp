#include "program/aliasing.h"

#include "program/op_info.h"

namespace ligerdsl::program {
namespace {

struct Writes {
  std::vector<int> argument_of;  // per value: number of the argument that it points into, or -1
  std::vector<bool> exposed;     // true for views whose address the program takes (view_ptr)
  std::vector<bool> written;
  bool anywhere = false;  // a store through a pointer that control flow yields

  void collect(const Region& region) {
    for (const Op& op : region.ops) {
      const int origin = op.operands.empty() ? -1 : argument_of[op.operands[0]];
      if (op.code == OpCode::view_ptr && origin >= 0) exposed[origin] = true;
      const Effect effect = info(op.code).effect;
      if (effect == Effect::address && !op.results.empty()) argument_of[op.results[0]] = origin;
      if (writes(effect)) {
        if (origin >= 0)
          written[origin] = true;
        else
          anywhere = true;
      }
      for (const Region& inner : op.regions) collect(inner);
    }
  }
};

}  // namespace

std::vector<bool> written_arguments(const Program& program) {
  const size_t n = program.arguments.size();
  Writes found{.argument_of = std::vector<int>(program.values.size(), -1),
               .exposed = std::vector<bool>(n, false),
               .written = std::vector<bool>(n, false)};
  for (size_t i = 0; i < n; ++i) {
    found.argument_of[program.arguments[i].value] = static_cast<int>(i);
    found.exposed[i] = program.values[program.arguments[i].value].kind == TypeKind::ptr;
  }
  found.collect(program.body);
  for (size_t i = 0; i < n && found.anywhere; ++i)
    found.written[i] = found.written[i] || found.exposed[i];
  return found.written;
}

Aliasing::Aliasing(const Program& program, bool no_alias)
    : written_(written_arguments(program)), no_alias_(no_alias), some_must_be_disjoint_(no_alias) {
  for (const Argument& argument : program.arguments) {
    names_.push_back(argument.name);
    read_only_.push_back(argument.read_only);
    some_must_be_disjoint_ = some_must_be_disjoint_ || argument.read_only;
  }
}

std::string Aliasing::contradiction() const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (read_only_[i] && written_[i])
      return "view " + names_[i] +
             " is declared read_only, but a store may reach it through a pointer that a loop or "
             "branch returns; declare it without read_only, or take no pointer to it";
  }
  return "";
}

std::string Aliasing::fault(std::span<const Strided> views,
                            std::span<const size_t> arguments) const {
  for (size_t a = 0; a < views.size(); ++a) {
    const std::string& name = names_[arguments[a]];
    // The compiler assumes that different tiles of a written view are disjoint.
    if (written_[arguments[a]] && !injective(views[a]))
      return "`" + name +
             "`: the kernel writes this view, but two of its indices refer to one element; check "
             "its strides";
    for (size_t b = 0; b < views.size() && some_must_be_disjoint_; ++b) {
      if (a == b || !must_be_disjoint(arguments[a], arguments[b]) ||
          overlap(views[a], views[b]) == Overlap::none)
        continue;
      return "`" + name + "` shares memory with `" + names_[arguments[b]] + "`, but " +
             (read_only_[arguments[b]] ? "the kernel declares that view read_only; pass separate "
                                         "memory, or declare it without read_only"
                                       : "the kernel was created with no_alias; pass separate "
                                         "memory, or create the kernel without no_alias");
    }
  }
  return "";
}

}  // namespace ligerdsl::program

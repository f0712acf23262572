#include "program/program.h"

namespace ligerdsl::program {

const AttrValue* Op::find(AttrKey key) const {
  for (const Attr& attr : attrs) {
    if (attr.key == key) return &attr.value;
  }
  return nullptr;
}

int64_t Op::integer(AttrKey key, int64_t otherwise) const {
  const AttrValue* value = find(key);
  const int64_t* number = value ? std::get_if<int64_t>(value) : nullptr;
  return number ? *number : otherwise;
}

double Op::number(AttrKey key, double otherwise) const {
  const AttrValue* value = find(key);
  if (!value) return otherwise;
  if (const double* number = std::get_if<double>(value)) return *number;
  const int64_t* number = std::get_if<int64_t>(value);
  return number ? static_cast<double>(*number) : otherwise;
}

}  // namespace ligerdsl::program

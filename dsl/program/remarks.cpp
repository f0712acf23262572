#include "program/remarks.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ligerdsl::program {
namespace {

struct Row {
  std::string id;
  const char* pass;
};

std::string printed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const auto& rows() {
  static const auto* const all = new std::array{
#define LIGERDSL_REMARK(name, pass, ...) Row{printed(#name), pass},
#include "program/remarks.def"
  };
  return *all;
}

}  // namespace

const std::string& id_of(RemarkId remark) {
  return rows()[static_cast<size_t>(remark)].id;
}

const char* pass_of(RemarkId remark) {
  return rows()[static_cast<size_t>(remark)].pass;
}

std::optional<RemarkId> find_remark(std::string_view id) {
  for (size_t i = 0; i < rows().size(); ++i)
    if (rows()[i].id == id) return static_cast<RemarkId>(i);
  return std::nullopt;
}

Remark make_remark(RemarkId remark, std::string text) {
  return {.pass = pass_of(remark), .text = std::move(text), .id = id_of(remark)};
}

}  // namespace ligerdsl::program

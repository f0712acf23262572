// Prints layouts: the basis vectors on one line, and the tile as a table of owners.
#include <algorithm>
#include <cstdio>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {
namespace {

std::string vectorText(const LinearLayout::Basis& basis) {
  std::string text = "(";
  for (size_t i = 0; i < basis.size(); ++i) text += (i ? "," : "") + std::to_string(basis[i]);
  return text + ")";
}

std::string cellText(const LinearLayout& layout, const LinearLayout::Coordinates& coordinates) {
  Place place = layout.owner(coordinates);
  std::string text;
  if (layout.ctas() > 1) text += "c" + std::to_string(place.cta) + " ";
  return text + "w" + std::to_string(place.warp) + " l" + std::to_string(place.lane) + " r" +
         std::to_string(place.reg);
}

std::string hexText(uint64_t mask) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(mask));
  return text;
}

// Advances all but the last coordinate to the next row. Returns false after the last row.
bool nextRow(const LinearLayout::Shape& shape, LinearLayout::Coordinates& coordinates) {
  for (int dim = static_cast<int>(shape.size()) - 2; dim >= 0; --dim) {
    if (++coordinates[dim] < shape[dim]) return true;
    coordinates[dim] = 0;
  }
  return false;
}

}  // namespace

std::string LinearLayout::str() const {
  static constexpr const char* kNames[] = {"reg", "lane", "warp", "cta"};
  std::string text;
  for (int axis = 0; axis < kAxes; ++axis) {
    if (axis == 3 && bases_[axis].empty()) continue;
    text += std::string(axis ? "; " : "") + kNames[axis] + ":";
    for (const Basis& basis : bases_[axis]) text += " " + vectorText(basis);
  }
  if (copies() > 1) text += "; copies: " + std::to_string(copies());
  return text;
}

std::string LinearLayout::table() const {
  std::string text = str() + "\n";
  if (isReplicated()) {
    BitMasks masks = redundant();
    text += "replicated: the owner of an element has these bits 0: lane " + hexText(masks.lane) +
            ", warp " + hexText(masks.warp) + (ctas() > 1 ? ", CTA " + hexText(masks.cta) : "") +
            "; threads with one of them set hold copies\n";
  }
  Coordinates coordinates(shape_.size(), 0);
  const int64_t columns = shape_.empty() ? 1 : shape_.back();
  do {
    text +=
        vectorText(Basis(coordinates.begin(), coordinates.end() - (shape_.empty() ? 0 : 1))) + ":";
    for (int64_t column = 0; column < columns; ++column) {
      if (!shape_.empty()) coordinates.back() = column;
      text += "  " + cellText(*this, coordinates);
    }
    text += "\n";
  } while (nextRow(shape_, coordinates));
  return text;
}

}  // namespace ligerdsl::compiler

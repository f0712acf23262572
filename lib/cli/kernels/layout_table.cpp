#include "lib/cli/kernels/layout_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ligerdsl::cli {

namespace {

using compiler::LinearLayout;
using compiler::Place;

// Returns a range of numbers as text: "4" or "4-7".
std::string range_text(int64_t first, int64_t count) {
  return count == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, first + count - 1);
}

// Row and column counts of the part of a table that fits in a window, and a text about the omitted
// rows and columns.
struct Cut {
  int64_t rows, columns;
  std::string left_out;

  Cut(int64_t all_rows, const std::string& rows_name, int64_t all_columns,
      const std::string& columns_name, LayoutWindow window)
      : rows(std::min(all_rows, window.rows)), columns(std::min(all_columns, window.columns)) {
    std::vector<std::string> parts;
    if (rows < all_rows) parts.push_back(fmt::format("{} of {} {}", rows, all_rows, rows_name));
    if (columns < all_columns)
      parts.push_back(fmt::format("{} of {} {}", columns, all_columns, columns_name));
    left_out = fmt::format("{}", fmt::join(parts, ", "));
  }
};

std::string thread_text(const LinearLayout& layout, const Place& place) {
  return fmt::format("{}w{} l{}", layout.ctas() > 1 ? fmt::format("c{} ", place.cta) : "",
                     place.warp, place.lane);
}

// Returns the coordinates of a row in all dimensions but the last. Rows are numbered in row-major
// order.
LinearLayout::Coordinates outer_coordinates(const std::vector<int64_t>& shape, int64_t row) {
  LinearLayout::Coordinates outer(shape.empty() ? 0 : shape.size() - 1);
  for (size_t dim = outer.size(); dim-- > 0; row /= shape[dim]) outer[dim] = row % shape[dim];
  return outer;
}

// Returns coordinates as text: "(2, 4-7)".
std::string elements_text(LinearLayout::Coordinates at, int64_t count) {
  std::vector<std::string> parts;
  for (size_t dim = 0; dim < at.size(); ++dim)
    parts.push_back(range_text(at[dim], dim + 1 == at.size() ? count : 1));
  return fmt::format("({})", fmt::join(parts, ", "));
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

LayoutTable table_of_elements(const LinearLayout& layout, LayoutWindow window) {
  const std::vector<int64_t>& shape = layout.shape();
  const int64_t vector = layout.contiguous(), width = shape.empty() ? 1 : shape.back();
  int64_t rows = 1;
  for (size_t dim = 0; dim + 1 < shape.size(); ++dim) rows *= shape[dim];
  const Cut cut(rows, "rows", width / vector, "columns", window);
  LayoutTable table{
      .header = {shape.size() > 1 ? "row" : ""}, .rows = {}, .left_out = cut.left_out};
  for (int64_t i = 0; i < cut.columns; ++i)
    table.header.push_back(shape.empty() ? "" : range_text(i * vector, vector));
  for (int64_t row = 0; row < cut.rows; ++row) {
    LinearLayout::Coordinates at = outer_coordinates(shape, row);
    std::vector<std::string> cells = {shape.size() > 1 ? fmt::format("{}", fmt::join(at, ","))
                                                       : ""};
    if (!shape.empty()) at.push_back(0);
    for (int64_t i = 0; i < cut.columns; ++i) {
      if (!shape.empty()) at.back() = i * vector;
      const Place place = layout.owner(at);
      cells.push_back(
          fmt::format("{} r{}", thread_text(layout, place), range_text(place.reg, vector)));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

LayoutTable table_of_threads(const LinearLayout& layout, LayoutWindow window) {
  const int64_t vector = layout.contiguous();
  const int64_t threads = layout.lanes() * layout.warps() * layout.ctas();
  const Cut cut(threads, "threads", layout.registers() / vector, "columns", window);
  LayoutTable table{.header = {"thread"}, .rows = {}, .left_out = cut.left_out};
  for (int64_t i = 0; i < cut.columns; ++i)
    table.header.push_back(fmt::format("r{}", range_text(i * vector, vector)));
  for (int64_t thread = 0; thread < cut.rows; ++thread) {
    Place place{.lane = thread % layout.lanes(),
                .warp = thread / layout.lanes() % layout.warps(),
                .cta = thread / layout.lanes() / layout.warps()};
    std::vector<std::string> cells = {thread_text(layout, place)};
    for (int64_t i = 0; i < cut.columns; ++i) {
      place.reg = i * vector;
      cells.push_back(elements_text(layout.coordinates(place), vector));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace ligerdsl::cli

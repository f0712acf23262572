// A tile's layout as a table for people: who holds which element, or what each thread holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::cli {

struct LayoutTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::string left_out;  // "of 64 columns and 128 rows"; empty: the table is whole
};

// What of a table is shown.
struct LayoutWindow {
  int64_t rows, columns;
};

// A line per row of the tile, a column per vector: "w0 l3 r4-7", with "c1" in front on a cluster. Of copies the first.
LayoutTable table_of_elements(const compiler::LinearLayout& layout, LayoutWindow window);
// A line per thread, a column per vector of registers: "(2, 4-7)".
LayoutTable table_of_threads(const compiler::LinearLayout& layout, LayoutWindow window);

// "16x64"; "scalar" of rank 0.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace ligerdsl::cli

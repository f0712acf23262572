// A tile's layout as a table: the thread of each element, or the elements of each thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::cli {

struct LayoutTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::string left_out;  // "16 of 64 rows, 8 of 16 columns", or empty if the table is complete
};

// Maximum numbers of rows and columns to show.
struct LayoutWindow {
  int64_t rows, columns;
};

// Returns one line per row of the tile and one column per vector: "w0 l3 r4-7", in a cluster "c1 w0
// l3 r4-7". If several threads hold an element, shows the first.
LayoutTable table_of_elements(const compiler::LinearLayout& layout, LayoutWindow window);
// Returns one line per thread and one column per vector of registers: "(2, 4-7)".
LayoutTable table_of_threads(const compiler::LinearLayout& layout, LayoutWindow window);

// Returns "16x64", or "scalar" for rank 0.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace ligerdsl::cli

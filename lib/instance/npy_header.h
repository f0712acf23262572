// Header of a .npy file: a Python dictionary with exactly the keys descr, fortran_order and shape.
// Format: NEP 1 and numpy.lib.format, versions 1.0 to 3.0.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ligerdsl::cli {

struct NpyHeader {
  std::string descr;  // "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Error in a file. Its text does not name the file.
struct NpyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Parses a header. Throws NpyError with the position of the error. The time is linear in the text's
// length.
NpyHeader parse_npy_header(std::string_view text);

}  // namespace ligerdsl::cli

// NumPy's .npy files: versions 1.0 to 3.0, C order, little endian; written as 1.0. bf16 travels as uint16 ("<u2").
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"

namespace ligerdsl::cli {

struct Array {
  std::string descr;  // "<f4", "<f8", "<f2", "<u2", "<i2", "<i4", "<i8", "|i1", "|b1"
  std::vector<int64_t> shape;
  std::string bytes;   // as many as descr and shape say
  std::string source;  // the file, for messages
};

// Throws Failure with the file's name and what is wrong.
Array read_npy(const std::string& path);
// The same of a stream, which ends with the array. Throws NpyError (npy_header.h).
Array parse_npy(std::istream& in);
void write_npy(const std::string& path, const Array& array);

// The number of elements. Throws Failure for more than memory can address.
int64_t elements(const std::vector<int64_t>& shape);

// Conversion by value; integers to floats and back where exact. Throws Failure when the kinds do not fit.
std::string convert(const Array& array, DType to);
std::vector<double> to_doubles(const std::string& bytes, DType type);
Array from_memory(const std::string& bytes, DType type, std::vector<int64_t> shape);
// One number in a dtype's bytes, appended.
void append(std::string* bytes, DType type, double value);

}  // namespace ligerdsl::cli

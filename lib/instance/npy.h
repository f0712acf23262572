// NumPy's .npy files: reads versions 1.0 to 3.0 in C order and little endian, writes 1.0. bf16 is
// stored as uint16 ("<u2").
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"

namespace ligerdsl::cli {

struct Array {
  std::string descr;  // "<f4", "<f8", "<f2", "<u2", "<i2", "<i4", "<i8", "|i1", "|b1", "|u1"
  std::vector<int64_t> shape;
  std::string bytes;   // elements in C order
  std::string source;  // file name, for errors
};

// Reads a file. Throws Failure with the file's name and the reason.
Array read_npy(const std::string& path);
// Reads an array from a stream, which must end after it. Throws NpyError (npy_header.h).
Array parse_npy(std::istream& in);
void write_npy(const std::string& path, const Array& array);

// Returns the number of elements. Throws Failure if it exceeds any memory.
int64_t elements(const std::vector<int64_t>& shape);

// Converts values to the dtype. Throws Failure for incompatible types, or an integer that the new
// dtype cannot hold.
std::string convert(const Array& array, DType to);
std::vector<double> to_doubles(const std::string& bytes, DType type);
Array from_memory(const std::string& bytes, DType type, std::vector<int64_t> shape);
// Appends the bytes of one number of a dtype.
void append(std::string* bytes, DType type, double value);

}  // namespace ligerdsl::cli

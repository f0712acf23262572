// NumPy's .npy files, version 1.0, C order, little endian. bf16 travels as uint16 ("<u2").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"

namespace ligerdsl::cli {

struct Array {
  std::string descr;  // "<f4", "<f8", "<f2", "<u2", "<i4", "<i8"
  std::vector<int64_t> shape;
  std::string bytes;
};

// Throws Failure with the file's name and what is wrong.
Array read_npy(const std::string& path);
void write_npy(const std::string& path, const Array& array);

int64_t elements(const std::vector<int64_t>& shape);

// Conversion by value; integers to floats and back where exact. Throws Failure when the kinds do not fit.
std::string convert(const Array& array, DType to);
std::vector<double> to_doubles(const std::string& bytes, DType type);
Array from_memory(const std::string& bytes, DType type, std::vector<int64_t> shape);
// One number in a dtype's bytes, appended.
void append(std::string* bytes, DType type, double value);

}  // namespace ligerdsl::cli

// Names of an operation's calls in profilers and traces (runtime/observe/ranges.h).
#pragma once

#include <string>

#include "lib/abi/op_info.h"
#include "runtime/observe/ranges.h"

namespace ligerdsl::lib {

// Returns the operation and the fields that differ from their defaults: "rms_norm_forward
// n_cols=4096 dtype=bf16".
std::string range_name(const OpInfo& info, const void* desc);

// Range of one execute. Its name has the plan's name and the number of rows; its payload is the
// number of rows. Does not allocate.
class ExecuteRange {
 public:
  ExecuteRange(const std::string& name, int64_t rows);

 private:
  struct Name {
    Name(const std::string& name, int64_t rows);
    char text[224];
  } name_;
  runtime::Range range_;
};

}  // namespace ligerdsl::lib

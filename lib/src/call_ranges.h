// What an operation's calls are called where somebody listens (runtime/observe/ranges.h).
#pragma once

#include <string>

#include "lib/src/op_info.h"
#include "runtime/observe/ranges.h"

namespace ligerdsl::lib {

// "rms_norm_forward n_cols=4096 dtype=bf16": the fields that differ from their defaults.
std::string range_name(const OpInfo& info, const void* desc);

// Of one execute: the plan's name and the call's rows, which are the payload too. Takes no memory.
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

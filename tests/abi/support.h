// Helpers of the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <ligerdsl/ligerdsl.hpp>
#include <string>
#include <vector>

namespace ligerdsl::test {

// Expects this status and a message that contains every word.
inline void expect_failure(ligerdsl_status_t got, ligerdsl_status_t expected,
                           std::initializer_list<const char*> words) {
  const std::string text = ligerdsl_last_error();
  EXPECT_STREQ(ligerdsl_status_name(got), ligerdsl_status_name(expected)) << text;
  for (const char* word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "no \"" << word << "\" in: " << text;
}

// A CPU tensor that owns its memory.
struct Owned {
  Owned(int32_t dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {})
      : storage(4096),
        tensor(storage.data(), {LIGERDSL_CPU, 0}, dtype, std::move(shape), std::move(strides)) {}
  operator const ligerdsl_tensor_t*() const { return tensor; }
  float* floats() { return reinterpret_cast<float*>(storage.data()); }
  uint16_t* halves() { return reinterpret_cast<uint16_t*>(storage.data()); }

  std::vector<int64_t> storage;  // 32 KB, aligned to 8
  Tensor tensor;
};

}  // namespace ligerdsl::test

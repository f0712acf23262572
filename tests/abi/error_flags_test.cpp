#include "lib/abi/error_flags.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <string_view>

#include "kernels/core/argument_facts.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/embedding/embedding.h"
#include "lib/abi/op_info.h"

namespace ligerdsl::test::error_flags_test {
namespace {

// Sets the error flag as a kernel of the operation does for `row`.
void report(const lib::ErrorFlags& words, const lib::OpInfo& info, int64_t row) {
  auto* word = reinterpret_cast<int64_t*>(words.word(info.index).data);
  std::atomic_ref(*word).store(kernels::kErrorBase - row);
}

TEST(ErrorFlags, EveryOperationHasOne) {
  const auto device = runtime::Device::create({.num_threads = 1});
  lib::ErrorFlags words(*device);
  EXPECT_FALSE(words.take());
  for (const lib::OpInfo* info : lib::op_table()) report(words, *info, info->index);
  for (const lib::OpInfo* info : lib::op_table()) {
    const auto fault = words.take();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->operation, info);
    EXPECT_EQ(fault->row, info->index);
  }
  EXPECT_FALSE(words.take());
}

// Returns the words that an error uses for the place of fault 7, for example "row 7".
std::string words_of(lib::Reported reported) {
  switch (reported) {
    case lib::Reported::label:
    case lib::Reported::shard_label:
      return "row 7";
    case lib::Reported::index:
      return "position 7";
    case lib::Reported::group:
      return "group 7";
    case lib::Reported::sequence:
      return "sequence 7";
    case lib::Reported::step:
      return "device_step";
  }
  return "";
}

// Invalid labels and indices give INVALID_LABEL. Invalid offsets, sequence bounds and steps give
// INVALID_BOUNDS.
TEST(ErrorFlags, StatusDistinguishesLabelsFromBounds) {
  int bounds = 0;
  for (const lib::OpInfo* info : lib::op_table()) {
    const runtime::Error error = lib::error_of({info, 7});
    const std::string text = error.what();
    EXPECT_EQ(text.find(std::string(info->name) + ": "), 0u) << text;
    EXPECT_NE(text.find("out of bounds"), std::string::npos) << text;
    const std::string words = words_of(info->reported);
    EXPECT_NE(text.find(words), std::string::npos) << text;
    const bool is_label = words == "row 7" || words == "position 7";
    EXPECT_EQ(error.status(),
              is_label ? runtime::Status::invalid_label : runtime::Status::invalid_bounds)
        << info->name;
    bounds += !is_label;
  }
  EXPECT_GE(bounds, 6);  // grouped matmuls, attention of sequences, AdamW
}

// With an unaligned error flag, a launch could not use the aligned variant, which loads by vectors.
TEST(ErrorFlags, AreAlignedForKernels) {
  const auto device = runtime::Device::create({.num_threads = 1});
  const lib::ErrorFlags words(*device);
  int found = 0;
  for (const kernels::Operation& operation :
       {kernels::cross_entropy_kernel({}, {}), kernels::embedding_forward({}, {})}) {
    for (const kernels::Step& step : operation.steps) {
      const auto facts = kernels::argument_facts(step.program, kernels::Variant::aligned);
      for (size_t i = 0; i < facts.size(); ++i) {
        if (step.program.arguments[i].name != "error") continue;
        ++found;
        for (const lib::OpInfo* info : lib::op_table()) {
          const lib::BoundTensor word = words.word(info->index);
          EXPECT_TRUE(kernels::is_aligned(facts[i], word.data, word.dims, word.strides))
              << info->name;
        }
      }
    }
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace ligerdsl::test::error_flags_test

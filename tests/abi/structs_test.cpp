// Versioned structs: older, newer and invalid ones.
#include <cstring>

#include "support.h"

namespace ligerdsl::test::structs_test {
namespace {

class Structs : public testing::Test {
 protected:
  ligerdsl_status_t create(const ligerdsl_context_config_t* config) {
    ligerdsl_context_t context = nullptr;
    const ligerdsl_status_t status = ligerdsl_context_create(config, &context);
    ligerdsl_context_destroy(context);
    return status;
  }
  static ligerdsl_context_config_t fresh() {
    ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
    return config;
  }
  ligerdsl_context_config_t config_ = fresh();
};

TEST_F(Structs, InitialisedIsAccepted) {
  EXPECT_EQ(create(&config_), LIGERDSL_SUCCESS) << ligerdsl_last_error();
}

TEST_F(Structs, MissingMagicIsRefused) {
  config_.magic = 0;
  expect_failure(create(&config_), LIGERDSL_ABI_MISMATCH, {"config", "magic", "_INIT"});
}

TEST_F(Structs, ZeroedStructIsRefused) {
  std::memset(&config_, 0, sizeof config_);
  expect_failure(create(&config_), LIGERDSL_ABI_MISMATCH, {"magic"});
}

TEST_F(Structs, ShorterThanFirstReleaseIsRefused) {
  config_.struct_size = 24;
  expect_failure(create(&config_), LIGERDSL_ABI_MISMATCH, {"struct_size is 24", "at least"});
}

TEST_F(Structs, OtherMajorVersion) {
  config_.version = 70000;
  expect_failure(create(&config_), LIGERDSL_ABI_MISMATCH, {"major version 7"});
}

// A struct of a later header, with fields that the library does not know.
struct Later {
  ligerdsl_context_config_t known;
  int64_t added;
};

TEST_F(Structs, LaterFieldsMayBeZero) {
  Later later{config_, 0};
  later.known.struct_size = sizeof later;
  EXPECT_EQ(create(&later.known), LIGERDSL_SUCCESS) << ligerdsl_last_error();
}

TEST_F(Structs, LaterFieldsMayNotBeSet) {
  Later later{config_, 5};
  later.known.struct_size = sizeof later;
  expect_failure(create(&later.known), LIGERDSL_ABI_MISMATCH,
                 {"sets fields after byte", "does not know"});
}

TEST_F(Structs, AbsurdSize) {
  config_.struct_size = size_t{1} << 40;
  expect_failure(create(&config_), LIGERDSL_ABI_MISMATCH, {"struct_size"});
}

TEST_F(Structs, DescAndArgsAreCheckedToo) {
  const Context context = Context::cpu(1);
  VectorAddDesc desc = vector_add_desc();
  VectorAddArgs args = vector_add_args();
  args.magic = 1;
  expect_failure(ligerdsl_vector_add(context.get(), &desc, &args, nullptr), LIGERDSL_ABI_MISMATCH,
                 {"vector_add", "args"});
  desc.struct_size = 16;
  expect_failure(ligerdsl_vector_add(context.get(), &desc, &args, nullptr), LIGERDSL_ABI_MISMATCH,
                 {"vector_add", "desc"});
}

TEST_F(Structs, BadContextValues) {
  config_.device = {7, 0};
  expect_failure(create(&config_), LIGERDSL_INVALID_DEVICE, {"device.type", "got 7"});
  config_ = fresh();
  config_.num_threads = -1;
  expect_failure(create(&config_), LIGERDSL_INVALID_ARGUMENT, {"num_threads", "got -1"});
  config_ = fresh();
  config_.flags = 1u << 31;
  expect_failure(create(&config_), LIGERDSL_INVALID_ARGUMENT, {"flags", "got 0x80000000"});
}

}  // namespace
}  // namespace ligerdsl::test::structs_test

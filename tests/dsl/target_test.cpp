// Tests the device that a kernel is recorded for: lookup by name, and passing it through the kernel
// tables of other binaries.
#include "ligerdsl/dsl/target.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ligerdsl/dsl.h"
#include "program/gpu_arch.h"
#include "program/program.h"

namespace ligerdsl {
namespace {

template <class F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct NoMeta {
  template <class V>
  void visit(V&&) {}
};

// The targets with which kForTarget was last recorded and launched.
ligerdsl_target_t recorded_for, launched_for;

const Kernel<NoMeta> kForTarget{.name = "for_target",
                                .description = "keeps its target",
                                .build =
                                    [](KernelBuilder& k, const NoMeta&) {
                                      recorded_for = k.target();
                                      k.view("y", f32, {dyn}).store({0}, 1.0f);
                                    },
                                .launch =
                                    [](const NoMeta&, const LaunchArguments& a) {
                                      launched_for = a.target();
                                      return Launch{.num_warps = 1};
                                    }};
const Kernel<NoMeta> kIndifferent{
    .name = "indifferent",
    .description = "asks for no target",
    .build = [](KernelBuilder& k, const NoMeta&) { k.view("y", f32, {dyn}).store({0}, 1.0f); },
    .launch = [](const NoMeta&, const LaunchArguments&) { return Launch{.num_warps = 1}; }};

// Registers the kernels at the first call, so that tests of the registry alone do not see them.
std::unique_ptr<AnyKernel> loaded(const std::string& name, const ligerdsl_author_table* table) {
  static const detail::Registration for_target(kForTarget), indifferent(kIndifferent);
  for (auto& kernel : kernels_of(table)) {
    if (kernel->name() == name) return std::move(kernel);
  }
  return nullptr;
}

bool equal(const ligerdsl_target_t& a, const ligerdsl_target_t& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// Returns a target whose bytes all differ, so that an exchanged or missing field is found.
Target distinct() {
  ligerdsl_target_t data;
  auto* bytes = reinterpret_cast<unsigned char*>(&data);
  for (size_t i = 0; i < sizeof data; ++i) bytes[i] = static_cast<unsigned char>(i + 1);
  data.name[sizeof data.name - 1] = '\0';
  return Target(data);
}

TEST(Target, AcceptsTheNamesOfTheCommandLine) {
  const Target cpu = target_named("cpu");
  EXPECT_FALSE(cpu.is_gpu());
  EXPECT_STREQ(cpu.name, "cpu");
  EXPECT_TRUE(cpu.vector_bytes == 16 || cpu.vector_bytes == 32 || cpu.vector_bytes == 64)
      << cpu.vector_bytes;
  EXPECT_EQ(cpu.max_cluster, 1) << "a CPU has no clusters";
  EXPECT_EQ(target_named("x86-64-v2").vector_bytes, 16);
  EXPECT_EQ(target_named("x86-64-v3").vector_bytes, 32);
  EXPECT_EQ(target_named("x86-64-v4").vector_bytes, 64);
  for (const program::GpuArch& arch : program::gpu_archs())
    EXPECT_TRUE(equal(target_named(arch.name), arch));
  const std::string message = message_of([] { target_named("sm_91"); });
  EXPECT_EQ(
      message.find("error: there is no target 'sm_91'; expected one of cpu, x86-64, x86-64-v2"), 0u)
      << message;
  EXPECT_NE(message.find("sm_90a"), std::string::npos);
}

TEST(Target, FieldsMatchTheTableOfArchitectures) {
  const Target h200 = target_named("sm_90a"), small = target_named("sm_120");
  EXPECT_TRUE(h200.is_gpu());
  EXPECT_EQ(h200.capability, 90);
  EXPECT_EQ(h200.sms, 132);
  EXPECT_EQ(h200.threads_per_sm, 2048);
  EXPECT_EQ(h200.max_ctas_per_sm, 32);
  EXPECT_EQ(h200.registers_per_sm, 65536);
  EXPECT_EQ(h200.max_registers, 255);
  EXPECT_EQ(h200.max_cluster, 16);
  EXPECT_EQ(h200.vector_bytes, 16);
  EXPECT_EQ(h200.shared_per_sm, 228 * 1024);
  EXPECT_EQ(h200.shared_per_cta, 227 * 1024);
  EXPECT_EQ(h200.shared_reserved, 1024);
  EXPECT_EQ(h200.l2_bytes, 60 * 1024 * 1024);
  EXPECT_EQ(h200.resident_budget(1), 223 * 1024);
  EXPECT_EQ(h200.shared_for_rows(), 200 * 1024);
  EXPECT_EQ(h200.threads_with(64), 1024);
  EXPECT_EQ(small.max_cluster, 8);
  EXPECT_EQ(small.ctas_per_sm(8), 6);
  EXPECT_EQ(small.shared_budget(2), 49 * 1024);
}

TEST(Target, CpuHasNoGpuResources) {
  const Target cpu;
  EXPECT_EQ(cpu.ctas_per_sm(4), 0);
  EXPECT_EQ(cpu.threads_with(64), 0);
  EXPECT_EQ(cpu.register_bytes(128), 0);
  EXPECT_EQ(cpu.shared_budget(2), 0);
  EXPECT_EQ(cpu.resident_budget(2), 0);
  EXPECT_EQ(cpu.shared_for_rows(), 0);
}

TEST(Target, ReachesTheKernelAndItsLaunchRule) {
  const Target target = distinct();
  recorded_for = launched_for = {};
  program_bytes(kForTarget, NoMeta{}, target);
  kForTarget.launch({}, LaunchArguments({}, target));
  EXPECT_TRUE(equal(recorded_for, target));
  EXPECT_TRUE(equal(launched_for, target));
  recorded_for = {};
  record(kForTarget, NoMeta{}, target);
  EXPECT_TRUE(equal(recorded_for, target));
}

TEST(Target, MissingTargetIsAnError) {
  const std::string message = message_of([] { program_bytes(kForTarget, NoMeta{}); });
  EXPECT_NE(message.find("target_test.cpp:"), std::string::npos) << message;
  EXPECT_NE(message.find("error: target: the kernel is recorded without a target; pass a Target"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              kForTarget.launch({}, LaunchArguments());
            }).find("error: launch rule: the launch has no target"),
            std::string::npos);
}

TEST(Target, TablePassesEveryField) {
  const auto kernel = loaded("for_target", author_table());
  ASSERT_TRUE(kernel);
  const Target target = distinct();
  recorded_for = launched_for = {};
  kernel->program_bytes({}, target);
  EXPECT_TRUE(equal(recorded_for, target));
  EXPECT_EQ(kernel->launch({}, LaunchArguments({}, target)).num_warps, 1);
  EXPECT_TRUE(equal(launched_for, target));
}

// The caller's struct may have more fields than the table knows, or fewer.
TEST(Target, TableAcceptsOtherStructSizes) {
  static_cast<void>(loaded("for_target", author_table()));
  const ligerdsl_author_table& table = *author_table();
  const size_t index = table.count() - 2;
  struct Later {
    ligerdsl_target_t known;
    int64_t more;
  } const later{target_named("sm_90a"), -1};
  const size_t earlier = offsetof(ligerdsl_target_t, l2_bytes);
  ligerdsl_author_bytes program{}, error{};
  for (const size_t size : {sizeof later, earlier}) {
    ASSERT_EQ(table.record_for(index, "", &later.known, size, &program, &error), 0) << error.data;
    table.free_bytes(program);
    ligerdsl_target_t expected = later.known;
    if (size == earlier) expected.l2_bytes = 0;
    EXPECT_TRUE(equal(recorded_for, expected));
  }
}

// An older table has no functions that take a target. It must still serve `indifferent`, which
// needs none; only `for_target` fails.
TEST(Target, OlderTableServesKernelsThatDoNotAskForIt) {
  ligerdsl_author_table older = *author_table();
  older.struct_size = offsetof(ligerdsl_author_table, record_for);
  older.record_for = [](auto...) -> int32_t {
    throw std::logic_error("called beyond struct_size");
  };
  older.launch_for = [](auto...) -> int32_t {
    throw std::logic_error("called beyond struct_size");
  };
  const Target target = target_named("sm_90a");
  const auto indifferent = loaded("indifferent", &older), for_target = loaded("for_target", &older);
  EXPECT_EQ(indifferent->program_bytes({}, target), program_bytes(kIndifferent, NoMeta{}));
  EXPECT_EQ(indifferent->launch({}, LaunchArguments({}, target)).num_warps, 1);
  EXPECT_NE(message_of([&] {
              for_target->program_bytes({}, target);
            }).find("kernel 'for_target': target: the kernel is recorded without a target"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              for_target->launch({}, LaunchArguments({}, target));
            }).find("kernel 'for_target': launch rule: the"),
            std::string::npos);
}

}  // namespace
}  // namespace ligerdsl

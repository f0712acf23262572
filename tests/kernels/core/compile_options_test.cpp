#include "kernels/core/compile_options.h"

#include <gtest/gtest.h>

#include "ligerdsl/dsl.h"
#include "program/serialize.h"

namespace ligerdsl::test::compile_options_test {
namespace {

using kernels::ArgPromise;
using kernels::Variant;

program::Program copy_rows() {
  KernelBuilder k("copy_rows");
  View y = k.view("y", f32, {dyn, 64});
  View x = k.view("x", f32, {dyn, 64});
  k.view("unused", f32, {dyn, 64});
  Scalar row = k.program_id(0);
  y.partition({squeeze, 64}).store({row, 0}, x.partition({squeeze, 64}).load({row, 0}));
  return k.finish();
}

std::vector<bool> read_only(const program::CompileOptions& options) {
  std::vector<bool> all;
  for (const program::ArgFacts& facts : options.facts) all.push_back(facts.read_only);
  return all;
}

TEST(LaunchCompileOptions, EveryChoiceReachesTheCompiler) {
  program::CompileOptions base;
  base.target = program::Target::nvptx;
  base.arch = "sm_90a";
  base.ptx_version = 80;
  base.launch_overlap = base.contract = false;
  const Launch launch{.num_warps = 8,
                      .num_ctas = 2,
                      .num_stages = 3,
                      .min_ctas_per_sm = 4,
                      .max_registers = 64,
                      .no_alias = false};
  program::CompileOptions expected = base;
  expected.num_warps = 8;
  expected.num_ctas = 2;
  expected.num_stages = 3;
  expected.min_ctas_per_sm = 4;
  expected.max_registers = 64;
  const program::CompileOptions options =
      kernels::compile_options(base, copy_rows(), launch, Variant::any);
  expected.facts = options.facts;
  EXPECT_EQ(program::serialize(options), program::serialize(expected));
}

TEST(LaunchCompileOptions, ArgumentThatMayOverlapAWriteIsNotReadOnly) {
  const program::Program program = copy_rows();
  const auto facts = [&](const Launch& launch, std::vector<ArgPromise> promises) {
    return read_only(
        kernels::compile_options({}, program, launch, Variant::any, std::move(promises)));
  };
  const std::vector<bool> none(3, false), disjoint = {false, true, true};
  EXPECT_EQ(facts({}, {}), none);
  EXPECT_EQ(facts({}, kernels::all_disjoint(program)), disjoint);
  EXPECT_EQ(facts({.no_alias = true}, {}), disjoint);
  EXPECT_EQ(facts({}, {{.alias_class = 1}, {.alias_class = 1}, {.alias_class = 2}}),
            (std::vector<bool>{false, false, true}));
}

TEST(LaunchCompileOptions, PromisedSizesAreFacts) {
  const program::Program program = copy_rows();
  const auto options =
      kernels::compile_options({}, program, {}, Variant::aligned, {{.exact = {7, -1}}, {}, {}});
  EXPECT_EQ(options.facts[0].dims[0].exact, 7);
  EXPECT_EQ(options.facts[1].dims[0].exact, -1);
  EXPECT_EQ(options.facts[0].pointer_align, 16);
}

}  // namespace
}  // namespace ligerdsl::test::compile_options_test

// Tests the bytes of programs, options and artifacts: round trips and damaged bytes.
#include "program/serialize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "program/print.h"
#include "sample.h"

namespace ligerdsl::program {
namespace {

CompileOptions some_options() {
  CompileOptions options;
  options.target = Target::nvptx;
  options.arch = "sm_90a";
  options.num_warps = 8;
  options.launch_overlap = false;
  options.contract = false;
  options.facts = {{16, {{-1, 8}, {64, 64}}, {{64, 64}, {1, 1}}, 3, true}, {}};
  options.emit = "ptx";
  options.tile = "module {}";
  options.tile_file = "02-tile.mlir";
  options.spans = true;
  return options;
}

Artifact some_artifact() {
  Artifact artifact;
  artifact.target = Target::nvptx;
  artifact.arch = "sm_80";
  artifact.entry = "ligerdsl_x";
  artifact.code = std::string("a\0b", 3);
  artifact.slots = 7;
  artifact.threads = 128;
  artifact.shared_bytes = 4096;
  artifact.launch_overlap = true;
  artifact.dynamic_persistent = true;
  artifact.maps = {{.slot = 5, .type = DType::bf16, .box = {128, 64}, .swizzle = 128},
                   {.slot = 9,
                    .type = DType::f16,
                    .box = {1, 64, 32},
                    .swizzle = 64,
                    .sliced = 1,
                    .stores = true}};
  artifact.facts = some_options().facts;
  artifact.remarks = {
      {"kernel.cpp", 12, 3, "tile-keep-residents", "row not kept", "resident-row-not-cached"},
      {.text = "no place"}};
  artifact.times = {{"llvm", 1.25}};
  artifact.spans = {{"InstCombinePass", "kernel", int64_t{1} << 40, 7}};
  return artifact;
}

template <class Parse>
void expect_damage_is_rejected(const std::string& bytes, Parse parse) {
  for (size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 2000) {
    EXPECT_THROW(parse(std::string_view(bytes).substr(0, size)), std::runtime_error) << size;
  }
  EXPECT_THROW(parse(bytes + "x"), std::runtime_error);
}

// Flips single bits. The parser must reject the changed bytes, or return something that serialises
// to exactly these bytes.
template <class Parse>
void expect_flips_are_safe(const std::string& bytes, Parse parse, size_t stride = 1) {
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += stride) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      const auto parsed = parse(flipped);
      EXPECT_TRUE(serialize(parsed) == flipped) << "bit " << bit;
    } catch (const std::runtime_error&) {
    }
  }
}

TEST(Serialize, ProgramRoundTrips) {
  const Program program = test::every_op();
  const std::string bytes = serialize(program);
  const Program parsed = parseProgram(bytes);
  EXPECT_EQ(serialize(parsed), bytes);
  EXPECT_EQ(print(parsed), print(program));
}

TEST(Serialize, EqualProgramsGiveEqualBytes) {
  EXPECT_EQ(serialize(test::every_op()), serialize(test::every_op()));
}

TEST(Serialize, LocationsChangeTheBytes) {
  Program a = test::every_op(), b = a;
  b.body.ops[0].loc.line += 1;
  EXPECT_NE(serialize(a), serialize(b));
}

TEST(Serialize, NansAreCanonical) {
  const auto with_pad = [](double pad) {
    KernelBuilder k("nan");
    k.view("x", f32, {dyn}).load({0}, {.pad = pad}, Loc());
    return serialize(k.finish());
  };
  EXPECT_EQ(with_pad(std::nan("1")), with_pad(-std::nan("2")));
}

TEST(Serialize, OptionsRoundTrips) {
  const CompileOptions options = some_options();
  const CompileOptions parsed = parseOptions(serialize(options));
  EXPECT_EQ(serialize(parsed), serialize(options));
  EXPECT_EQ(parsed.facts, options.facts);
  EXPECT_EQ(parsed.arch, "sm_90a");
  EXPECT_FALSE(parsed.launch_overlap);
  EXPECT_FALSE(parsed.contract);
}

TEST(Serialize, ArtifactRoundTrips) {
  const Artifact parsed = parseArtifact(serialize(some_artifact()));
  EXPECT_EQ(serialize(parsed), serialize(some_artifact()));
  EXPECT_EQ(parsed.code, std::string("a\0b", 3));
  EXPECT_TRUE(parsed.launch_overlap);
  EXPECT_FALSE(parsed.persistent);
  EXPECT_TRUE(parsed.dynamic_persistent);
  EXPECT_EQ(parsed.maps, some_artifact().maps);
  EXPECT_EQ(
      to_string(parsed.remarks[0]),
      "kernel.cpp:12:3: remark: [tile-keep-residents] row not kept [resident-row-not-cached]");
  EXPECT_EQ(to_string(parsed.remarks[1]), "remark: no place");
  EXPECT_EQ(parsed.times[0].milliseconds, 1.25);
}

TEST(Serialize, TruncatedBytesAreRejected) {
  expect_damage_is_rejected(serialize(test::every_op()), parseProgram);
  expect_damage_is_rejected(serialize(some_options()), parseOptions);
  expect_damage_is_rejected(serialize(some_artifact()), parseArtifact);
}

TEST(Serialize, FlippedBitsAreRejectedOrHarmless) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr size_t kStep = 11;  // fewer bits: the address sanitizer is slow
#else
  constexpr size_t kStep = 3;
#endif
  expect_flips_are_safe(serialize(test::every_op()), parseProgram, kStep);
  expect_flips_are_safe(serialize(some_options()), parseOptions);
  expect_flips_are_safe(serialize(some_artifact()), parseArtifact);
}

TEST(Serialize, RandomDamageIsSafe) {
  const std::string bytes = serialize(test::every_op());
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 4; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      parseProgram(damaged);
    } catch (const std::runtime_error&) {
    }
  }
}

TEST(Serialize, ReadOnlyViewsStayReadOnly) {
  KernelBuilder k("copy");
  k.view("to", f32, {dyn}).store({0}, k.view("from", f32, {dyn}, {.read_only = true}).load({0}));
  const Program program = parseProgram(k.finish_bytes());
  EXPECT_FALSE(program.arguments[0].read_only);
  EXPECT_TRUE(program.arguments[1].read_only);
}

TEST(Serialize, ErrorNamesOtherVersion) {
  std::string bytes = serialize(test::every_op());
  bytes[4] = 99;
  try {
    parseProgram(bytes);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("version 99"), std::string::npos) << error.what();
  }
}

TEST(Serialize, DeepNestingIsRejected) {
  Program program = test::every_op();
  for (int depth = 0; depth < 200; ++depth) {
    Op wrapper;
    wrapper.code = OpCode::if_else;
    wrapper.regions.push_back(std::move(program.body));
    program.body = {};
    program.body.ops.push_back(std::move(wrapper));
  }
  EXPECT_THROW(parseProgram(serialize(program)), std::runtime_error);
}

}  // namespace
}  // namespace ligerdsl::program

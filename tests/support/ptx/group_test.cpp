// Tests wgmma: which registers and memory belong to the tensor cores, and when a warp may use them
// again. Also tests mma.sync.
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "tests/support/ptx/test_kernel.h"

namespace ligerdsl::test::ptx {
namespace {

// Parts of a kernel that multiplies A, ones in registers, by B, eight 32-byte rows of ones in
// shared memory. The accumulator starts as zeros.
struct Product {
  std::string proxy = "fence.proxy.async.shared::cta;", descriptor = "13835058124001705984",
              fence = "wgmma.fence.sync.aligned;", commit = "wgmma.commit_group.sync.aligned;",
              between, wait = "wgmma.wait_group.sync.aligned 	0;",
              store = "st.global.b32 	[%rd1], %r30;", scale = "-1", zeros = "mov.b32 	%r30, 0;";
};

std::string product(const Product& p = {}) {
  std::string text = R"(
	mov.b32 	%r20, 1065369472;
	st.shared.b32 	[%rd2], %r20;
	$proxy
	bar.sync 	0;
	cvt.u32.u64 	%r21, %rd5;
	shr.u32 	%r22, %r21, 4;
	cvt.u64.u32 	%rd20, %r22;
	or.b64 	%rd21, %rd20, $descriptor;
	setp.gt.u32 	%p2, %r1, 31;
	$zeros
	mov.b32 	%r31, 0;
	mov.b32 	%r32, 0;
	mov.b32 	%r33, 0;
	mov.pred 	%p1, $scale;
	$fence
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 	{%r30, %r31, %r32, %r33}, {%r20, %r20, %r20, %r20}, %rd21, %p1, 1, 1, 0;
	$commit
	$between
	$wait
	$store)";
  const std::pair<const char*, std::string> parts[] = {
      {"$proxy", p.proxy},   {"$descriptor", p.descriptor}, {"$fence", p.fence},
      {"$commit", p.commit}, {"$between", p.between},       {"$wait", p.wait},
      {"$store", p.store},   {"$scale", p.scale},           {"$zeros", p.zeros}};
  for (const auto& [name, value] : parts) text = with(text, name, value);
  return text;
}

TEST(PtxGroup, MultipliesRegistersBySharedMemory) {
  for (const auto& [scale, between] : std::vector<std::pair<std::string, std::string>>{
           {"-1", ""}, {"0", ""}, {"-1", "wgmma.wait_group.sync.aligned 	1;"}}) {
    const Result result = run_kernel(product({.between = between, .scale = scale}), {.ctas = 2});
    ASSERT_EQ(result.error, "");
    for (const uint32_t sum : result.out) EXPECT_EQ(std::bit_cast<float>(sum), 16.0f);
  }
}

TEST(PtxGroup, AccumulatorWithScaleZeroNeedNotBeWritten) {
  const Result result = run_kernel(product({.scale = "0", .zeros = ""}), {.ctas = 2});
  ASSERT_EQ(result.error, "");
  for (const uint32_t sum : result.out) EXPECT_EQ(std::bit_cast<float>(sum), 16.0f);
}

// Returns a kernel in which each warp executes one mma.sync. All registers of an operand contain
// the same word.
std::string product_of_words(const std::string& types, const std::string& left,
                             const std::string& right, const std::string& sum) {
  return with(with(with(with(R"(
	mov.b32 	%r20, $left;
	mov.b32 	%r21, $right;
	mov.b32 	%r22, $sum;
	mma.sync.aligned.$types 	{%r30, %r31, %r32, %r33}, {%r20, %r20, %r20, %r20}, {%r21, %r21}, {%r22, %r22, %r22, %r22};
	st.global.b32 	[%rd1], %r33;)",
                             "$types", types),
                        "$left", left),
                   "$right", right),
              "$sum", sum);
}
const std::string kWholeTypes = "m16n8k32.row.col.s32.s8.s8.s32",
                  kTf32Types = "m16n8k8.row.col.f32.tf32.tf32.f32";

TEST(PtxMultiply, MultipliesInt8AndTf32) {
  const Result whole =
      run_kernel(product_of_words(kWholeTypes, "0x01020304", "0x01010101", "-100"));
  ASSERT_EQ(whole.error, "");
  for (const uint32_t sum : whole.out) EXPECT_EQ(static_cast<int32_t>(sum), -20);
  const Result negative =
      run_kernel(product_of_words(kWholeTypes, "0x80808080", "0x80808080", "0x7fffffff"));
  ASSERT_EQ(negative.error, "");
  for (const uint32_t sum : negative.out) EXPECT_EQ(sum, 0x7fffffffu + 32u * 128u * 128u);  // wraps
  const Result tf32 =
      run_kernel(product_of_words(kTf32Types, "0x3fc00000", "0x40000000", "0x3f800000"));
  ASSERT_EQ(tf32.error, "");
  for (const uint32_t sum : tf32.out) EXPECT_EQ(std::bit_cast<float>(sum), 25.0f);
  const Result rounded = run_kernel(
      "	mov.b32 	%r20, 0xbf801000;\n	cvt.rna.tf32.f32 	%r21, %r20;\n	"
      "st.global.b32 	[%rd1], %r21;");
  ASSERT_EQ(rounded.error, "");
  for (const uint32_t bits : rounded.out) EXPECT_EQ(bits, 0xbf802000u);
}

class PtxGroupFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(PtxGroupFaults, AreErrors) {
  const Result result = run_kernel(GetParam().body, GetParam().conditions);
  EXPECT_NE(result.error.find(GetParam().message), std::string::npos) << result.error;
}

const std::string kBetween = "bar.sync 	0;\n	st.shared.b32 	[%rd2], %r1;";

INSTANTIATE_TEST_SUITE_P(
    All, PtxGroupFaults,
    ::testing::Values(
        Fault{"NoFence", product({.fence = ""}), "wgmma without wgmma.fence before"},
        Fault{"SumNotWritten", product({.zeros = ""}),
              "the accumulator is read before it is written"},
        Fault{"NotShown", product({.proxy = ""}), "wrote, without fence.proxy.async between"},
        Fault{"NoWait", product({.wait = ""}), "still belongs to a wgmma"},
        Fault{"WaitTooShort", product({.wait = "wgmma.wait_group.sync.aligned 	1;"}),
              "still belongs to a wgmma"},
        Fault{"WaitBeforeCommit", product({.commit = ""}), "wgmma.wait_group before the commit"},
        Fault{"OperandOverwritten", product({.between = "mov.b32 	%r20, 0;"}),
              "still belongs to a wgmma"},
        Fault{"SlotOverwritten", product({.between = kBetween}),
              "write to shared memory that a wgmma of warp"},
        Fault{"NotAwaited", product({.wait = "", .store = ""}),
              "ends before it waited for a wgmma of warp"},
        Fault{
            "DifferentDescriptors",
            product({.fence =
                         "@%p2 add.s64 	%rd21, %rd21, 2;\n	wgmma.fence.sync.aligned;"}),
            "the warps of a wgmma have different descriptors"},
        Fault{
            "DifferentOperands",
            product({.fence =
                         "@%p9 add.s64 	%rd21, %rd21, 2;\n	wgmma.fence.sync.aligned;"}),
            "the threads of a wgmma have different operands"},
        Fault{"NotRounded", product_of_words(kTf32Types, "0x3fc00001", "0x40000000", "0"),
              "that was not rounded to tf32"},
        Fault{
            "FewerColumns",
            "	wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 	{%r30, %r31, %r32, %r33, "
            "%r30, %r31, %r32, "
            "%r33, %r30, "
            "%r31, %r32, %r33, %r30, %r31, %r32, %r33, %r30, %r31, %r32, %r33}, %rd21, %rd21, %p1;",
            "expected a multiple of 16 columns"},
        Fault{"NoSwizzle", product({.descriptor = "68719542272"}),
              "a descriptor without a swizzle"},
        Fault{
            "OutOfBounds",
            product({.fence = "add.s64 	%rd21, %rd21, 64;\n	wgmma.fence.sync.aligned;"}),
            "bytes of shared memory"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ligerdsl::test::ptx
